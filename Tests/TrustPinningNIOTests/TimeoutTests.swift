// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOPosix
import Testing
import TrustPinning
import TrustPinningNIOTesting

@testable import TrustPinningNIO

@Suite("Time-outs of requests")
struct TimeoutTests {
    @Test("A request times out if the server never starts TLS")
    func connect() async throws {
        // Accepts connections, but sends nothing.
        let silent = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        defer { silent.close(promise: nil) }
        let port = try #require(silent.localAddress?.port)
        var configuration = PinnedSession.Configuration()
        configuration.connectTimeout = .milliseconds(50)
        try configuration.setDetour(from: "www.example.com:\(port)", to: "127.0.0.1:\(port)")
        let tls = try PinnedTLS { _ in ServerVerdict(isTrusted: true, reason: "test") }
        let session = PinnedSession(tls: tls, configuration: configuration)
        let url = try #require(URL(string: "https://www.example.com:\(port)/"))
        await #expect(throws: PinnedSessionError.timedOut(.connect)) { try await session.data(from: url) }
        #expect(try await session.wait { $0.open == 0 })
    }

    @Test("A request times out without a verdict, and nothing is sent")
    func verdict() async throws {
        let server = try await LoopbackServer.start()
        let tls = try PinnedTLS { _ in
            try? await Task.sleep(for: .seconds(3600))
            return ServerVerdict(isTrusted: true, reason: "late")
        }
        let session = try server.session(tls: tls) { $0.connectTimeout = .seconds(1) }
        let url = try server.url()
        await #expect(throws: PinnedSessionError.timedOut(.connect)) { try await session.data(from: url) }
        // On a busy machine, the time-out may fire before the server has noticed the connection.
        #expect(await server.wait { $0.closed == $0.accepted })
        #expect(server.figures.applicationBytes == 0)
    }

    @Test(
        "A request times out if its connection is idle, before or during the response",
        arguments: [
            [], [LoopbackServer.Step.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")],
        ])
    func idle(steps: [LoopbackServer.Step]) async throws {
        let server = try await LoopbackServer.start { _ in steps }
        let session = try server.session { $0.idleTimeout = .milliseconds(50) }
        let url = try server.url()
        await #expect(throws: PinnedSessionError.timedOut(.idle)) { try await session.data(from: url) }
        #expect(await server.wait { $0.closed == 1 })
    }

    @Test("A request times out as a whole, even if bytes keep arriving")
    func whole() async throws {
        let server = try await LoopbackServer.start { _ in
            [
                .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                .call { connection in
                    connection.channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(1)) {
                        task in
                        guard connection.channel.isActive else { return task.cancel() }
                        connection.take([.send("1\r\nx\r\n")])
                    }
                },
            ]
        }
        let session = try server.session()
        var request = try PinnedRequest(url: server.url())
        request.timeout = .milliseconds(300)
        let limited = request
        await #expect(throws: PinnedSessionError.timedOut(.whole)) { try await session.data(for: limited) }
        #expect(await server.wait { $0.closed == 1 })
    }

    @Test("A request times out while it waits for a connection")
    func turn() async throws {
        let server = try await LoopbackServer.start { _ in [] }
        let session = try server.session { $0.connectionsPerHost = 1 }
        let url = try server.url()
        let first = Task { try await session.data(from: url) }
        #expect(await server.wait { $0.requests.count == 1 })
        var request = PinnedRequest(url: url)
        request.timeout = .milliseconds(50)
        let waiting = request
        await #expect(throws: PinnedSessionError.timedOut(.whole)) { try await session.data(for: waiting) }
        first.cancel()
        await #expect(throws: PinnedSessionError.cancelled) { try await first.value }
        #expect(server.figures.requests.count == 1)
    }

    @Test("Cancelling a task ends its request in each phase")
    func cancellation() async throws {
        let server = try await LoopbackServer.start { request in
            request.head.uri == "/body" ? [.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")] : []
        }
        let session = try server.session { $0.connectionsPerHost = 1 }
        for path in ["/head", "/body"] {
            let count = server.figures.requests.count
            let url = try server.url(path)
            let task = Task { try await session.data(from: url) }
            #expect(await server.wait { $0.requests.count == count + 1 })
            let waiting = Task { try await session.data(from: url) }
            waiting.cancel()
            await #expect(throws: PinnedSessionError.cancelled) { try await waiting.value }
            task.cancel()
            await #expect(throws: PinnedSessionError.cancelled) { try await task.value }
        }
        let slow = try PinnedTLS { _ in
            try? await Task.sleep(for: .seconds(3600))
            return ServerVerdict(isTrusted: true, reason: "late")
        }
        let connecting = try server.session(tls: slow)
        let url = try server.url()
        let accepted = server.figures.accepted
        let task = Task { try await connecting.data(from: url) }
        #expect(await server.wait { $0.accepted == accepted + 1 })
        task.cancel()
        await #expect(throws: PinnedSessionError.cancelled) { try await task.value }
        #expect(await server.wait { $0.closed == $0.accepted })
        #expect(try await connecting.wait { $0.open == 0 })
    }

    @Test("A connection whose first request was cancelled closes after the keep-alive time")
    func cancelledWhenReady() async throws {
        let server = try await LoopbackServer.start()
        let pool = try server.pool(keepAlive: .milliseconds(1))
        let lease = try await pool.lease(Endpoint(server.url()), deadline: .now() + .seconds(120)).get()
        let plan = try server.plan()
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return await lease.connection.perform(plan)
        }
        task.cancel()
        guard case .failure(let failure) = await task.value else {
            Issue.record("the cancelled request has an answer")
            return
        }
        #expect(failure.error == .cancelled)
        #expect(await server.wait(within: .seconds(10)) { $0.closed == 1 })
        #expect(server.figures.requests.isEmpty)
        pool.close()
    }

    @Test("Requests of a cancelled task are not sent")
    func cancelledBefore() async throws {
        let server = try await LoopbackServer.start()
        let session = try server.session()
        let url = try server.url()
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await session.data(from: url)
        }
        task.cancel()
        await #expect(throws: PinnedSessionError.cancelled) { try await task.value }
        #expect(server.figures.requests.isEmpty)
    }
}
