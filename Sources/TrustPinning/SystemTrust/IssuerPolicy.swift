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

/// The results of a path search.
final class PathRecord: Sendable {
    private struct State {
        var preferred: [[UInt8]]?
        var first: [[UInt8]]?
        var failure: SystemTrustFailure?
    }

    private let date: Date
    private let leaf: [UInt8]
    private let isPreferred: @Sendable ([[UInt8]]) -> Bool
    private let state = Mutex(State())

    init(date: Date, leaf: [UInt8], isPreferred: @escaping @Sendable ([[UInt8]]) -> Bool) {
        self.date = date
        self.leaf = leaf
        self.isPreferred = isPreferred
    }

    /// The first preferred path or, without one, the first path.
    var accepted: [[UInt8]]? { state.withLock { $0.preferred ?? $0.first } }

    /// Records a valid path. Returns whether the search can end.
    func accept(_ path: UnverifiedCertificateChain) -> Bool {
        guard let chain = try? [leaf] + path.dropFirst().map(Self.der) else { return false }
        let isPreferred = isPreferred(chain)
        state.withLock { state in
            if isPreferred { state.preferred = state.preferred ?? chain }
            state.first = state.first ?? chain
        }
        return isPreferred
    }

    func reject(_ failure: SystemTrustFailure) {
        state.withLock { $0.failure = $0.failure ?? failure }
    }

    /// Returns the most helpful reason why no path was accepted.
    func failure(_ paths: [[Certificate]]) -> SystemTrustFailure {
        if let failure = state.withLock({ $0.failure }) { return failure }
        if paths.isEmpty {
            return SystemTrustFailure(.unknownIssuer, "no path leads from the certificate to a trusted root")
        }
        let certificates = paths.flatMap(\.self)
        if certificates.contains(where: { $0.notValidAfter < date }) {
            return SystemTrustFailure(.expired, "a certificate of the chain has expired")
        }
        if certificates.contains(where: { $0.notValidBefore > date }) {
            return SystemTrustFailure(.notYetValid, "a certificate of the chain is not valid yet")
        }
        return SystemTrustFailure(.constraint, "the chain breaks a constraint of one of its authorities")
    }

    private static func der(_ certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}

/// Checks requirements for issuers that swift-certificates does not check. It must be the last policy, because it
/// records the path as accepted.
struct IssuerPolicy: VerifierPolicy {
    let record: PathRecord
    let leaf: CertificateFields
    let host: HostName

    /// The critical extensions that are checked here and, for the leaf, in ``ServerIdentity``.
    let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = [
        .X509ExtensionID.subjectAlternativeName, .X509ExtensionID.extendedKeyUsage,
    ]

    func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) -> PolicyEvaluationResult {
        if let failure = self.failure(of: chain) {
            record.reject(failure)
            return .failsToMeetPolicy(reason: failure.reason)
        }
        return record.accept(chain) ? .meetsPolicy : .failsToMeetPolicy(reason: "another path is preferred")
    }

    private func failure(of chain: UnverifiedCertificateChain) -> SystemTrustFailure? {
        guard chain.count <= TrustEvaluator.maximumChainLength else {
            return SystemTrustFailure(.constraint, "the path has \(chain.count) certificates")
        }
        for (index, certificate) in chain.enumerated() {
            // A root is trusted because it is in the store, so its own signature and usage are not checked.
            let isRoot = index == chain.count - 1
            if !isRoot, certificate.signatureAlgorithm == .sha1WithRSAEncryption {
                return SystemTrustFailure(.constraint, "a certificate of the chain is signed with SHA-1")
            }
            guard index > 0, !isRoot else { continue }
            guard certificate.version == .v3 else {
                return SystemTrustFailure(.constraint, "an issuer of the chain is not a version 3 certificate")
            }
        }
        do {
            var excluded: [String] = []
            for (index, certificate) in chain.enumerated().dropFirst() {
                if let constraints = try certificate.extensions.nameConstraints {
                    // Constraints apply to alternative names only, so a certificate with only a common name would evade
                    // them.
                    guard leaf.alternativeNames != nil else {
                        return SystemTrustFailure(
                            .constraint, "an issuer constrains names, and the certificate has only a common name")
                    }
                    excluded += constraints.excludedDNSDomains
                }
                // Do not check the extended key usages of roots, for which the maintainers of the store are
                // responsible.
                if index < chain.count - 1, let usages = try certificate.extensions.extendedKeyUsage,
                    !usages.contains(.serverAuth)
                {
                    return SystemTrustFailure(
                        .wrongUsage, "an issuer of the chain must not issue certificates for servers")
                }
                if let usage = try certificate.extensions.keyUsage, !usage.keyCertSign {
                    return SystemTrustFailure(.wrongUsage, "an issuer of the chain must not sign certificates")
                }
            }
            return ServerIdentity.failure(of: leaf, host: host, excluded: excluded)
        } catch {
            return SystemTrustFailure(.constraint, "the usage of an issuer of the chain cannot be read")
        }
    }
}

/// The intermediates that a server sent, with a limit on look-ups.
///
/// The search follows every path, and ten certificates that all sign each other have millions of paths.
struct BoundedStore: CustomCertificateStore {
    private final class Counter: Sendable {
        let left: Atomic<Int>

        init(_ count: Int) { left = Atomic(count) }
    }

    private var certificates: [Certificate]
    private let counter: Counter

    /// The maximum number of look-ups. A chain with a single path needs at most ten.
    static let maximumLookups = 100

    init(_ certificates: [Certificate]) {
        self.certificates = certificates
        counter = Counter(Self.maximumLookups)
    }

    subscript(subject: DistinguishedName) -> [Certificate]? {
        get async {
            guard counter.left.subtract(1, ordering: .relaxed).newValue >= 0 else { return nil }
            let found = certificates.filter { $0.subject == subject }
            return found.isEmpty ? nil : found
        }
    }

    func contains(_ certificate: Certificate) async -> Bool { certificates.contains(certificate) }

    mutating func append(contentsOf certificates: some Sequence<Certificate>) {
        self.certificates.append(contentsOf: certificates)
    }

    static func == (one: BoundedStore, other: BoundedStore) -> Bool { one.certificates == other.certificates }

    func hash(into hasher: inout Hasher) { hasher.combine(certificates) }
}
