// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import FoundationNetworking
import Security
import Testing
import TrustPinning
import TrustPinningTesting

@testable import TrustPinningFoundation

@Suite("Challenges of URLSession")
struct ChallengeTests {
    private final class Sender: NSObject, URLAuthenticationChallengeSender {
        func use(_ credential: URLCredential, for challenge: URLAuthenticationChallenge) {}
        func continueWithoutCredential(for challenge: URLAuthenticationChallenge) {}
        func cancel(_ challenge: URLAuthenticationChallenge) {}
        func performDefaultHandling(for challenge: URLAuthenticationChallenge) {}
        func rejectProtectionSpaceAndContinue(with challenge: URLAuthenticationChallenge) {}
    }

    private static func challenge(_ method: String, host: String = "www.example.com") -> URLAuthenticationChallenge {
        URLAuthenticationChallenge(
            protectionSpace: URLProtectionSpace(
                host: host, port: 443, protocol: "https", realm: nil, authenticationMethod: method),
            proposedCredential: nil, previousFailureCount: 0, failureResponse: nil, error: nil, sender: Sender())
    }

    private func load(_ server: StandInServer, _ delegate: any URLSessionDelegate) async throws -> String {
        let session = URLSession(configuration: TrustScene.loading, delegate: delegate, delegateQueue: nil)
        defer { session.finishTasksAndInvalidate() }
        let (data, _) = try await session.data(from: try #require(server.url()))
        return String(decoding: data, as: UTF8.self)
    }

    @Test(
        "Challenges of sessions and tasks accept trusted servers, and are answered once", arguments: [false, true])
    func trusted(challengesTasks: Bool) async throws {
        let scene = try TrustScene()
        let server = StandInServer(chain: scene.authority.served, challengesTasks: challengesTasks)
        #expect(try await load(server, PinningDelegate(scene.responder)) == "hello")
        #expect(server.figures.answers == 1)
        #expect(server.figures.requests.count == 1)
    }

    @Test("Challenges end the connection before the request if no pin matches", arguments: [false, true])
    func mismatch(challengesTasks: Bool) async throws {
        let scene = try TrustScene(pinning: [TrustScene.stranger()])
        let server = StandInServer(chain: scene.authority.served, challengesTasks: challengesTasks)
        let error = await #expect(throws: URLError.self) {
            try await load(server, PinningDelegate(scene.responder))
        }
        #expect(error?.code == .cancelled)
        #expect(server.figures.answers == 1)
        #expect(server.figures.requests.isEmpty)
    }

    @Test("The verdict on a refused challenge contains the server's key")
    func explained() async throws {
        let scene = try TrustScene(pinning: [TrustScene.stranger()])
        let server = StandInServer(chain: scene.authority.served)
        let responder = scene.responder
        #expect(responder.verdict(on: "www.example.com", port: server.port) == nil)
        await #expect(throws: URLError.self) { try await load(server, PinningDelegate(responder)) }
        let verdict = try #require(responder.verdict(on: "WWW.example.com", port: server.port))
        #expect(!verdict.isTrusted)
        #expect(verdict.reason.contains("sha256/\(scene.authority.leaf.pin)"))
    }

    @Test("Challenges of servers without certificates or without a policy are refused")
    func nothing() async throws {
        let scene = try TrustScene()
        let server = StandInServer(chain: [])
        await #expect(throws: URLError.self) { try await load(server, PinningDelegate(scene.responder)) }
        #expect(server.figures.answers == 1)
        let other = StandInServer(chain: scene.authority.served)
        let session = URLSession(
            configuration: TrustScene.loading, delegate: PinningDelegate(scene.responder), delegateQueue: nil)
        defer { session.finishTasksAndInvalidate() }
        let url = try #require(other.url(host: "unlisted.example.com"))
        await #expect(throws: URLError.self) { try await session.data(from: url) }
        #expect(other.figures.requests.isEmpty)
    }

    @Test("Challenges use the current policies")
    func live() async throws {
        let scene = try TrustScene()
        let delegate = PinningDelegate(scene.responder)
        let server = StandInServer(chain: scene.authority.served)
        #expect(try await load(server, delegate) == "hello")
        scene.evaluator.update(
            try PolicySet(
                [HostPolicy(.exact("www.example.com"), TrustScene.policy([TrustScene.stranger()]))], unlisted: .refuse))
        await #expect(throws: URLError.self) { try await load(server, delegate) }
        #expect(server.figures.requests.count == 1)
    }

