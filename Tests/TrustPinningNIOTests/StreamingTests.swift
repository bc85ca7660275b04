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

@Suite("Streamed bodies")
struct StreamingTests {
    @Test("Large bodies arrive chunk by chunk")
    func download() async throws {
        let chunk = [UInt8](repeating: 0x61, count: 65_536)
        let server = try await LoopbackServer.start { _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: \(65_536 * 64)\r\n\r\n")]
                + (0..<64).map { _ in .sendBytes(chunk) }
        }
        let session = try server.session()
        let (body, _) = try await session.bytes(from: server.url())
        var count = 0
        for try await part in body {
            count += part.readableBytes
            await Task.yield()
        }
        #expect(count == 65_536 * 64)
        #expect(String(try await session.data(from: server.url()).0.prefix(1)) == "a")
        #expect(server.figures.accepted == 1)
    }

    @Test("The first chunk of a body can be read before the rest arrives")
    func firstPart() async throws {
        let paused = NIOLockedValueBox<LoopbackServer.Connection?>(nil)
        let server = try await LoopbackServer.start { _ in
            [
                .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
                .call { connection in paused.withLockedValue { $0 = connection } },
            ]
        }
        let session = try server.session()
        let (body, _) = try await session.bytes(from: server.url())
        var iterator = body.makeAsyncIterator()
        #expect(try await iterator.next().map { String(buffer: $0) } == "hello")
        // The server does not close its connection after the first part.
        let end = ContinuousClock.now + .seconds(20)
        while paused.withLockedValue({ $0 == nil }), ContinuousClock.now < end { await Task.yield() }
        try #require(paused.withLockedValue { $0 }).take([.send("6\r\n world\r\n0\r\n\r\n")])
        #expect(try await iterator.next().map { String(buffer: $0) } == " world")
        #expect(try await iterator.next() == nil)
    }

    @Test("An unread body does not fill memory")
    func backPressure() async throws {
        let sent = NIOLockedValueBox(0)
        let done = NIOLockedValueBox(false)
        let total = 64 * 1024 * 1024
        let server = try await LoopbackServer.start { _ in
            [
                .send("HTTP/1.1 200 OK\r\nContent-Length: \(total)\r\n\r\n"),
                .call { connection in
                    // Send one chunk after another, as fast as they are accepted.
                    let chunk = ByteBuffer(repeating: 0x62, count: 65_536)
                    @Sendable func next() {
                        guard sent.withLockedValue({ $0 }) < total else { return done.withLockedValue { $0 = true } }
                        connection.channel.writeAndFlush(chunk).whenSuccess {
                            sent.withLockedValue { $0 += 65_536 }
                            next()
                        }
                    }
                    next()
                },
            ]
        }
        let session = try server.session()
        let (body, _) = try await session.bytes(from: server.url())
        // The server stops when the sockets and the reader's queue are full.
        var last = -1
        var still = 0
        while still < 200 {
            let now = sent.withLockedValue { $0 }
            still = now == last ? still + 1 : 0
            last = now
            try await session.spin()
        }
        #expect(!done.withLockedValue { $0 })
        #expect(last < total / 2)
        var count = 0
        for try await part in body { count += part.readableBytes }
        #expect(count == total)
    }

    @Test("Bodies of unknown length are sent in chunks")
    func uploadChunked() async throws {
        let server = try await LoopbackServer.start { [.send(LoopbackServer.ok($0.text))] }
        let session = try server.session()
        let chunks = AsyncStream<ByteBuffer> { continuation in
            for text in ["one ", "two ", "", "three"] { continuation.yield(ByteBuffer(string: text)) }
            continuation.finish()
        }
        let request = try PinnedRequest(url: server.url(), method: .POST, body: .stream(chunks))
        #expect(String(try await session.data(for: request).0) == "one two three")
        let head = try #require(server.figures.requests.first?.head)
        #expect(head.headers["transfer-encoding"] == ["chunked"])
        #expect(head.headers["content-length"].isEmpty)
    }

