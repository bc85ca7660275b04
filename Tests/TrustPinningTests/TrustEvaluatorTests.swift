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

    @Test("A pin of each kind and scope matches the certificates it is for, and no others")
    func scopes() async throws {
        let authority = try TestAuthority()
        let chain = [authority.leaf, authority.intermediate, authority.root]
        for (index, certificate) in chain.enumerated() {
            for kind in Pin.Kind.allCases {
                for scope in Pin.Scope.allCases where kind != .ca || scope != .leaf {
                    let hash = kind == .certificate ? certificate.certificatePin : certificate.pin
                    let evaluator = try evaluator([.of(hash, kind, scope: scope)], authority)
                    let isInScope = scope == .any || scope == [.leaf, .intermediate, .root][index]
                    let decision = await evaluator.judge(authority.served)
                    let expected = isInScope && (kind != .ca || index > 0)
                    #expect(decision.isTrusted == expected, "\(kind) \(scope) of certificate \(index)")
                    #expect(decision.reason == (expected ? .pinMatch : .pinningFailed))
                    #expect(decision.verifiedChain == authority.whole)
                }
            }
        }
    }

    @Test("Keys of any kind are pinned", arguments: TestKey.Algorithm.signing)
    func keys(algorithm: TestKey.Algorithm) async throws {
        let authority = try TestAuthority(algorithm: algorithm)
        let evaluator = try evaluator([.of(authority.leaf.pin, scope: .leaf)], authority)
        #expect(await evaluator.judge(authority.served).reason == .pinMatch)
    }

    @Test("A new certificate for the same key goes on matching, a pinned certificate does not")
    func sameKey() async throws {
        let authority = try TestAuthority()
        let renewed = [try authority.reissuedLeaf().der, authority.intermediate.der]
        let byKey = try evaluator([.of(authority.leaf.pin)], authority)
        #expect(await byKey.judge(renewed).reason == .pinMatch)
        let byCertificate = try evaluator([.of(authority.leaf.certificatePin, .certificate)], authority)
        #expect(await byCertificate.judge(authority.served).reason == .pinMatch)
        #expect(await byCertificate.judge(renewed).reason == .pinningFailed)
    }

    @Test("A new key matches with the backup that was pinned, and the change is reported; without it, it does not")
    func rotation() async throws {
        let authority = try TestAuthority()
        let rotated = [try authority.rotatedLeaf().der, authority.intermediate.der]
        let primary = try Pin.of(authority.leaf.pin)
        let backup = try Pin.of(authority.backupKey().pin, role: .backup)
        let prepared = try evaluator([primary, backup], authority)
        #expect(await prepared.judge(authority.served).matchedPins == [primary])
        let decision = await prepared.judge(rotated)
        #expect(decision.matchedPins == [backup])
        #expect(decision.events.last == .onlyBackupMatched)
        let unprepared = try evaluator([primary], authority)
        #expect(await unprepared.judge(rotated).reason == .pinningFailed)
    }

    @Test("A chain that was cut is not trusted, and a pin of the leaf does not help")
    func cutChain() async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        #expect(await evaluator.judge([authority.leaf.der]).reason == .trustFailed)
        // With the intermediate among the roots, the same chain ends there.
        let roots = try RootStore.certificates([authority.intermediate.der])
        let policy = try PinningPolicy(pins: [.of(authority.intermediate.pin, .ca, scope: .root), .spare()])
        let short = TrustEvaluator(policies: try .only(policy), systemTrust: RootStoreTrust(roots: roots))
        let decision = await short.judge([authority.leaf.der])
        #expect(decision.reason == .pinMatch)
        #expect(decision.verifiedChain == [authority.leaf.der, authority.intermediate.der])
    }

    @Test("Of a cross-signed authority, the path is found that ends in the pinned root")
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
                let decision = await evaluator.judge(chain)
                #expect(decision.reason == .pinMatch)
                #expect(decision.verifiedChain.last == root.der)
            }
        }
        // The old root goes; the path over the new one is there.
        let onlyTwo = RootStoreTrust(roots: try .certificates([two.root.der]))
        let policy = try PinningPolicy(pins: [.of(one.intermediate.pin, .ca), .spare()])
        let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: onlyTwo)
        #expect(await evaluator.judge(served).reason == .pinMatch)
    }

    @Test("A certificate that a server adds to its chain without need never matches")
    func injected() async throws {
        let authority = try TestAuthority()
        let other = try TestAuthority("Other")
        for kind in [Pin.Kind.spki, .ca] {
            let pins = [try Pin.of(other.root.pin, kind), try Pin.of(other.intermediate.pin, kind)]
            let evaluator = try evaluator(pins, authority)
            let decision = await evaluator.judge(authority.served + [other.intermediate.der, other.root.der])
            #expect(decision.reason == .pinningFailed)
            #expect(decision.verifiedChain == authority.whole)
        }
    }

    @Test("A chain is refused when it is empty, longer than ten, or begins with something else")
    func badChains() async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        let many = authority.served + (0..<9).map { _ in authority.intermediate.der }
        for chain in [
            [], [[]], many, [[UInt8]([0x30, 0])] + authority.served, [[UInt8](repeating: 0x30, count: 300_000)],
        ] {
            let decision = await evaluator.judge(chain)
            #expect(decision.reason == .invalidChain)
            #expect(decision.events.map(\.name) == ["chainRefused"])
        }
        #expect(await evaluator.judge(Array(many.dropLast())).reason == .pinMatch)
    }

    @Test("Chains of ten are verified, and of eleven refused, also when the eleventh is the root")
    func longChains() async throws {
        for (count, isTrusted) in [(10, true), (11, false)] {
            let chain = try TestAuthority.longChain(count)
            let last = try #require(chain.last)
            let policy = try PinningPolicy(pins: [.of(last.pin, .ca), .spare()])
            let trust = RootStoreTrust(roots: try .certificates([last.der]))
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: trust)
            #expect(await evaluator.judge(chain.dropLast().map(\.der)).isTrusted == isTrusted)
            #expect(await evaluator.judge(chain.map(\.der)).isTrusted == isTrusted)
        }
    }

    @Test("A leaf that is cut at any length is refused")
    func truncatedLeaf() async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        for length in authority.leaf.der.indices {
            let decision = await evaluator.judge([Array(authority.leaf.der[..<length]), authority.intermediate.der])
            #expect(decision.reason == .invalidChain, "\(length)")
        }
    }

    @Test("An intermediate that is cut at any length breaks the path")
    func truncatedIntermediate() async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        for length in authority.intermediate.der.indices {
            let decision = await evaluator.judge([authority.leaf.der, Array(authority.intermediate.der[..<length])])
            #expect(decision.reason == .trustFailed, "\(length)")
        }
    }

    @Test(
        "A host that is none is refused",
        arguments: ["", "bücher.example", "a b", "www.example.com:443", "*.example.com"])
    func badHosts(host: String) async throws {
        let authority = try TestAuthority()
        let evaluator = try evaluator([.of(authority.leaf.pin)], authority)
        let decision = await evaluator.judge(authority.served, host: host)
        #expect(decision.reason == .invalidHost)
    }

    @Test("Expired pins fall back to system trust or refuse, as the policy says")
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
            #expect(await evaluator.judge(authority.served, on: TestDate(2026, 6, 30)).reason == .pinningFailed)
            #expect(await evaluator.judge(authority.served, on: TestDate(2026, 7, 1)).reason == reason)
            // A clock that is set back does not bring them back after something newer was signed.
            evaluator.learn(issueTime: TestDate(2026, 7, 2).date)
            #expect(await evaluator.judge(authority.served, on: TestDate(2026, 6, 30)).reason == reason)
        }
    }

    @Test("Observers hear of each evaluation with its policy and both chains")
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

    @Test("A platform that vouches for another certificate than the server's vouches for nothing")
    func otherLeaf() async throws {
        let authority = try TestAuthority()
        let other = try TestAuthority("Other")
        let policy = try PinningPolicy(pins: [.of(other.leaf.pin), .spare()])
        for chain in [other.whole, []] {
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: FixedTrust.trusting(chain))
            #expect(await evaluator.judge(authority.served).reason == .trustFailed)
        }
    }
}
