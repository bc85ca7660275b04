// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TrustPinning
import TrustPinningTesting

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// System trust with an answer that the test chose.
struct FixedTrust: SystemTrust {
    let result: @Sendable (SystemTrustRequest) -> SystemTrustResult

    init(_ result: @escaping @Sendable (SystemTrustRequest) -> SystemTrustResult) { self.result = result }

    /// Vouches for this chain.
    static func trusting(_ chain: [[UInt8]]) -> FixedTrust { FixedTrust { _ in .trusted(chain: chain) } }

    /// Vouches for whatever was sent, as a platform does that is lied to.
    static let everything = FixedTrust { .trusted(chain: $0.chain) }

    static func failing(_ code: SystemTrustFailure.Code = .unknownIssuer) -> FixedTrust {
        FixedTrust { _ in .untrusted(SystemTrustFailure(code, "as the test wants it")) }
    }

    func verify(_ request: SystemTrustRequest) async -> SystemTrustResult { result(request) }
}

/// What observers heard, in order.
final class Recorder<Element: Sendable>: Sendable {
    private let list = Mutex<[Element]>([])

    var elements: [Element] { list.withLock { $0 } }

    func append(_ element: Element) { list.withLock { $0.append(element) } }
}

extension Pin {
    /// A pin of a certificate's or key's hash in base64.
    static func of(_ hash: String, _ kind: Kind = .spki, role: Role = .primary, scope: Scope = .any) throws -> Pin {
        try Pin(kind, hash, role: role, scope: scope)
    }

    /// A backup that no test certificate has.
    static func spare(_ name: String = "spare") throws -> Pin { try .of(TestKey(.p256, name).pin, role: .backup) }
}

extension PolicySet {
    /// One policy for `www.example.com`, everything else refused.
    static func only(_ policy: PinningPolicy, host: String = "www.example.com") throws -> PolicySet {
        try PolicySet([HostPolicy(HostPattern(host), policy)], unlisted: .refuse)
    }
}

extension TrustEvaluator {
    /// Judges a chain for `www.example.com` on the day of the tests.
    func judge(_ chain: [[UInt8]], host: String = "www.example.com", on day: TestDate = .today) async -> TrustDecision {
        await evaluate(chain: chain, host: host, port: 443, at: day.date)
    }
}

extension RootStoreTrust {
    /// Trust in the root of a test authority.
    convenience init(_ authority: TestAuthority) throws {
        self.init(roots: try .certificates([authority.root.der]))
    }
}
