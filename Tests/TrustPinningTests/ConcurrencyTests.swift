// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinning
import TrustPinningTesting

@Suite("Concurrent tasks")
struct ConcurrencyTests {
    @Test("Evaluations see the old or the new policies, never a mixture")
    func updatesWhileEvaluating() async throws {
        let authority = try TestAuthority()
        let matching = try PolicySet.only(PinningPolicy(pins: [.of(authority.leaf.pin), .spare()]))
        let other = try PolicySet([], unlisted: .refuse)
        let heard = Recorder<TrustDecision.Reason>()
        let evaluator = TrustEvaluator(
            configuration: try TrustConfiguration([.production: matching, .development: other]),
            systemTrust: try RootStoreTrust(authority),
            observers: [{ if let evaluation = $0.evaluation { heard.append(evaluation.decision.reason) } }])
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<64 {
                group.addTask {
                    switch index % 4 {
                    case 0: evaluator.update(index % 8 == 0 ? matching : other, for: .production)
                    case 1: try? evaluator.select(index % 8 == 1 ? .production : .development)
                    default:
                        let decision = await evaluator.evaluate(authority.served)
                        #expect(decision.reason == .pinMatch || decision.reason == .policyMissing)
                    }
                }
            }
        }
        #expect(heard.elements.count == 32)
        #expect(heard.elements.allSatisfy { $0 == .pinMatch || $0 == .policyMissing })
    }

    @Test("The newest of several concurrent envelopes ends up active")
    func updatesTogether() async throws {
        let evaluator = TrustEvaluator(policies: try Publisher.policies("built in"), systemTrust: FixedTrust.everything)
        let store = MemoryStore()
        let updater = RemotePolicyUpdater(evaluator: evaluator, verifier: try Publisher.verifier(), store: store)
        let envelopes = try (1...24).map {
            try Publisher.envelope(Publisher.policies("\($0)"), version: Int64($0)).bytes
        }
        await withTaskGroup(of: Void.self) { group in
            for bytes in envelopes.shuffled() {
                group.addTask {
                    do { _ = try await updater.apply(bytes, at: TestDate.today.date) } catch {
                        #expect((error as? EnvelopeError)?.code == .rolledBack)
                    }
                }
            }
        }
        #expect(try evaluator.policies == Publisher.policies("24"))
        #expect(try store.acceptedVersion("")?.version == 24)
    }
}
