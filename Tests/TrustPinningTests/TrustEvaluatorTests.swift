// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinning
import TrustPinningTesting

@Suite("Evaluating pins on verified chains")
struct TrustEvaluatorTests {
    private func evaluator(_ pins: [Pin], _ authority: TestAuthority) throws -> TrustEvaluator {
        let policy = try PinningPolicy(pins: pins + [.spare()])
        return TrustEvaluator(policies: try .only(policy), systemTrust: try RootStoreTrust(authority))
    }

    @Test("A pin of each kind and scope matches only the certificates in its scope")
    func scopes() async throws {
        let authority = try TestAuthority()
        let chain = [authority.leaf, authority.intermediate, authority.root]
        for (index, certificate) in chain.enumerated() {
            for kind in Pin.Kind.allCases {
                for scope in Pin.Scope.allCases where kind != .ca || scope != .leaf {
                    let hash = kind == .certificate ? certificate.certificatePin : certificate.pin
                    let evaluator = try evaluator([.of(hash, kind, scope: scope)], authority)
                    let isInScope = scope == .any || scope == [.leaf, .intermediate, .root][index]
                    let decision = await evaluator.evaluate(authority.served)
                    let expected = isInScope && (kind != .ca || index > 0)
                    #expect(decision.isTrusted == expected, "\(kind) \(scope) of certificate \(index)")
                    #expect(decision.reason == (expected ? .pinMatch : .pinningFailed))
                    #expect(decision.verifiedChain == authority.whole)
                }
            }
        }
    }

    @Test("Keys of any algorithm can be pinned", arguments: TestKey.Algorithm.signing)
    func keys(algorithm: TestKey.Algorithm) async throws {
        let authority = try TestAuthority(algorithm: algorithm)
        let evaluator = try evaluator([.of(authority.leaf.pin, scope: .leaf)], authority)
        #expect(await evaluator.evaluate(authority.served).reason == .pinMatch)
    }

    @Test("An spki pin matches a new certificate with the same key, and a certificate pin does not")
    func sameKey() async throws {
        let authority = try TestAuthority()
        let renewed = [try authority.reissuedLeaf().der, authority.intermediate.der]
        let byKey = try evaluator([.of(authority.leaf.pin)], authority)
        #expect(await byKey.evaluate(renewed).reason == .pinMatch)
        let byCertificate = try evaluator([.of(authority.leaf.certificatePin, .certificate)], authority)
        #expect(await byCertificate.evaluate(authority.served).reason == .pinMatch)
        #expect(await byCertificate.evaluate(renewed).reason == .pinningFailed)
    }

    @Test("A new key matches only if it was pinned as backup, and the change is reported")
    func rotation() async throws {
        let authority = try TestAuthority()
        let rotated = [try authority.rotatedLeaf().der, authority.intermediate.der]
        let primary = try Pin.of(authority.leaf.pin)
        let backup = try Pin.of(authority.backupKey().pin, role: .backup)
        let prepared = try evaluator([primary, backup], authority)
        #expect(await prepared.evaluate(authority.served).matchedPins == [primary])
        let decision = await prepared.evaluate(rotated)
        #expect(decision.matchedPins == [backup])
        #expect(decision.events.last == .onlyBackupMatched)
        let unprepared = try evaluator([primary], authority)
        #expect(await unprepared.evaluate(rotated).reason == .pinningFailed)
    }

