// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security) && !canImport(Darwin)
    import Security
    import Testing
    import TrustPinning
    import TrustPinningTesting

    /// Tests the requests to the platform and the use of its results, not the platform's verification.
    @Suite("System trust by the platform")
    struct PlatformTrustTests {
        private func evaluate(
            _ chain: [[UInt8]], _ policy: PinningPolicy, trust: PlatformTrust = PlatformTrust(),
            _ answer: @escaping @Sendable (StandInTrust.Question) -> StandInTrust.Answer
        ) async throws -> TrustDecision {
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: trust)
            return await StandInTrust.$answer.withValue(answer) { await evaluator.evaluate(chain) }
        }

        @Test("The platform evaluates the whole chain, for a server, with the given host, date and roots")
        func question() async throws {
            let authority = try TestAuthority()
            let policy = try PinningPolicy(pins: [.of(authority.root.pin, .ca), .spare()])
            let asked = Recorder<StandInTrust.Question>()
            for roots in [[], [authority.root.der]] {
                let trust = roots.isEmpty ? PlatformTrust() : try PlatformTrust(roots: roots)
                let decision = try await evaluate(authority.served + [[1, 2, 3]], policy, trust: trust) { question in
                    asked.append(question)
                    return .trusted(chain: authority.whole)
                }
                #expect(decision.reason == .pinMatch)
                #expect(decision.verifiedChain == authority.whole)
                let question = try #require(asked.elements.last)
                #expect(question.certificates == authority.served)
                #expect(question.host == "www.example.com")
                #expect(question.isServer)
                #expect(question.date == TestDate.today.date)
                #expect(question.anchors == roots)
                #expect(question.anchorsOnly == !roots.isEmpty)
            }
            #expect(throws: PinError.self) { try PlatformTrust(roots: []) }
            #expect(throws: PinError.self) { try PlatformTrust(roots: [[1]]) }
        }

        @Test("Reasons are distinguished, and each chain that the platform refuses is refused")
        func failures() async throws {
            let authority = try TestAuthority()
            let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
            for (status, code) in [
                (errSecCertificateExpired, SystemTrustFailure.Code.expired),
                (errSecCertificateNotValidYet, .notYetValid),
                (errSecHostNameMismatch, .wrongName), (errSecNotTrusted, .unknownIssuer),
                (errSecCreateChainFailed, .unknownIssuer), (-1, .other),
            ] {
                let decision = try await evaluate(authority.served, policy) { _ in .failed(status) }
                #expect(decision.reason == .trustFailed)
                guard case .systemTrustFailed(let failure)? = decision.events.last else {
                    Issue.record("no reason")
                    continue
                }
                #expect(failure.code == code)
            }
        }

        @Test("An invalid leaf is refused even if the platform accepts it")
        func leaf() async throws {
            let authority = try TestAuthority(leaf: CertificateTemplate().with { $0.dnsNames = ["other.test"] })
            let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
            let decision = try await evaluate(authority.served, policy) { .trusted(chain: $0.certificates) }
            #expect(decision.reason == .trustFailed)
            // The chain of another server is refused too.
            let other = try TestAuthority("Other")
            let good = try PinningPolicy(pins: [.of(other.leaf.pin), .spare()])
            #expect(
                try await evaluate(other.served, good) { _ in .trusted(chain: authority.whole) }.reason == .trustFailed)
        }
    }
#endif
