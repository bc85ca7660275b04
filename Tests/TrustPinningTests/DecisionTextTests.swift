// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import Testing
import TrustPinningTesting

@testable import TrustPinning

@Suite("Descriptions of decisions")
struct DecisionTextTests {
    @Test("A refusal lists the server's keys in the form of pins")
    func refusal() async throws {
        let authority = try TestAuthority()
        let policy = try PinningPolicy(pins: [.of(TestKey(.p256, "stranger").pin), .spare()])
        let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: try RootStoreTrust(authority))
        let decision = await evaluator.evaluate(authority.served)
        let keys = try [authority.leaf.pin, authority.intermediate.pin, authority.root.pin].map { try PinHash($0) }
        #expect(decision.presentedKeys == keys)
        let verdict = ServerVerdict(decision)
        #expect(
            verdict.reason == "no pin matches; the server's key is \(keys[0]), above it \(keys[1]), \(keys[2])")
        let error = PinnedSessionError.untrusted(host: "www.example.com", verdict: verdict)
        #expect(error.description == "www.example.com is not trusted: \(verdict.reason)")
        // The text can be pasted into a policy.
        let pinned = try PinningPolicy(pins: [Pin(.spki, keys[0].description), .spare()])
        evaluator.update(try .only(pinned))
        #expect(await evaluator.evaluate(authority.served).reason == .pinMatch)
    }

    @Test("Only the leaf's key is listed for an untrusted chain and without a policy")
    func unverified() async throws {
        let (authority, other) = try (TestAuthority(), TestAuthority("Other"))
        let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
        let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: try RootStoreTrust(other))
        let own = try PinHash(authority.leaf.pin)
        #expect(await evaluator.evaluate(authority.served).presentedKeys == [own])
        let unlisted = await evaluator.evaluate(authority.served, host: "other.example.com")
        #expect(unlisted.reason == .policyMissing)
        #expect(unlisted.description.hasSuffix("the server's key is \(own)"))
        let unreadable = await evaluator.evaluate([[1, 2, 3]])
        #expect(unreadable.presentedKeys.isEmpty)
        #expect(unreadable.description.hasPrefix("the server's certificates cannot be used: "))
    }

    @Test(
        "The description of each reason is one line with the failure", arguments: TrustDecision.Reason.allCases)
    func lines(_ reason: TrustDecision.Reason) {
        let text = TrustDecision(reason, [.systemTrustFailed(SystemTrustFailure(.expired, "it is over"))]).description
        #expect(text.contains(" ") && !text.contains(reason.rawValue) && !text.contains("\n"))
        if [.trustFailed, .invalidHost, .invalidChain].contains(reason) { #expect(text.hasSuffix(": it is over")) }
    }
}

@Suite("Activity of evaluators")
struct TrustActivityTests {
    struct Identity: ClientIdentityMaterial {
        var name = ""
        var validity = TestDate(2026, 1, 1).date..<TestDate(2027, 1, 1).date
    }

    private static func evaluator(_ authority: TestAuthority, observers: [TrustEvaluator.Observer] = []) throws
        -> TrustEvaluator
    {
        let policies = try PolicySet.only(PinningPolicy(pins: [.of(authority.leaf.pin), .spare()]))
        return TrustEvaluator(
            configuration: try TrustConfiguration([.production: policies, .acceptance: policies]),
            systemTrust: try RootStoreTrust(authority), observers: observers)
    }

