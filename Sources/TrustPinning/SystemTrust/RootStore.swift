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

/// The trusted root certificates.
public final class RootStore: Sendable {
    private enum Source: Sendable {
        case files([String])
        case certificates([[UInt8]])
    }

    struct Loaded {
        let store: CertificateStore
        /// The maximum number of name constraints of any root.
        let constraintCount: Int

        init(_ roots: [Certificate]) {
            store = CertificateStore(roots)
            constraintCount = roots.map(\.constraintCount).max() ?? 0
        }
    }

    private let source: Source
    /// Whether the common name of a certificate without alternative names counts. Always `false` for a system's store.
    let acceptsCommonName: Bool
    private let loaded = Mutex<Result<Loaded, SystemTrustFailure>?>(nil)

    private init(_ source: Source, acceptsCommonName: Bool = false) {
        self.source = source
        self.acceptsCommonName = acceptsCommonName
    }

    /// The bundle of the operating system, at the usual paths of Linux distributions. It is read once, at the first
    /// use.
    public static let system = RootStore(
        .files(["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"]))

    /// Uses the first of these PEM files that exists and contains a certificate. It is read once, at the first use.
    /// Certificates in it that cannot be read are ignored.
    public static func bundle(atPaths paths: [String]) -> RootStore { RootStore(.files(paths)) }

    /// Uses only these certificates, in DER: for example, of a private authority.
    ///
    /// - Parameters:
    ///   - certificates: The roots.
    ///   - acceptsCommonName: Whether the common name of a certificate without alternative names counts. RFC 9525
    ///     (section 2) forbids it, but some private authorities issue no other certificates. Chains with name
    ///     constraints, which do not apply to common names, are then refused.
    /// - Throws: ``PinError`` if the list is empty or one of them cannot be read.
    public static func certificates(
        _ certificates: [[UInt8]], acceptsCommonName: Bool = false
    ) throws(PinError) -> RootStore {
        guard !certificates.isEmpty else { throw PinError(.malformedDER, "the list of root certificates is empty") }
        for (index, der) in certificates.enumerated() {
            do { _ = try Certificate(derEncoded: der) } catch {
                throw PinError(.malformedDER, "root certificate \(index + 1) cannot be read")
            }
        }
        return RootStore(.certificates(certificates), acceptsCommonName: acceptsCommonName)
    }

    /// Uses only these certificates, from PEM text.
    ///
    /// - Throws: ``PinError`` if the list is empty or one of them cannot be read.
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
            return .failure(SystemTrustFailure(.rootsUnavailable, "no bundle of root certificates was found"))
        }
    }
}

extension Certificate {
    /// The number of name constraints; 0 if they cannot be read, since the verifier refuses such certificates.
    var constraintCount: Int {
        let constraints = try? extensions.nameConstraints
        return (constraints?.permittedSubtrees.count ?? 0) + (constraints?.excludedSubtrees.count ?? 0)
    }
}
