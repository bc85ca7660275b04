// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import Crypto
internal import SwiftASN1
internal import Synchronization
@_spi(FixedExpiryValidationTime) internal import X509

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// System trust with roots from a ``RootStore``, for platforms without their own verifier.
///
/// swift-certificates builds paths and verifies signatures, validity, basic constraints and name constraints. This type
/// adds the following checks:
/// - the host's name, without common names, and the leaf's validity and usage, with the code that policies without
///   system trust use;
/// - extended key usage and key usage of issuers;
/// - no version 1 issuers, and no SHA-1;
/// - names that issuers exclude, compared with the host and with wildcards;
/// - a limit on the number of comparisons of names with constraints.
///
/// Revocation is not checked.
///
/// Verified chains are cached, so that the next handshake with the same server only needs a look-up.
public final class RootStoreTrust: SystemTrust {
    private struct Key: Hashable {
        let host: HostName
        let digest: PinHash
    }

    private struct Verified {
        let chain: [[UInt8]]
        /// The period, in seconds since 1970, in which all certificates of the chain are valid.
        let validity: ClosedRange<Int64>
    }

    private let roots: RootStore
    private let cache = Mutex<[Key: Verified]>([:])
    private let cacheLimit: Int

    /// Trusts the roots of a store.
    ///
    /// - Parameters:
    ///   - roots: The store.
    ///   - rememberedChains: The maximum number of cached chains; 0 for none. Each uses a few KiB.
    public init(roots: RootStore = .system, rememberedChains: Int = 64) {
        self.roots = roots
        cacheLimit = rememberedChains
    }

    /// Verifies the chain that a server sent.
    public func verify(_ request: SystemTrustRequest) async -> SystemTrustResult {
        let seconds = Int64(exactly: request.date.timeIntervalSince1970.rounded(.down)) ?? .max
        let key = Key(host: request.host, digest: Self.digest(request.chain))
        if let known = cache.withLock({ $0[key] }), known.validity.contains(seconds), request.isPreferred(known.chain) {
            return .trusted(chain: known.chain)
        }
        let result = await build(request, at: seconds)
        if case .trusted(let chain) = result, request.isPreferred(chain), let validity = Self.validity(chain) {
            cache.withLock { cache in
                guard cacheLimit > 0 else { return }
                // Remove any entry, because the limit only bounds memory use.
                if cache.count >= cacheLimit, let first = cache.keys.first { cache[first] = nil }
                cache[key] = Verified(chain: chain, validity: validity)
            }
        }
        return result
    }

    private func build(_ request: SystemTrustRequest, at seconds: Int64) async -> SystemTrustResult {
        guard let leafBytes = request.chain.first, let fields = try? CertificateFields(leafBytes) else {
            return .untrusted(SystemTrustFailure(.unreadable, "the server's certificate cannot be read"))
        }
        // Run the checks without signatures first.
        if let failure = ServerIdentity.failure(
            of: fields, host: request.host, at: seconds, acceptsCommonName: self.roots.acceptsCommonName)
        {
            return .untrusted(failure)
        }
        let roots: RootStore.Loaded
        do { roots = try self.roots.certificates() } catch { return .untrusted(error) }
        guard let leaf = try? Certificate(derEncoded: leafBytes) else {
            let reason = "the server's certificate has a key or a form that is not supported"
            return .untrusted(SystemTrustFailure(.unreadable, reason))
        }
        // Ignore other certificates that cannot be read.
        let others = request.chain.dropFirst().compactMap { try? Certificate(derEncoded: $0) }
        let sent = [leaf] + others
        let names = sent.reduce(0) { $0 + ((try? $1.extensions.subjectAlternativeNames)?.count ?? 0) }
        let constraints = sent.reduce(roots.constraintCount) { $0 + $1.constraintCount }
        if let failure = ServerIdentity.compares(names, with: constraints) { return .untrusted(failure) }
        let record = PathRecord(date: request.date, leaf: leafBytes, isPreferred: request.isPreferred)
        var verifier = Verifier(rootCertificates: roots.store) {
            RFC5280Policy(fixedExpiryValidationTime: request.date)
            IssuerPolicy(record: record, leaf: fields, host: request.host)
        }
        let intermediates = CertificateStore(custom: BoundedStore(others))
        let result = await verifier.validate(leaf: leaf, intermediates: intermediates)
        if let chain = record.accepted { return .trusted(chain: chain) }
        guard case .couldNotValidate(let failures) = result else {
            return .untrusted(SystemTrustFailure(.other, "the chain was only partly verified"))
        }
        return .untrusted(record.failure(failures.map { Array($0.chain) }))
    }

    private static func digest(_ chain: [[UInt8]]) -> PinHash {
        // Each hash has a fixed size, so different chains cannot produce the same input.
        PinHash(sha256Of: chain.flatMap { PinHash(sha256Of: $0).bytes })
    }

    private static func validity(_ chain: [[UInt8]]) -> ClosedRange<Int64>? {
        var start = Int64.min
        var end = Int64.max
        for der in chain {
            guard let fields = try? CertificateFields(der) else { return nil }
            start = max(start, fields.notBefore)
            end = min(end, fields.notAfter)
        }
        return start <= end ? start...end : nil
    }
}
