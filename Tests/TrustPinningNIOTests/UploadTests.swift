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

@Suite("Uploads that the server reads slowly or not at all")
struct UploadTests {
    /// A body that is larger than the buffers of both sockets.
    private static let large = ByteBuffer(repeating: 0x61, count: 24 * 1024 * 1024)

    @Test(
        "A connection is not reused if the server responded before it had read the request",
        arguments: ["413 Content Too Large", "307 Temporary Redirect"])
    func earlyAnswer(status: String) async throws {
        let stopped = NIOLockedValueBox<LoopbackServer.Connection?>(nil)
        let server = try await LoopbackServer.start(
            onHead: { head in
                guard head.uri == "/large" else { return [] }
                return [
                    .call { connection in
                        stopped.withLockedValue { $0 = connection }
                        connection.channel.setOption(.autoRead, value: false).whenComplete { _ in
                            connection.take([.send(LoopbackServer.answer(status, "", ["Location: /end"]))])
                        }
                    }
                ]
            },
            script: { [.send(LoopbackServer.ok("\($0.head.uri) \($0.body.readableBytes)"))] })
        // A request on the first connection would time out after this.
        let session = try server.session { $0.idleTimeout = .seconds(10) }
        let request = try PinnedRequest(url: server.url("/large"), method: .POST, body: .buffer(Self.large))
        let (data, response) = try await session.data(for: request)
        if status.hasPrefix("307") {
            #expect(String(data) == "/end \(Self.large.readableBytes)")
        } else {
            #expect(response.statusCode == 413)
        }
        #expect(String(try await session.data(from: server.url("/next")).0) == "/next 0")
        #expect(server.figures.accepted == 2)
        // The client has closed the connection, which the server notices when it continues to read.
        let first = try #require(stopped.withLockedValue { $0 })
        try await first.channel.setOption(.autoRead, value: true).get()
        #expect(await server.wait { $0.closed == 1 })
    }

    @Test("A slow upload does not count as an idle connection", arguments: [false, true])
    func slow(isStream: Bool) async throws {
        let server = try await LoopbackServer.start(
            onHead: { _ in
                [
                    .call { connection in
                        let channel = connection.channel
                        // Reads small parts for longer than the time-out, and then the rest.
                        channel.setOption(.autoRead, value: false).whenFailure { _ in channel.close(promise: nil) }
                        let end = NIODeadline.now() + .seconds(6)
                        channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(40)) { task in
                            guard channel.isActive, .now() < end else {
                                task.cancel()
                                channel.setOption(.autoRead, value: true).whenFailure { _ in channel.close(promise: nil)
                                }
                                return
                            }
                            channel.read()
                        }
                    }
                ]
            },
            script: { [.send(LoopbackServer.ok("\($0.body.readableBytes)"))] })
        // Much longer than a busy machine may stall.
        let session = try server.session { $0.idleTimeout = .seconds(4) }
        // At most 256 KiB are read every 40 ms, which is 38 MiB in that time.
        let body = ByteBuffer(repeating: 0x61, count: 64 * 1024 * 1024)
        let request = try PinnedRequest(
            url: server.url(), method: .POST,
            body: isStream ? .stream(length: body.readableBytes) { try await $0.write(body) } : .buffer(body))
        let begin = ContinuousClock.now
        #expect(String(try await session.data(for: request).0) == "\(body.readableBytes)")
        #expect(ContinuousClock.now - begin > .seconds(4))
    }

    @Test("A chunk of a streamed body may be longer than a written piece")
    func longChunks() async throws {
        let server = try await LoopbackServer.start { [.send(LoopbackServer.ok("\($0.body.readableBytes)"))] }
        let session = try server.session()
        let sizes = [1, OutgoingBody.pieceSize, OutgoingBody.pieceSize + 1, 5 * OutgoingBody.pieceSize - 1]
        // All pieces differ, because the bytes repeat after a prime number of bytes.
        let body = ByteBuffer(bytes: (0..<sizes.reduce(0, +)).map { UInt8($0 % 251) })
        for length in [nil, body.readableBytes] {
            let request = try PinnedRequest(
                url: server.url(), method: .POST,
                body: .stream(length: length) { writer in
                    var rest = body
                    for size in sizes {
                        if let chunk = rest.readSlice(length: size) { try await writer.write(chunk) }
                    }
                })
            #expect(String(try await session.data(for: request).0) == "\(body.readableBytes)")
        }
        #expect(server.figures.requests.map { $0.body == body } == [true, true])
        #expect(server.figures.accepted == 1)
    }

    @Test("TRACE with a body and CONNECT are refused before anything is sent")
    func refusedMethods() async throws {
        let server = try await LoopbackServer.start()
        let session = try server.session()
        let smuggled = PinnedRequest.Body.bytes("GET /admin HTTP/1.1\r\n\r\n".utf8)
        for (method, body) in [
            (HTTPMethod.TRACE, smuggled), (.RAW(value: "TRACE"), smuggled),
            (.TRACE, .stream { try await $0.write("GET".utf8) }), (.RAW(value: "CONNECT"), .none),
        ] {
            let request = try PinnedRequest(url: server.url(), method: method, body: body)
            let error = await #expect(throws: PinnedSessionError.self) { try await session.data(for: request) }
            guard case .invalidRequest = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
        #expect(server.figures.accepted == 0)
        _ = try await session.data(for: PinnedRequest(url: server.url(), method: .TRACE))
        #expect(server.figures.requests.map(\.head.method) == [.TRACE])
    }
}
