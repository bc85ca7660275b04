// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TrustPinning
import TrustPinningTesting

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("The decision table")
struct DecisionTableTests {
    @Test("Each policy makes the documented decision at each step, and the document is current")
    func table() async throws {
        let situations = try Situation.all()
        var document = Self.opening
        for shape in PolicyShape.all {
            guard shape.isPossible else {
                #expect(throws: PolicyError.self, "\(shape)") {
                    try shape.policy([situations[0].primary, situations[0].backup])
                }
                continue
            }
            document +=
                "\n### \(shape)\n\n| The server's chain | Step | Decision | Reason | Events |\n|---|---|---|---|---|\n"
            for situation in situations {
                let decision = try await decide(shape, situation)
                let expected = shape.expected(situation)
                #expect(decision.reason == expected.reason, "\(shape): \(situation.name)")
                if !situation.isTrusted, decision.isTrusted {
                    #expect(!shape.requiresSystemTrust && situation.match == .leaf && situation.leafIsGood)
                }
                document += row(situation.name, expected.step, decision)
            }
        }
        document += try await otherSteps()
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "docs/trust-pinning-decisions.md")
        if ProcessInfo.processInfo.environment["CULVERT_WRITE_DECISIONS"] != nil {
            try Data(document.utf8).write(to: file)
        }
        let current = String(decoding: try Data(contentsOf: file), as: UTF8.self)
        #expect(current == document, "write it again: CULVERT_WRITE_DECISIONS=1 swift test --filter DecisionTableTests")
    }

    private func decide(_ shape: PolicyShape, _ situation: Situation) async throws -> TrustDecision {
        let policy = try shape.policy([situation.primary, situation.backup])
        let trust = RootStoreTrust(roots: try .certificates(situation.roots))
        return await TrustEvaluator(policies: try .only(policy), systemTrust: trust).evaluate(situation.chain)
    }

    private func row(_ name: String, _ step: String, _ decision: TrustDecision) -> String {
        let events = decision.events.map(\.name).joined(separator: ", ")
        return
            "| \(name) | \(step) | \(decision.isTrusted ? "trusted" : "refused") | `\(decision.reason)` | \(events) |\n"
    }

    /// Steps 1 and 6, and the steps without pins.
    private func otherSteps() async throws -> String {
        let good = try Situation.all()[0]
        let bad = try Situation.all()[4]
        let strict = try PinningPolicy(pins: [good.primary, good.backup])
        let excluded = [HostPolicy.excluding(try .exact("www.example.com"))]
        let rows: [(String, PolicySet, Situation, [[UInt8]]?, String, TrustDecision.Reason, String)] = [
            (
                "unlisted, refuse", try PolicySet([], unlisted: .refuse), good, nil, "1", .policyMissing,
                "www.example.com"
            ),
            (
                "unlisted, system trust, trusted", try PolicySet([], unlisted: .systemTrust), good, nil, "2",
                .systemTrustAllowed,
                "www.example.com"
            ),
            (
                "unlisted, system trust, untrusted", try PolicySet([], unlisted: .systemTrust), bad, nil, "2",
                .trustFailed,
                "www.example.com"
            ),
            (
                "unlisted, pinned, a pin matches", try PolicySet([], unlisted: .pinned(strict)), good, nil, "7",
                .pinMatch, "www.example.com"
            ),
            (
                "excluded from a default that refuses, trusted", try PolicySet(excluded, unlisted: .refuse), good, nil,
                "2",
                .systemTrustAllowed, "www.example.com"
            ),
            (
                "excluded from a default that refuses, untrusted", try PolicySet(excluded, unlisted: .refuse), bad, nil,
                "2",
                .trustFailed, "www.example.com"
            ),
            ("not a host name", try .only(strict), good, nil, "1", .invalidHost, "www example com"),
            ("no certificate", try .only(strict), good, [], "1", .invalidChain, "www.example.com"),
            ("not a certificate", try .only(strict), good, [[0x30, 0]], "1", .invalidChain, "www.example.com"),
            (
                "eleven certificates", try .only(strict), good, [[UInt8]](repeating: good.chain[0], count: 11), "1",
                .invalidChain,
                "www.example.com"
            ),
            (
                "`audit` without pins, trusted", try .only(PinningPolicy(pins: [], mode: .audit)), good, nil, "6, 9",
                .pinMismatchAudited, "www.example.com"
            ),
            (
                "`audit` without pins, untrusted", try .only(PinningPolicy(pins: [], mode: .audit)), bad, nil, "4",
                .trustFailed,
                "www.example.com"
            ),
        ]
        var text =
            "\n## Hosts without pins, and invalid chains\n\n| Case | Step | Decision | Reason | Events |\n|---|---|---|---|---|\n"
        for (name, policies, situation, chain, step, reason, host) in rows {
            let trust = RootStoreTrust(roots: try .certificates(situation.roots))
            let evaluator = TrustEvaluator(policies: policies, systemTrust: trust)
            let decision = await evaluator.evaluate(chain ?? situation.chain, host: host)
            #expect(decision.reason == reason, "\(name)")
            text += row(name, step, decision)
        }
        return text
    }

    private static let opening = """
        # Decisions of trust pinning

        The tables below show the decision for each possible kind of policy and each kind of chain. The tests write them from
        the evaluator's decisions on real certificates, and fail if they are out of date. The steps are those of
        [trust-pinning.md](trust-pinning.md). The policies have a primary and a backup pin.

        Some combinations are not valid: `permissive` and `audit` accept trusted chains anyway, so they must not have a
        fallback, and `audit` uses system trust alone, so it must require it.

        ## Pinned hosts

        """
}
