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

/// System trust with a result that the test chooses.
struct FixedTrust: SystemTrust {
    let result: @Sendable (SystemTrustRequest) -> SystemTrustResult

    init(_ result: @escaping @Sendable (SystemTrustRequest) -> SystemTrustResult) { self.result = result }

    /// Trusts this chain.
    static func trusting(_ chain: [[UInt8]]) -> FixedTrust { FixedTrust { _ in .trusted(chain: chain) } }

    /// Trusts any chain that was sent, like a deceived platform.
    static let everything = FixedTrust { .trusted(chain: $0.chain) }

    static func failing(_ code: SystemTrustFailure.Code = .unknownIssuer) -> FixedTrust {
        FixedTrust { _ in .untrusted(SystemTrustFailure(code, "as the test wants it")) }
    }

    func verify(_ request: SystemTrustRequest) async -> SystemTrustResult { result(request) }
}

/// The events that observers received, in order.
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

    /// A backup that matches no test certificate.
    static func spare(_ name: String = "spare") throws -> Pin { try .of(TestKey(.p256, name).pin, role: .backup) }
}

extension PolicySet {
    /// One policy for `www.example.com`; all other hosts are refused.
    static func only(_ policy: PinningPolicy, host: String = "www.example.com") throws -> PolicySet {
        try PolicySet([HostPolicy(HostPattern(host), policy)], unlisted: .refuse)
    }
}

extension TrustEvaluator {
    /// Evaluates a chain for `www.example.com` on the date of the tests.
    func evaluate(_ chain: [[UInt8]], host: String = "www.example.com", on day: TestDate = .today) async
        -> TrustDecision
    {
        await evaluate(chain: chain, host: host, port: 443, at: day.date)
    }
}

extension RootStoreTrust {
    /// Trust in the root of a test authority.
    convenience init(_ authority: TestAuthority) throws {
        self.init(roots: try .certificates([authority.root.der]))
    }
}