    @Test("A stream delivers evaluations and identity events, and ends with the evaluator")
    func stream() async throws {
        let authority = try TestAuthority()
        let date = Recorder<TestDate>()
        var evaluator: TrustEvaluator? = try Self.evaluator(authority)
        let identities = ClientIdentityStore<Identity>(now: { (date.elements.last ?? .today).date })
        let host = try HostName("www.example.com")
        let hosts = [try HostPattern("www.example.com")]
        let stream = try #require(evaluator).activity()
        _ = await evaluator?.evaluate(authority.served)
        #expect(await identities.identity(requestedBy: host, for: evaluator) == nil)
        identities.set(Identity(), for: hosts)
        #expect(await identities.identity(requestedBy: host, for: evaluator) != nil)
        date.append(TestDate(2026, 12, 30))
        for _ in 0..<2 { _ = await identities.identity(requestedBy: host, for: evaluator) }
        evaluator = nil
        var names: [[String]] = []
        var renewals = 0
        for await activity in stream {
            #expect(activity.environment == .production)
            names.append(activity.events.map(\.name))
            if case .identity(.renewalRequired(hosts, _), _) = activity { renewals += 1 }
        }
        #expect(
            names == [
                ["systemTrustEvaluated", "chainSummary", "pinMatched"], ["mtlsIdentityMissing"], ["mtlsIdentityUsed"],
                [], ["mtlsIdentityUsed"], ["mtlsIdentityUsed"],
            ])
        #expect(renewals == 1)
    }

    @Test("A slow reader receives the newest events, and a cancelled one is removed")
    func slowReaders() async throws {
        let authority = try TestAuthority()
        var evaluator: TrustEvaluator? = try Self.evaluator(authority)
        let slow = try #require(evaluator).activity(bufferingNewest: 2)
        let gone = Task { [stream = try #require(evaluator).activity()] in for await _ in stream {} }
        gone.cancel()
        await gone.value
        for host in ["a", "b", "www.example.com"] { _ = await evaluator?.evaluate(authority.served, host: host) }
        evaluator = nil
        var heard: [String] = []
        for await activity in slow { heard += [activity.evaluation?.host ?? ""] }
        #expect(heard == ["b", "www.example.com"])
    }

    @Test("An identity is for one environment, or for all without another identity")
    func environments() async throws {
        let evaluator = try Self.evaluator(TestAuthority())
        let identities = ClientIdentityStore<Identity>(now: { TestDate.today.date })
        let host = try HostName("www.example.com")
        let hosts = [try HostPattern("www.example.com")]
        let revisions = { [identities] in
            [TrustEnvironment.production, .acceptance].map { identities.revision(for: host, in: $0) }
        }
        identities.set(Identity(name: "acceptance"), for: hosts, in: .acceptance)
        #expect(await identities.identity(requestedBy: host, for: evaluator) == nil)
        identities.set(Identity(name: "general"), for: hosts)
        #expect(await identities.identity(requestedBy: host, for: evaluator)?.name == "general")
        try evaluator.select(.acceptance)
        #expect(await identities.identity(requestedBy: host, for: evaluator)?.name == "acceptance")
        // Without an evaluator, there is no environment.
        #expect(await identities.identity(requestedBy: host, for: nil)?.name == "general")
        #expect(revisions()[0] != revisions()[1])
        identities.remove(for: hosts, in: .acceptance)
        #expect(await identities.identity(requestedBy: host, for: evaluator)?.name == "general")
        #expect(revisions()[0] == revisions()[1])
        identities.setLoader(for: hosts, in: .acceptance) { () throws(ClientIdentityError) in Identity(name: "loaded") }
        #expect(await identities.identity(requestedBy: host, for: evaluator)?.name == "loaded")
    }

    @Test("Client identities are logged with the patterns of their hosts, and never with a host")
    func logs() async throws {
        let lines = Recorder<String>()
        let logger = Logger(label: "test") { _ in Memory(lines: lines) }
        let evaluator = try Self.evaluator(TestAuthority(), observers: [TrustEvaluator.logging(to: logger)])
        let date = TestDate(2026, 12, 30).date
        let identities = ClientIdentityStore<Identity>(now: { date })
        let host = try HostName("private-name.example.com")
        _ = await identities.identity(requestedBy: host, for: evaluator)
        identities.set(Identity(), for: [try HostPattern("*.example.com")])
        _ = await identities.identity(requestedBy: host, for: evaluator)
        identities.setLoader(for: [try HostPattern("*.example.com")]) { () throws(ClientIdentityError) in
            throw .keychain(status: -25308)
        }
        _ = await identities.identity(requestedBy: host, for: evaluator)
        let text = lines.elements.joined(separator: "\n")
        for part in [
            "error trust pinning: mtlsIdentityMissing", "info trust pinning: mtlsIdentityUsed",
            "warning trust pinning: mtlsRenewalRequired", "error trust pinning: mtlsIdentityUnloadable",
            "environment=production", "*.example.com", "status -25308",
        ] {
            #expect(text.contains(part), "\(part)")
        }
        #expect(!text.contains("private-name"))
    }
}