    @Test(
        "Bodies of known length are sent with it, and must match it",
        arguments: [
            (10, 10, true), (9, 10, false), (11, 10, false), (0, 10, false),
        ])
    func uploadLength(sent: Int, announced: Int, isFine: Bool) async throws {
        let server = try await LoopbackServer.start { [.send(LoopbackServer.ok("\($0.body.readableBytes)"))] }
        let session = try server.session()
        let request = try PinnedRequest(
            url: server.url(), method: .PUT,
            body: .stream(length: announced) { writer in
                for _ in 0..<sent { try await writer.write([1]) }
            })
        if isFine {
            #expect(String(try await session.data(for: request).0) == "\(announced)")
        } else {
            let error = await #expect(throws: PinnedSessionError.self) { try await session.data(for: request) }
            guard case .bodyFailed = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            // With another length, a server would wait, or treat the following data as a request.
            #expect(await server.wait { $0.closed == 1 })
            #expect(server.figures.requests.isEmpty)
        }
    }

    @Test("A failing body source fails the request")
    func sourceFails() async throws {
        struct Broken: Error {}
        let server = try await LoopbackServer.start()
        let session = try server.session()
        let request = try PinnedRequest(
            url: server.url(), method: .POST,
            body: .stream { writer in
                try await writer.write("beginning".utf8)
                throw Broken()
            })
        await #expect(throws: PinnedSessionError.bodyFailed("Broken()")) { try await session.data(for: request) }
        #expect(await server.wait { $0.closed == 1 })
    }

    @Test("Sending a body ends when the server has responded without it")
    func earlyAnswer() async throws {
        let server = try await LoopbackServer.start(
            onHead: { _ in [.send(LoopbackServer.answer("413 Content Too Large", "no", ["Connection: close"]))] },
            script: { _ in [] })
        let session = try server.session()
        let ended = NIOLockedValueBox(false)
        let request = try PinnedRequest(
            url: server.url(), method: .POST,
            body: .stream { writer in
                defer { ended.withLockedValue { $0 = true } }
                // Does not end by itself.
                while true { try await writer.write([UInt8](repeating: 1, count: 65_536)) }
            })
        let (data, response) = try await session.data(for: request)
        #expect(response.statusCode == 413)
        #expect(String(data) == "no")
        #expect(await server.wait { _ in ended.withLockedValue { $0 } })
    }

    @Test("A body waits for `100 Continue` if requested")
    func continueGranted() async throws {
        let order = NIOLockedValueBox<[String]>([])
        let server = try await LoopbackServer.start(
            onHead: { head in
                order.withLockedValue { $0.append("head \(head.headers["expect"])") }
                return [.send("HTTP/1.1 100 Continue\r\n\r\n")]
            },
            script: { request in
                order.withLockedValue { $0.append("body") }
                return [.send(LoopbackServer.ok(request.text))]
            })
        let session = try server.session()
        var request = try PinnedRequest(
            url: server.url(), method: .POST,
            body: .stream { writer in
                order.withLockedValue { $0.append("produce") }
                try await writer.write("data".utf8)
            })
        request.expectsContinue = true
        #expect(String(try await session.data(for: request).0) == "data")
        #expect(order.withLockedValue { $0 } == ["head [\"100-continue\"]", "produce", "body"])
    }

    @Test("A body is not sent if the server refuses it")
    func continueRefused() async throws {
        let server = try await LoopbackServer.start(
            onHead: { _ in [.send(LoopbackServer.answer("417 Expectation Failed", "no"))] }, script: { _ in [] })
        let session = try server.session()
        var request = try PinnedRequest(url: server.url(), method: .POST, body: .bytes("secret".utf8))
        request.expectsContinue = true
        // The server has responded by then, even on a slow machine.
        request.continueTimeout = .minutes(1)
        #expect(try await session.data(for: request).1.statusCode == 417)
        #expect(await server.wait { $0.closed == 1 })
        #expect(server.figures.requests.isEmpty)
    }

    @Test("A body is sent without `100 Continue` after the time-out")
    func continueSilent() async throws {
        let server = try await LoopbackServer.start { [.send(LoopbackServer.ok($0.text))] }
        let session = try server.session()
        var request = try PinnedRequest(url: server.url(), method: .POST, body: .bytes("data".utf8))
        request.expectsContinue = true
        #expect(String(try await session.data(for: request).0) == "data")
    }
}

extension PinnedSession {
    /// Runs one round of the event loops.
    func spin() async throws {
        try await MultiThreadedEventLoopGroupProbe.round()
    }
}
