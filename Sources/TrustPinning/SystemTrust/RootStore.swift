// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import SwiftASN1
internal import Synchronization
internal import X509

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// The roots that chains may end in.
public final class RootStore: Sendable {
    private enum Source: Sendable {
        case files([String])
        case certificates([[UInt8]])
    }

    struct Loaded {
        let store: CertificateStore
        /// The most name constraints that one of them has.
        let constraintCount: Int

        init(_ roots: [Certificate]) {
            store = CertificateStore(roots)
            constraintCount = roots.map(\.constraintCount).max() ?? 0
        }
    }

    private let source: Source
    /// Whether a server's certificate without alternative names is for its common name. No store of a system does that.
    let acceptsCommonName: Bool
    private let loaded = Mutex<Result<Loaded, SystemTrustFailure>?>(nil)

    private init(_ source: Source, acceptsCommonName: Bool = false) {
        self.source = source
        self.acceptsCommonName = acceptsCommonName
    }

    /// The bundle of the operating system, in the places where Linux distributions keep it. It is read when it is
    /// first used, once.
    public static let system = RootStore(
        .files(["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"]))

    /// The first of these PEM files that there is. It is read when it is first used, once. Certificates in it that
    /// cannot be read are left out.
    public static func bundle(atPaths paths: [String]) -> RootStore { RootStore(.files(paths)) }

    /// These certificates and no others, in DER: a private authority, for example.
    ///
    /// - Parameters:
    ///   - certificates: the roots.
    ///   - acceptsCommonName: whether a server's certificate that has no alternative names at all is for its common name.
    ///     RFC 9525 (section 2) forbids it; there are private authorities that issue nothing else. Chains with name
    ///     constraints, which are not about common names, are refused then.
    /// - Throws: ``PinError`` if one of them cannot be read, or if there is none.
    public static func certificates(
        _ certificates: [[UInt8]], acceptsCommonName: Bool = false
    ) throws(PinError) -> RootStore {
        guard !certificates.isEmpty else { throw PinError(.malformedDER, "there is no root certificate") }
        for (index, der) in certificates.enumerated() {
            do { _ = try Certificate(derEncoded: der) } catch {
                throw PinError(.malformedDER, "root certificate \(index + 1) cannot be read")
            }
        }
        return RootStore(.certificates(certificates), acceptsCommonName: acceptsCommonName)
    }

    /// These certificates and no others, from PEM text.
    ///
    /// - Throws: ``PinError`` if one of them cannot be read, or if there is none.
    public static func certificates(pem: String, acceptsCommonName: Bool = false) throws(PinError) -> RootStore {
        try certificates(
            try PEMDocument.parse(pem).filter { $0.label == "CERTIFICATE" }.map(\.der),
            acceptsCommonName: acceptsCommonName)
    }

    func certificates() throws(SystemTrustFailure) -> Loaded {
        let result = loaded.withLock { loaded in
            let result = loaded ?? load()
            loaded = result
            return result
        }
        return try result.get()
    }

    private func load() -> Result<Loaded, SystemTrustFailure> {
        switch source {
        case .certificates(let list):
            return .success(Loaded(list.compactMap { try? Certificate(derEncoded: $0) }))
        case .files(let paths):
            for path in paths {
                guard let data = try? Data(contentsOf: URL(filePath: path)) else { continue }
                guard let blocks = try? PEMDocument.parse(String(decoding: data, as: UTF8.self)) else {
                    return .failure(SystemTrustFailure(.rootsUnavailable, "\(path) is not a bundle of certificates"))
                }
                let roots = blocks.compactMap { try? Certificate(derEncoded: $0.der) }
                guard !roots.isEmpty else { continue }
                return .success(Loaded(roots))
            }
            return .failure(SystemTrustFailure(.rootsUnavailable, "there is no bundle of root certificates"))
        }
    }
}

extension Certificate {
    /// How many name constraints it has; those that cannot be read are refused by whoever verifies.
    var constraintCount: Int {
        let constraints = try? extensions.nameConstraints
        return (constraints?.permittedSubtrees.count ?? 0) + (constraints?.excludedSubtrees.count ?? 0)
    }
}
