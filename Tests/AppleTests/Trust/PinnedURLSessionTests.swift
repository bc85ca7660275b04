// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import FoundationNetworking
import Security
import Synchronization
import Testing
import TrustPinning
import TrustPinningTesting

@testable import TrustPinningFoundation

@Suite("The pinned session of Apple's platforms")
struct PinnedURLSessionTests {
    @Test("A session reuses its connection")
    func data() async throws {
        let scene = try TrustScene()
        let server = StandInServer(chain: scene.authority.served) { request in
            .answer(201, fields: ["X-Kind": "a"], body: Array((request.httpMethod ?? "").utf8))
        }
        let session = scene.session()
        let url = try #require(server.url("/path?q=1"))
        for _ in 0..<2 {
            let (data, response) = try await session.data(from: url)
            #expect(String(decoding: data, as: UTF8.self) == "GET")
            let head = try #require(response as? HTTPURLResponse)
            #expect(head.statusCode == 201)
            #expect(head.value(forHTTPHeaderField: "X-Kind") == "a")
        }
        #expect(server.figures.handshakes == 1)
        #expect(server.figures.requests.map { $0.value(forHTTPHeaderField: "User-Agent") } == ["culvert", "culvert"])
    }

    @Test("The error of an untrusted server contains the reason, and nothing is sent")
    func untrusted() async throws {
        let scene = try TrustScene(pinning: [TrustScene.stranger()])
        let server = StandInServer(chain: scene.authority.served)
        let (session, url) = (scene.session(), try #require(server.url()))
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        guard case .untrusted(let host, let verdict) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(host == "www.example.com")
        #expect(verdict.decision?.reason == .pinningFailed)
        #expect(server.figures.requests.isEmpty)
    }

    @Test("closeIdleConnections closes idle connections")
    func idle() async throws {
        let scene = try TrustScene()
        let server = StandInServer(chain: scene.authority.served)
        let (session, url) = (scene.session(), try #require(server.url()))
        _ = try await session.data(from: url)
        session.closeIdleConnections()
        _ = try await session.data(from: url)
        #expect(server.figures.handshakes == 2)
    }

    @Test("Connections of other policies or identities are not reused")
    func basis() async throws {
        let scene = try TrustScene(identity: true)
        let server = StandInServer(chain: scene.authority.served, asksForClient: true)
        let (session, url) = (scene.session(), try #require(server.url()))
        _ = try await session.data(from: url)
        scene.identities?.set(
            try ClientIdentity(pkcs12: IdentityFixtures.bytes(IdentityFixtures.legacy), passphrase: "secret"),
            for: [try HostPattern("www.example.com")])
        for _ in 0..<2 { _ = try await session.data(from: url) }
        #expect(server.figures.handshakes == 2)
        scene.evaluator.update(
            try PolicySet(
                [HostPolicy(.exact("www.example.com"), TrustScene.policy([TrustScene.stranger()]))], unlisted: .refuse))
        await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        #expect(server.figures.requests.count == 3)
    }

    @Test("A connection verified for another host is not reused, even if the certificate has both names")
    func hosts() async throws {
        let scene = try TrustScene(
            hosts: [HostPolicy(try .exact("api.example.com"), TrustScene.policy([TrustScene.stranger()]))],
            identity: true)
        // The session's loader has one connection for all names, as with HTTP/2.
        let server = StandInServer(chain: scene.authority.served, asksForClient: true)
        let session = scene.session()
        _ = try await session.data(from: #require(server.url()))
        let other = try #require(server.url(host: "api.example.com"))
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: other) }
        guard case .untrusted("api.example.com", _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(server.figures.requests.map(\.url?.host) == ["www.example.com"])
        scene.evaluator.update(
            try PolicySet(
                [
                    HostPolicy(
                        .includingSubdomains("example.com"), TrustScene.policy([Pin(.spki, scene.authority.leaf.pin)]))
                ],
                unlisted: .refuse))
        _ = try await session.data(from: other)
        // The client identity is only for the first host.
        #expect(server.figures.clientChains.map(\.isEmpty) == [false, true])
    }

    @Test("Connections are not reused after the pins expire", arguments: PinningPolicy.Expiry.Afterwards.allCases)
    func expiry(afterwards: PinningPolicy.Expiry.Afterwards) async throws {
        let scene = try TrustScene()
        let today = TestDate.today.date
        let policy = try PinningPolicy(
            pins: [Pin(.spki, scene.authority.leaf.pin), Pin(.spki, TestKey(.p256, "spare").pin, role: .backup)],
            expiry: .init(today.addingTimeInterval(60), afterwards: afterwards))
        scene.evaluator.update(try PolicySet([HostPolicy(.exact("www.example.com"), policy)], unlisted: .refuse))
        let server = StandInServer(chain: scene.authority.served)
        let date = Mutex(today)
        let session = scene.session(now: { date.withLock { $0 } })
        let url = try #require(server.url())
        for _ in 0..<2 { _ = try await session.data(from: url) }
        #expect(server.figures.handshakes == 1)
        date.withLock { $0 = today.addingTimeInterval(120) }
        if afterwards == .refuse {
            await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        } else {
            _ = try await session.data(from: url)
        }
        #expect(server.figures.handshakes == 2)
        #expect(server.figures.requests.count == (afterwards == .refuse ? 2 : 3))
    }

    @Test("Connections to a limited number of recently used servers are kept")
    func bound() async throws {
        let scene = try TrustScene()
        let servers = (0...PinnedSession.maximumEndpoints).map { _ in StandInServer(chain: scene.authority.served) }
        let session = scene.session()
        for server in servers + [servers[1], servers[0]] { _ = try await session.data(from: #require(server.url())) }
        #expect(servers[1].figures.handshakes == 1)
        #expect(servers[0].figures.handshakes == 2)
    }

    @Test(
        "Invalid requests are refused", arguments: ["http://www.example.com/", "https://u:p@www.example.com/"])
    func requests(text: String) async throws {
        let session = try TrustScene().session()
        let url = try #require(URL(string: text))
        let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        guard case .invalidRequest = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test("Only redirects within a policy are followed, as a GET if required")
    func redirects() async throws {
        let scene = try TrustScene()
        let server = StandInServer(chain: scene.authority.served) { request in
            switch request.url?.path {
            case "/moved": .answer(303, fields: ["Location": "/end"])
            case "/away": .answer(302, fields: ["Location": "https://api.example.com:\(request.url?.port ?? 0)/end"])
            case "/plain": .answer(302, fields: ["Location": "http://www.example.com/"])
            case "/round": .answer(307, fields: ["Location": "/round"])
            default: .answer(200, body: Array((request.httpMethod ?? "").utf8))
            }
        }
        var request = URLRequest(url: try #require(server.url("/moved")))
        request.httpMethod = "POST"
        request.httpBody = Data("body".utf8)
        request.setValue("secret", forHTTPHeaderField: "Authorization")
        let moved = request
        let session = scene.session { $0.redirects = .samePolicy(limit: 3) }
        let (data, response) = try await session.data(for: moved)
        #expect(String(decoding: data, as: UTF8.self) == "GET")
        #expect(response.url?.path == "/end")
        #expect(server.figures.requests.last?.value(forHTTPHeaderField: "Authorization") == "secret")

        for path in ["/away", "/plain"] {
            let url = try #require(server.url(path))
            let error = await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
            guard case .redirectRefused = error else {
                Issue.record("\(path): \(String(describing: error))")
                continue
            }
        }
        let round = try #require(server.url("/round"))
        await #expect(throws: PinnedSessionError.tooManyRedirects(limit: 3)) { try await session.data(from: round) }
        let (_, answer) = try await scene.session { $0.redirects = .answer }.data(from: round)
        #expect((answer as? HTTPURLResponse)?.statusCode == 307)
    }

    @Test("Permitted redirects to another policy omit fields that identify the user")
    func crossing() async throws {
        let authority = try TestAuthority()
        let scene = try TrustScene(
            hosts: [
                HostPolicy(try .exact("api.example.com"), TrustScene.policy([Pin(.spki, authority.intermediate.pin)]))
            ])
        let server = StandInServer(chain: scene.authority.served) { request in
            request.url?.path == "/away"
                ? .answer(302, fields: ["Location": "https://api.example.com:\(request.url?.port ?? 0)/end"])
                : .answer(200)
        }
        var request = URLRequest(url: try #require(server.url("/away")))
        request.setValue("secret", forHTTPHeaderField: "Authorization")
        let away = request
        _ = try await scene.session { $0.redirects = .anyPolicy(limit: 2) }.data(for: away)
        #expect(server.figures.requests.map(\.url?.host) == ["www.example.com", "api.example.com"])
        #expect(server.figures.requests.last?.value(forHTTPHeaderField: "Authorization") == nil)
    }

    @Test("Additional fields of the configuration are handled like those of a request")
    func additionalFields() async throws {
        let scene = try TrustScene()
        scene.evaluator.update(
            try PolicySet(
                [
                    HostPolicy(
                        .includingSubdomains("example.com"), TrustScene.policy([Pin(.spki, scene.authority.leaf.pin)]))
                ],
                unlisted: .refuse))
        let server = StandInServer(chain: scene.authority.served) { request in
            request.url?.path == "/away"
                ? .answer(302, fields: ["Location": "https://api.example.com:\(request.url?.port ?? 0)/end"])
                : .answer(200)
        }
        let base = TrustScene.loading
        base.httpAdditionalHeaders = ["Authorization": "secret", "X-Kind": "a", "X-Other": "b", "User-Agent": "app"]
        var request = URLRequest(url: try #require(server.url("/away")))
        request.setValue("own", forHTTPHeaderField: "X-Kind")
        let away = request
        let session = scene.session(base: base)
        // Foundation on Linux passes none of these to a loader, so they are not visible in requests.
        #expect(session.base.httpAdditionalHeaders == nil)
        _ = try await session.data(for: away)
        let received = server.figures.requests
        #expect(received.map { $0.value(forHTTPHeaderField: "Authorization") } == ["secret", nil])
        #expect(received.map { $0.value(forHTTPHeaderField: "X-Kind") } == ["own", "own"])
        #expect(received.map { $0.value(forHTTPHeaderField: "X-Other") } == ["b", "b"])
        #expect(received.map { $0.value(forHTTPHeaderField: "User-Agent") } == ["app", "app"])
    }

    @Test("The length in a response to HEAD may exceed the limit")
    func head() async throws {
        let scene = try TrustScene()
        let server = StandInServer(chain: scene.authority.served) { _ in
            .answer(200, fields: ["Content-Length": "4097"])
        }
        let url = try #require(server.url())
        var request = URLRequest(url: url)
        request.httpMethod = "HEAD"
        let head = request
        let session = scene.session { $0.dataLimit = 4096 }
        let (data, response) = try await session.data(for: head)
        #expect(data.isEmpty)
        #expect(response.expectedContentLength == 4097)
        await #expect(throws: PinnedSessionError.responseTooLarge(limit: 4096)) { try await session.data(from: url) }
    }

    @Test("A response above the limit is refused, announced or not", arguments: [true, false])
    func limit(isAnnounced: Bool) async throws {
        let scene = try TrustScene()
        let server = StandInServer(chain: scene.authority.served) { request in
            let body = [UInt8](repeating: 1, count: request.url?.path == "/fits" ? 4096 : 4097)
            return .answer(200, fields: isAnnounced ? ["Content-Length": "\(body.count)"] : [:], body: body)
        }
        let session = scene.session { $0.dataLimit = 4096 }
        #expect(try await session.data(from: #require(server.url("/fits"))).0.count == 4096)
        let url = try #require(server.url("/more"))
        await #expect(throws: PinnedSessionError.responseTooLarge(limit: 4096)) { try await session.data(from: url) }
    }

    @Test("Late, cancelled, and new requests after the end of the session fail")
    func ends() async throws {
        let scene = try TrustScene()
        let server = StandInServer(chain: scene.authority.served) { request in
            request.url?.path == "/idle" ? .failure(.timedOut) : .silence
        }
        let url = try #require(server.url())
        let session = scene.session { $0.wholeTimeout = .milliseconds(300) }
        await #expect(throws: PinnedSessionError.timedOut(.whole)) { try await session.data(from: url) }
        let idle = try #require(server.url("/idle"))
        let patient = scene.session()
        await #expect(throws: PinnedSessionError.timedOut(.idle)) { try await patient.data(from: idle) }
        let task = Task { try await patient.data(from: url) }
        task.cancel()
        await #expect(throws: PinnedSessionError.cancelled) { try await task.value }
        patient.finish()
        await #expect(throws: PinnedSessionError.sessionClosed) { try await patient.data(from: url) }
    }

    @Test("Releasing a session releases all its objects")
    func goes() async throws {
        weak var evaluator: TrustEvaluator?
        func use() async throws {
            let scene = try TrustScene()
            evaluator = scene.evaluator
            let server = StandInServer(chain: scene.authority.served) { _ in .answer(200) }
            _ = try await scene.session().data(from: try #require(server.url()))
        }
        try await use()
        let deadline = ContinuousClock.now + .seconds(60)
        while evaluator != nil, ContinuousClock.now < deadline { await Task.yield() }
        #expect(evaluator == nil)
    }
}
