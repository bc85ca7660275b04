// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Dispatch
import FoundationEssentials
import NIOCore
import NIOPosix
import Testing
import TrustPinning
import TrustPinningNIOTesting

@testable import TrustPinningNIO

@Suite("Leases of connections", .timeLimit(.minutes(1)))
struct LeaseTests {
    /// Returns an address when the test completes its promise.
    private final class SlowResolver: Resolver, Sendable {
        let answer: EventLoopPromise<[SocketAddress]>
        let asked: EventLoopPromise<Void>

        init(_ loop: any EventLoop) {
            answer = loop.makePromise()
            asked = loop.makePromise()
        }

        func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
            asked.succeed()
            return answer.futureResult
        }

        func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
            answer.futureResult.eventLoop.makeSucceededFuture([])
        }

        func cancelQueries() {}
    }

    private static func pool(
        _ loop: any EventLoop, limit: Int = 1, resolver: (any Resolver & Sendable)? = nil
    ) throws -> ConnectionPool {
        let tls = try PinnedTLS { _ in ServerVerdict(isTrusted: true, reason: "test") }
        return ConnectionPool(
            connector: Connector(
                tls: tls, group: loop, connectTimeout: .seconds(300), keepAlive: .seconds(60), detours: [:],
                resolver: resolver),
            limit: limit)
    }

    @Test("A request that is cancelled during name lookup returns its slot immediately")
    func lookup() async throws {
        let server = try await LoopbackServer.start()
        let port = try #require(server.url().port)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let resolver = SlowResolver(loop)
        let pool = try Self.pool(loop, resolver: resolver)
        let endpoint = try HTTPSEndpoint(server.url())
        let task = Task { await pool.lease(endpoint, deadline: .now() + .seconds(300)) }
        try await resolver.asked.futureResult.get()
        #expect(pool.figures.open == 1)
        task.cancel()
        guard case .failure(.cancelled) = await task.value else {
            Issue.record("the request was not cancelled")
            return
        }
        // The slot was returned on the loop before.
        try await loop.submit {}.get()
        #expect(pool.figures.open == 0)
        // The late address causes no connection, and the slot is not returned again.
        resolver.answer.succeed([try SocketAddress(ipAddress: "127.0.0.1", port: port)])
        #expect(await server.wait { $0.accepted == $0.closed })
        #expect(pool.figures.open == 0)
    }

    @Test("A lease whose deadline is past ends without its timer")
    func late() async throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let resolver = SlowResolver(loop)
        let pool = try Self.pool(loop, resolver: resolver)
        let endpoint = try HTTPSEndpoint(#require(URL(string: "https://www.example.com/")))
        let first = Task { await pool.lease(endpoint, deadline: .now() + .seconds(300)) }
        try await resolver.asked.futureResult.get()
        // The timer may also fire before the lease is in the queue, and then would end nothing. While the loop is
        // blocked, the timer cannot fire.
        let isOver = DispatchSemaphore(value: 0)
        let wasBlocked = loop.makePromise(of: Bool.self)
        await withCheckedContinuation { started in
            loop.execute {
                started.resume()
                wasBlocked.succeed(isOver.wait(timeout: .now() + .seconds(10)) == .success)
            }
        }
        let late = await pool.lease(endpoint, deadline: .now())
        isOver.signal()
        #expect(try await wasBlocked.futureResult.get(), "the lease waited for its timer")
        if case .failure(.timedOut(.whole)) = late {} else { Issue.record("the lease is not timed out") }
        #expect(pool.figures.open == 1 && pool.figures.waiting == 0)
        first.cancel()
        _ = await first.value
        resolver.answer.succeed([])
    }
}