    @Test("Challenges of other kinds are passed on once")
    func others() async throws {
        let scene = try TrustScene()
        let asked = Recorded<String>()
        let delegate = PinningDelegate(scene.responder) { challenge in
            asked.append(challenge.protectionSpace.authenticationMethod)
            return (.useCredential, URLCredential(user: "me", password: "", persistence: .none))
        }
        let challenge = Self.challenge(NSURLAuthenticationMethodHTTPBasic)
        #expect(await scene.responder.answer(to: challenge) == nil)
        #expect(!scene.responder.respond(to: challenge) { _, _ in Issue.record("answered") })
        let user = await withCheckedContinuation { waiter in
            delegate.urlSession(URLSession.shared, didReceive: challenge) { disposition, credential in
                waiter.resume(returning: disposition == .useCredential ? credential?.user : nil)
            }
        }
        #expect(user == "me")
        #expect(asked.elements == [NSURLAuthenticationMethodHTTPBasic])
        // Without the app's handler, the system handles them.
        let disposition = await withCheckedContinuation { waiter in
            PinningDelegate(scene.responder).urlSession(URLSession.shared, didReceive: challenge) { disposition, _ in
                waiter.resume(returning: disposition)
            }
        }
        #expect(disposition == .performDefaultHandling)
    }

    @Test("The verdicts on the latest 256 servers are stored, each with its time")
    func verdicts() async throws {
        let responder = try TrustScene().responder
        let start = ContinuousClock.now
        for index in 0...256 {
            let challenge = Self.challenge(NSURLAuthenticationMethodServerTrust, host: "h\(index).example.com")
            #expect(await responder.answer(to: challenge)?.disposition == .cancelAuthenticationChallenge)
        }
        #expect(responder.verdict(on: "h0.example.com", port: 443) == nil)
        #expect(responder.verdict(on: "h1.example.com", port: 443)?.isTrusted == false)
        #expect(responder.verdict(on: "h256.example.com", port: 443, since: start)?.isTrusted == false)
        #expect(responder.verdict(on: "h256.example.com", port: 443, since: .now) == nil)
    }

    @Test("An app's own delegate can pass on challenges")
    func ownDelegate() async throws {
        final class Own: NSObject, URLSessionTaskDelegate {
            let responder: ChallengeResponder

            init(_ responder: ChallengeResponder) { self.responder = responder }

            func urlSession(
                _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
                completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
            ) {
                if responder.respond(to: challenge, completionHandler: completionHandler) { return }
                completionHandler(.performDefaultHandling, nil)
            }
        }
        let scene = try TrustScene()
        let server = StandInServer(chain: scene.authority.served)
        #expect(try await load(server, Own(scene.responder)) == "hello")
        let refusing = try TrustScene(pinning: [TrustScene.stranger()])
        await #expect(throws: URLError.self) { try await load(server, Own(refusing.responder)) }
        #expect(server.figures.answers == 2)
    }

    @Test("Client challenges are answered only for trusted hosts with an identity")
    func client() async throws {
        let scene = try TrustScene(identity: true)
        let server = StandInServer(chain: scene.authority.served, asksForClient: true)
        #expect(try await load(server, PinningDelegate(scene.responder)) == "hello")
        // The root is not sent, since the server has it.
        #expect(server.figures.clientChains == [[try TrustScene.identity().certificates[0]]])
        #expect(server.figures.answers == 2)
        let host = try HostName("www.example.com")
        #expect(scene.events.elements == [.used(host: host)])

        scene.identities?.remove(for: [try HostPattern("www.example.com")])
        #expect(try await load(server, PinningDelegate(scene.responder)) == "hello")
        #expect(server.figures.clientChains.last == [])
        #expect(scene.events.elements.last == .missing(host: host))

        // Refused servers send no client challenge.
        let refusing = try TrustScene(pinning: [TrustScene.stranger()], identity: true)
        await #expect(throws: URLError.self) { try await load(server, PinningDelegate(refusing.responder)) }
        #expect(refusing.events.elements.isEmpty)
        #expect(server.figures.clientChains.count == 2)
    }
}
