// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Security) && !canImport(Darwin)
    import Foundation
    import Security
    import StandInVerifier
    import Testing
    import TrustPinning
    import TrustPinningTesting

    /// Evaluates test certificates through SecTrust, as an app does with the trust object of a challenge.
    @Suite("Decisions on the platform's trust objects")
    struct PlatformDecisionTests {
        init() { StandInVerifier.install() }

        private func trust(_ chain: [[UInt8]], host: String = "www.example.com") throws -> SecTrust {
            let list = chain.compactMap { SecCertificateCreateWithData(nil, NSData(data: Data($0))) }
            var trust: SecTrust?
            let policy = SecPolicyCreateSSL(true, NSString(string: host))
            let status = unsafe SecTrustCreateWithCertificates(NSArray(array: list), policy, &trust)
            #expect(status == errSecSuccess)
            return try #require(trust)
        }

        private func evaluate(
            _ chain: [[UInt8]], _ policy: PinningPolicy, roots: [[UInt8]], host: String = "www.example.com",
            on day: TestDate = .today
        ) async throws -> TrustDecision {
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: try PlatformTrust(roots: roots))
            return await evaluator.evaluate(try trust(chain, host: host), host: host, at: day.date)
        }

        @Test("Decisions are equal to those of the other verifier, for each kind of policy and chain")
        func table() async throws {
            var count = 0
            for shape in PolicyShape.all where shape.isPossible {
                for situation in try Situation.all() {
                    let policy = try shape.policy([situation.primary, situation.backup])
                    let decision = try await evaluate(situation.chain, policy, roots: situation.roots)
                    #expect(decision.reason == shape.expected(situation).reason, "\(shape): \(situation.name)")
                    let other = TrustEvaluator(
                        policies: try .only(policy),
                        systemTrust: RootStoreTrust(roots: try .certificates(situation.roots)))
                    let expected = await other.evaluate(situation.chain)
                    #expect(decision.reason == expected.reason, "\(shape): \(situation.name)")
                    #expect(decision.events.map(\.name) == expected.events.map(\.name), "\(shape): \(situation.name)")
                    #expect(decision.matchedPins == expected.matchedPins, "\(shape): \(situation.name)")
                    count += 1
                }
            }
            #expect(count >= 100)
        }

        @Test("Pins match each certificate of the verified chain", arguments: Pin.Scope.allCases)
        func scopes(scope: Pin.Scope) async throws {
            let authority = try TestAuthority()
            for (index, certificate) in [authority.leaf, authority.intermediate, authority.root].enumerated() {
                let policy = try PinningPolicy(pins: [.of(certificate.pin, scope: scope), .spare()])
                let decision = try await evaluate(authority.served, policy, roots: [authority.root.der])
                let fits = scope == .any || scope == [Pin.Scope.leaf, .intermediate, .root][index]
                #expect(decision.reason == (fits ? .pinMatch : .pinningFailed))
                #expect(decision.verifiedChain == authority.whole)
            }
        }

        @Test("Pins never match injected or self-signed certificates")
        func injected() async throws {
            let authority = try TestAuthority()
            let stranger = try TestAuthority("Stranger")
            let policy = try PinningPolicy(pins: [.of(stranger.intermediate.pin), .spare()])
            let chain = authority.served + [stranger.intermediate.der, stranger.root.der]
            #expect(try await evaluate(chain, policy, roots: [authority.root.der]).reason == .pinningFailed)
            let alone = try TestCertificate(key: TestKey(.p256, "alone"))
            let own = try PinningPolicy(pins: [.of(alone.pin), .spare()])
            #expect(try await evaluate([alone.der], own, roots: [authority.root.der]).reason == .trustFailed)
        }

        @Test("A rotation to the same key or the backup is accepted, and to another key refused")
        func rotation() async throws {
            let authority = try TestAuthority()
            let policy = try PinningPolicy(
                pins: [.of(authority.leaf.pin), .of(authority.backupKey().pin, role: .backup)])
            let roots = [authority.root.der]
            func chain(_ leaf: TestCertificate) -> [[UInt8]] { [leaf.der, authority.intermediate.der] }
            #expect(try await evaluate(chain(authority.reissuedLeaf()), policy, roots: roots).reason == .pinMatch)
            let backup = try await evaluate(chain(authority.rotatedLeaf()), policy, roots: roots)
            #expect(backup.reason == .pinMatch)
            #expect(backup.events.contains(.onlyBackupMatched))
            let other = try authority.issue(key: TestKey(.p256, "unknown"))
            #expect(try await evaluate(chain(other), policy, roots: roots).reason == .pinningFailed)
        }

        @Test("Decisions use the requested host and date, not those of the trust object")
        func question() async throws {
            let authority = try TestAuthority()
            let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
            let evaluator = TrustEvaluator(
                policies: try .only(policy), systemTrust: try PlatformTrust(roots: [authority.root.der]))
            let made = try trust(authority.served, host: "other.test")
            #expect(await evaluator.evaluate(made, host: "www.example.com", at: TestDate.today.date).isTrusted)
            let late = try trust(authority.served)
            let decision = await evaluator.evaluate(
                late, host: "www.example.com", at: authority.leaf.template.notAfter.date.addingTimeInterval(86_400))
            #expect(decision.reason == .trustFailed)
            // Truncated chains are not completed here, and the device's roots do not count in addition to given ones.
            #expect(
                try await evaluate([authority.leaf.der], policy, roots: [authority.root.der]).reason == .trustFailed)
            try await StandInTrust.$deviceRoots.withValue([authority.root.der]) {
                let stranger = try TestAuthority("Stranger").root.der
                #expect(try await evaluate(authority.served, policy, roots: [stranger]).reason == .trustFailed)
                let device = TrustEvaluator(policies: try .only(policy), systemTrust: PlatformTrust())
                let seen = try trust(authority.served)
                #expect(await device.evaluate(seen, host: "www.example.com", at: TestDate.today.date).isTrusted)
            }
        }

        @Test("Decisions ignore roots and exceptions that other code added to the trust object")
        func allowances() async throws {
            let authority = try TestAuthority()
            let stranger = try TestAuthority("Stranger")
            let policy = try PinningPolicy(pins: [.of(stranger.leaf.pin), .of(authority.leaf.pin, role: .backup)])
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: PlatformTrust())
            try await StandInTrust.$deviceRoots.withValue([authority.root.der]) {
                let root = try #require(SecCertificateCreateWithData(nil, NSData(data: Data(stranger.root.der))))
                for chain in [stranger.served, authority.served] {
                    let anchored = try trust(chain)
                    _ = SecTrustSetAnchorCertificates(anchored, NSArray(object: root))
                    let decision = await evaluator.evaluate(
                        anchored, host: "www.example.com", at: TestDate.today.date)
                    #expect(decision.reason == (chain == authority.served ? .pinMatch : .trustFailed))
                }
                let excepted = try trust(stranger.served)
                _ = SecTrustSetExceptions(excepted, SecTrustCopyExceptions(excepted))
                let decision = await evaluator.evaluate(excepted, host: "www.example.com", at: TestDate.today.date)
                #expect(decision.reason == .trustFailed)
            }
        }

        @Test("Each decision evaluates the trust object once")
        func once() async throws {
            let authority = try TestAuthority()
            let policy = try PinningPolicy(pins: [.of(authority.leaf.pin), .spare()])
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: PlatformTrust())
            let asked = Recorder<StandInTrust.Question>()
            let seen = try StandInTrust.$answer.withValue({ question in
                asked.append(question)
                return .trusted(chain: authority.whole)
            }) { try trust(authority.served, host: "other.test") }
            #expect(await evaluator.evaluate(seen, host: "www.example.com", at: TestDate.today.date).isTrusted)
            #expect(asked.elements.map(\.host) == ["www.example.com"])
        }

        @Test("Another verifier can decide, and receives the platform's chain")
        func otherVerifier() async throws {
            let authority = try TestAuthority()
            let policy = try PinningPolicy(pins: [.of(authority.intermediate.pin, .ca), .spare()])
            let evaluator = TrustEvaluator(policies: try .only(policy), systemTrust: try RootStoreTrust(authority))
            let seen = try trust(authority.served)
            #expect(
                await evaluator.evaluate(seen, host: "www.example.com", at: TestDate.today.date).reason == .pinMatch)
        }
    }
#endif