    @Test("A truncated chain is refused, even with a pin of the leaf")
    func cutChain() async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        #expect(await evaluator.evaluate([authority.leaf.der]).reason == .trustFailed)
        // If the intermediate is also a root, the same chain ends there.
        let roots = try RootStore.certificates([authority.intermediate.der])
        let policy = try PinningPolicy(pins: [.of(authority.intermediate.pin, .ca, scope: .root), .spare()])
        let short = TrustEvaluator(policies: try .only(policy), systemTrust: RootStoreTrust(roots: roots))
        let decision = await short.evaluate([authority.leaf.der])
        #expect(decision.reason == .pinMatch)
        #expect(decision.verifiedChain == [authority.leaf.der, authority.intermediate.der])
    }

    @Test("The path to the pinned root of a cross-signed authority is found")
    func crossSigned() async throws {
        let one = try TestAuthority("One")
        let two = try TestAuthority("Two")
        let cross = try one.crossSignedIntermediate(by: two)
        let served = [one.leaf.der, one.intermediate.der, cross.der]
        let both = RootStoreTrust(roots: try .certificates([one.root.der, two.root.der]))
        for root in [one.root, two.root] {
            let policy = try PinningPolicy(pins: [.of(root.pin, .ca, scope: .root), .spare()])
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: both)
            for chain in [served, [served[0], served[2], served[1]]] {
                let decision = await evaluator.evaluate(chain)
                #expect(decision.reason == .pinMatch)
                #expect(decision.verifiedChain.last == root.der)
            }
        }
        // The old root is removed; the path to the new one remains.
        let onlyTwo = RootStoreTrust(roots: try .certificates([two.root.der]))
        let policy = try PinningPolicy(pins: [.of(one.intermediate.pin, .ca), .spare()])
        let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: onlyTwo)
        #expect(await evaluator.evaluate(served).reason == .pinMatch)
    }

    @Test("An additional certificate outside of the verified path never matches")
    func injected() async throws {
        let authority = try TestAuthority()
        let other = try TestAuthority("Other")
        for kind in [Pin.Kind.spki, .ca] {
            let pins = [try Pin.of(other.root.pin, kind), try Pin.of(other.intermediate.pin, kind)]
            let evaluator = try evaluator(pins, authority)
            let decision = await evaluator.evaluate(authority.served + [other.intermediate.der, other.root.der])
            #expect(decision.reason == .pinningFailed)
            #expect(decision.verifiedChain == authority.whole)
        }
    }

    @Test("A chain that is empty, longer than ten, or has an invalid leaf is refused")
    func badChains() async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        let many = authority.served + (0..<9).map { _ in authority.intermediate.der }
        for chain in [
            [], [[]], many, [[UInt8]([0x30, 0])] + authority.served, [[UInt8](repeating: 0x30, count: 300_000)],
        ] {
            let decision = await evaluator.evaluate(chain)
            #expect(decision.reason == .invalidChain)
            #expect(decision.events.map(\.name) == ["chainRefused"])
        }
        #expect(await evaluator.evaluate(Array(many.dropLast())).reason == .pinMatch)
    }

    @Test("Chains of ten are verified, and chains of eleven refused, even if the eleventh is the root")
    func longChains() async throws {
        for (count, isTrusted) in [(10, true), (11, false)] {
            let chain = try TestAuthority.longChain(count)
            let last = try #require(chain.last)
            let policy = try PinningPolicy(pins: [.of(last.pin, .ca), .spare()])
            let trust = RootStoreTrust(roots: try .certificates([last.der]))
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: trust)
            #expect(await evaluator.evaluate(chain.dropLast().map(\.der)).isTrusted == isTrusted)
            #expect(await evaluator.evaluate(chain.map(\.der)).isTrusted == isTrusted)
        }
    }

    @Test("A leaf truncated to any length is refused")
    func truncatedLeaf() async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        for length in authority.leaf.der.indices {
            let decision = await evaluator.evaluate([Array(authority.leaf.der[..<length]), authority.intermediate.der])
            #expect(decision.reason == .invalidChain, "\(length)")
        }
    }

    @Test("An intermediate truncated to any length breaks the path")
    func truncatedIntermediate() async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        for length in authority.intermediate.der.indices {
            let decision = await evaluator.evaluate([authority.leaf.der, Array(authority.intermediate.der[..<length])])
            #expect(decision.reason == .trustFailed, "\(length)")
        }
    }

    @Test(
        "An invalid host is refused",
        arguments: ["", "bücher.example", "a b", "www.example.com:443", "*.example.com"])
    func badHosts(host: String) async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        let decision = await evaluator.evaluate(authority.served, host: host)
        #expect(decision.reason == .invalidHost)
    }

    @Test("Expired pins fall back to system trust or refuse, depending on the policy")
    func expiry() async throws {
        let authority = try TestAuthority()
        for (afterwards, reason) in [
            (PinningPolicy.Expiry.Afterwards.systemTrust, TrustDecision.Reason.pinSetExpired),
            (.refuse, .pinSetExpiredRefused),
        ] {
            let expiry = PinningPolicy.Expiry(TestDate(2026, 7, 1).date, afterwards: afterwards)
            let pins = [try Pin.of(TestKey(.p256, "nobody").pin), try .spare()]
            let policy = try PinningPolicy(pins: pins, expiry: expiry)
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: try RootStoreTrust(authority))
            #expect(await evaluator.evaluate(authority.served, on: TestDate(2026, 6, 30)).reason == .pinningFailed)
            #expect(await evaluator.evaluate(authority.served, on: TestDate(2026, 7, 1)).reason == reason)
            // Setting the clock back after a newer signature does not reactivate them.
            evaluator.recordIssueTime(TestDate(2026, 7, 2).date)
            #expect(await evaluator.evaluate(authority.served, on: TestDate(2026, 6, 30)).reason == reason)
        }
    }

    @Test("Observers receive each evaluation with its policy and both chains")
    func observers() async throws {
        let authority = try TestAuthority()
        let heard = Recorder<TrustEvaluation>()
        let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
        let evaluator = TrustEvaluator(
            policies: try .only(policy), systemTrust: try RootStoreTrust(authority),
            observers: [{ if let evaluation = $0.evaluation { heard.append(evaluation) } }])
        let decision = await evaluator.evaluate(
            chain: authority.served, host: "WWW.example.com", port: 8443, at: TestDate.today.date)
        #expect(decision.isTrusted)
        let evaluation = try #require(heard.elements.first)
        #expect(evaluation.decision == decision)
        #expect(evaluation.host == "WWW.example.com")
        #expect(evaluation.port == 8443)
        #expect(evaluation.policy == policy)
        #expect(evaluation.pattern == (try .exact("www.example.com")))
        #expect(evaluation.environment == .production)
        #expect(evaluation.presentedChain == authority.served)
    }

    @Test("A verified chain for another leaf than the server's is refused")
    func otherLeaf() async throws {
        let authority = try TestAuthority()
        let other = try TestAuthority("Other")
        let policy = try PinningPolicy(pins: [.of(other.leaf.pin), .spare()])
        for chain in [other.whole, []] {
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: FixedTrust.trusting(chain))
            #expect(await evaluator.evaluate(authority.served).reason == .trustFailed)
        }
    }
}
