// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import FoundationNetworking
import Security
import StandInVerifier
import Synchronization
import TrustPinning
import TrustPinningTesting

@testable import TrustPinningFoundation

/// A server with certificates of a test authority, and policies for it.
struct TrustScene {
    let authority: TestAuthority
    let evaluator: TrustEvaluator
    let identities: ClientIdentities?
    let events: Recorded<ClientIdentityEvent>

    init(pinning pins: [Pin]? = nil, hosts: [HostPolicy] = [], identity: Bool = false) throws {
        StandInVerifier.install()
        authority = try TestAuthority(
            leaf: CertificateTemplate().with { $0.dnsNames = ["www.example.com", "api.example.com"] })
        let policies = try PolicySet(
            [HostPolicy(try .exact("www.example.com"), Self.policy(pins ?? [Pin(.spki, authority.leaf.pin)]))] + hosts,
            unlisted: .refuse)
        evaluator = TrustEvaluator(
            policies: policies, systemTrust: try PlatformTrust(roots: [authority.root.der]))
        events = Recorded()
        guard identity else {
            identities = nil
            return
        }
        let store = ClientIdentities(now: { TestDate.today.date }, onEvent: { [events] in events.append($0) })
        store.set(try Self.identity(), for: [try HostPattern("www.example.com")])
        identities = store
    }

    static func policy(_ pins: [Pin]) throws -> PinningPolicy {
        try PinningPolicy(pins: pins + [Pin(.spki, TestKey(.p256, "spare").pin, role: .backup)])
    }

    /// A pin that matches nothing.
    static func stranger() throws -> Pin { try Pin(.spki, TestKey(.p256, "stranger").pin) }

    static func identity() throws -> ClientIdentity {
        try ClientIdentity(
            pkcs12: IdentityFixtures.bytes(IdentityFixtures.modern), passphrase: IdentityFixtures.passphrase)
    }

    var responder: ChallengeResponder {
        ChallengeResponder(trust: evaluator, identities: identities, now: { TestDate.today.date })
    }

    func session(
        _ change: (inout PinnedSession.Configuration) -> Void = { _ in }, base: URLSessionConfiguration = Self.loading,
        now: @escaping @Sendable () -> Date = { TestDate.today.date }
    ) -> PinnedSession {
        var configuration = PinnedSession.Configuration()
        change(&configuration)
        return PinnedSession(
            trust: evaluator, identities: identities, configuration: configuration, base: base, now: now)
    }

    static var loading: URLSessionConfiguration {
        let loading = URLSessionConfiguration.ephemeral
        loading.protocolClasses = [StandInLoading.self]
        return loading
    }
}

/// The events, in order.
final class Recorded<Element: Sendable>: Sendable {
    private let list = Mutex<[Element]>([])

    var elements: [Element] { list.withLock { $0 } }

    func append(_ element: Element) { list.withLock { $0.append(element) } }
}
