// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security) && !canImport(Darwin)
    import Security
    import Testing
    import TrustPinning
    import TrustPinningTesting

    /// What the platform is asked, and what is made of its answers. What it verifies is not tested here.
    @Suite("System trust by the platform")
    struct PlatformTrustTests {
        private func judge(
            _ chain: [[UInt8]], _ policy: PinningPolicy, trust: PlatformTrust = PlatformTrust(),
            _ answer: @escaping @Sendable (StandInTrust.Question) -> StandInTrust.Answer
        ) async throws -> TrustDecision {
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: trust)
            return await StandInTrust.$answer.withValue(answer) { await evaluator.judge(chain) }
        }

        @Test("It asks about the whole chain, for the host, as a server, on the day, with given roots only")
        func question() async throws {
            let authority = try TestAuthority()
            let policy = try PinningPolicy(pins: [.of(authority.root.pin, .ca), .spare()])
            let asked = Recorder<StandInTrust.Question>()
            for roots in [[], [authority.root.der]] {
                let trust = roots.isEmpty ? PlatformTrust() : try PlatformTrust(roots: roots)
                let decision = try await judge(authority.served + [[1, 2, 3]], policy, trust: trust) { question in
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

        @Test("It tells reasons apart, and refuses whatever the platform refuses")
        func failures() async throws {
            let authority = try TestAuthority()
            let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
            for (status, code) in [
                (errSecCertificateExpired, SystemTrustFailure.Code.expired),
                (errSecCertificateNotValidYet, .notYetValid),
                (errSecHostNameMismatch, .wrongName), (errSecNotTrusted, .unknownIssuer),
                (errSecCreateChainFailed, .unknownIssuer), (-1, .other),
            ] {
                let decision = try await judge(authority.served, policy) { _ in .failed(status) }
                #expect(decision.reason == .trustFailed)
                guard case .systemTrustFailed(let failure)? = decision.events.last else {
                    Issue.record("no reason")
                    continue
                }
                #expect(failure.code == code)
            }
        }

        @Test("It does not trust a leaf that is wrong, whatever the platform says")
        func leaf() async throws {
            let authority = try TestAuthority(leaf: CertificateTemplate().with { $0.dnsNames = ["other.test"] })
            let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
            let decision = try await judge(authority.served, policy) { .trusted(chain: $0.certificates) }
            #expect(decision.reason == .trustFailed)
            // Nor a chain of another server.
            let other = try TestAuthority("Other")
            let good = try PinningPolicy(pins: [.of(other.leaf.pin), .spare()])
            #expect(
                try await judge(other.served, good) { _ in .trusted(chain: authority.whole) }.reason == .trustFailed)
        }
    }
#endif
