// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import Testing
import TrustPinning
import TrustPinningNIOTesting

@testable import TrustPinningNIO

@Suite("Reuse of connections")
struct ConnectionReuseTests {
    @Test("A connection serves one request after another")
    func reuse() async throws {
        let server = try await LoopbackServer.start { [.send(LoopbackServer.ok("\($0.connection).\($0.index)"))] }
        let session = try server.session()
        for index in 0..<5 { #expect(String(try await session.data(from: server.url()).0) == "0.\(index)") }
        #expect(server.figures.accepted == 1)
    }

    @Test("A connection serves only its host, even if another has the same address")
    func otherHost() async throws {
        let server = try await LoopbackServer.start { [.send(LoopbackServer.ok("\($0.connection)"))] }
        let session = try server.session(hosts: ["www.example.com", "v1.api.example.com"])
        for (host, connection) in [("www", "0"), ("v1.api", "1"), ("www", "0"), ("v1.api", "1")] {
            let url = try server.url("/", host: "\(host).example.com")
            #expect(String(try await session.data(from: url).0) == connection)
        }
        #expect(server.figures.accepted == 2)
    }

    @Test(
        "Connections are closed if a response requests it, or has no defined end",
        arguments: [
            LoopbackServer.ok("hello", ["Connection: close"]),
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ])
    func notKept(answer: String) async throws {
        let server = try await LoopbackServer.start { _ in [.send(answer)] }
        let session = try server.session()
        for _ in 0..<2 { #expect(String(try await session.data(from: server.url()).0) == "hello") }
        #expect(server.figures.accepted == 2)
        #expect(await server.wait { $0.closed == 2 })
    }

    @Test("A connection that the server closed is replaced without an error")
    func stale() async throws {
        let server = try await LoopbackServer.start { request in
            // The first connection responds once, and closes at the second request.
            request.connection == 0 && request.index == 1
                ? [.abort] : [.send(LoopbackServer.ok("\(request.connection)"))]
        }
        let session = try server.session()
        #expect(String(try await session.data(from: server.url()).0) == "0")
        #expect(String(try await session.data(from: server.url()).0) == "1")
        #expect(server.figures.requests.count == 3)
    }

    @Test(
        "A request that must not be sent twice fails with its connection",
        arguments: [HTTPMethod.POST, .PATCH])
    func notRepeated(method: HTTPMethod) async throws {
        let server = try await LoopbackServer.start { request in
            request.index == 1 ? [.abort] : [.send(LoopbackServer.ok("\(request.connection)"))]
        }
        let session = try server.session()
        _ = try await session.data(from: server.url())
        let request = try PinnedRequest(url: server.url(), method: method, body: .bytes("order".utf8))
        await #expect(throws: PinnedSessionError.self) { try await session.data(for: request) }
        #expect(server.figures.requests.count == 2)
    }

    @Test("A request is not repeated after a failure of a new connection")
    func newConnection() async throws {
        let server = try await LoopbackServer.start { _ in [.abort] }
        let session = try server.session()
        let url = try server.url()
        await #expect(throws: PinnedSessionError.self) { try await session.data(from: url) }
        #expect(server.figures.requests.count == 1)
    }

    @Test("A connection with unsolicited data is not reused")
    func unasked() async throws {
        let server = try await LoopbackServer.start { request in
            [.send(LoopbackServer.ok("\(request.connection)") + LoopbackServer.ok("poison"))]
        }
        let session = try server.session()
        #expect(String(try await session.data(from: server.url()).0) == "0")
        #expect(await server.wait { $0.closed == 1 })
        #expect(String(try await session.data(from: server.url()).0) == "1")
    }

    @Test("Idle connections are closed after the keep-alive time")
    func keepAlive() async throws {
        let server = try await LoopbackServer.start()
        let session = try server.session { $0.keepAlive = .milliseconds(1) }
        _ = try await session.data(from: server.url())
        #expect(await server.wait { $0.closed == 1 })
        _ = try await session.data(from: server.url())
        #expect(server.figures.accepted == 2)
    }

    @Test("The number of connections to a host is limited, and further requests wait")
    func limit() async throws {
        let server = try await LoopbackServer.start()
        let session = try server.session { $0.connectionsPerHost = 2 }
        let url = try server.url()
        let texts = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<20 { group.addTask { String(try await session.data(from: url).0) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(texts.count == 20)
        #expect(server.figures.accepted <= 2)
        #expect(server.figures.requests.count == 20)
    }

    @Test("A failed connection frees its slot for a waiting request")
    func failedTurn() async throws {
        let server = try await LoopbackServer.start { request in
            request.head.uri == "/bad" ? [.abort] : [.send(LoopbackServer.ok("fine"))]
        }
        let session = try server.session { $0.connectionsPerHost = 1 }
        let (bad, good) = try (server.url("/bad"), server.url("/good"))
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<5 {
                group.addTask { _ = try? await session.data(from: bad) }
                group.addTask { await #expect(throws: Never.self) { try await session.data(from: good) } }
            }
        }
        #expect(session.connectionFigures.open <= 1)
    }

    @Test("Finishing a session closes its connections")
    func finish() async throws {
        let server = try await LoopbackServer.start()
        let session = try server.session()
        let url = try server.url()
        _ = try await session.data(from: url)
        session.finish()
        #expect(await server.wait { $0.closed == 1 })
        await #expect(throws: PinnedSessionError.sessionClosed) { try await session.data(from: url) }
    }

    @Test("Releasing a session closes its connections")
    func forgotten() async throws {
        let server = try await LoopbackServer.start()
        var session: PinnedSession? = try server.session()
        _ = try await session?.data(from: server.url())
        session = nil
        #expect(await server.wait { $0.closed == 1 })
    }

    @Test("closeIdleConnections closes idle connections")
    func closeIdle() async throws {
        let server = try await LoopbackServer.start()
        let session = try server.session()
        _ = try await session.data(from: server.url())
        session.closeIdleConnections()
        #expect(await server.wait { $0.closed == 1 })
        _ = try await session.data(from: server.url())
        #expect(server.figures.accepted == 2)
    }

    @Test("A closing connection accepts no request")
    func closing() async throws {
        let stopped = NIOLockedValueBox<LoopbackServer.Connection?>(nil)
        let server = try await LoopbackServer.start { _ in
            [
                .call { connection in
                    stopped.withLockedValue { $0 = connection }
                    // The server does not respond to the end of TLS, so the connection stays active until that times
                    // out.
                    connection.channel.setOption(.autoRead, value: false).whenComplete { _ in
                        connection.take([.send(LoopbackServer.ok("hello"))])
                    }
                }
            ]
        }
        let pool = try server.pool()
        let lease = try await pool.lease(Endpoint(server.url()), deadline: .now() + .seconds(120)).get()
        let plan = try server.plan()
        let answer = try await lease.connection.perform(plan).get()
        #expect(String(buffer: try await answer.body.collect(upTo: 1024)) == "hello")
        lease.connection.closeIfIdle()
        guard case .failure(let failure) = await lease.connection.perform(plan) else {
            Issue.record("the request has an answer")
            return
        }
        // A request that was not sent can be repeated on another connection.
        #expect(failure.isStale && !failure.requestLeft)
        #expect(failure.error == .connectionLost("closed before the request"))
        let connection = try #require(stopped.withLockedValue { $0 })
        try await connection.channel.setOption(.autoRead, value: true).get()
        #expect(await server.wait { $0.closed == 1 })
        #expect(server.figures.requests.count == 1)
        pool.close()
    }

    @Test("A connection is closed if its response is not read to the end")
    func droppedBody() async throws {
        let server = try await LoopbackServer.start { _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n\(String(repeating: "x", count: 1000))")]
        }
        let session = try server.session()
        do {
            let (body, response) = try await session.bytes(from: server.url())
            #expect(response.statusCode == 200)
            var iterator = body.makeAsyncIterator()
            #expect(try await iterator.next() != nil)
        }
        #expect(await server.wait { $0.closed == 1 })
    }
}
