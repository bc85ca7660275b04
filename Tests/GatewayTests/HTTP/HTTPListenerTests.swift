// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Crypto
import FoundationEssentials
import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOSSL
import PacketTunnelLinux
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import TunnelSystem

@testable import Gateway

@Suite("Listeners of the gateway")
struct HTTPListenerTests {
    @Test("Requests on one connection are answered one after another")
    func answers() async throws {
        try await Listening.with { listening in
            let client = try await RawClient.connect(listening.port)
            client.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            let text = try await client.rest()
            #expect(text.contains("/a from 127.0.0.1") && text.contains("/b from 127.0.0.1"))
            #expect(text.components("HTTP/1.1 200 OK") == 2)
        }
    }

    @Test(
        "Input that is not valid HTTP gets an error as its answer, and the connection ends",
        arguments: [
            "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}", "HELLO\r\n\r\n", "GET / HTTP/1.1\r\nHost x\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        ])
    func malformed(bytes: String) async throws {
        try await Listening.with { listening in
            let client = try await RawClient.connect(listening.port)
            client.send(bytes)
            let text = try await client.rest()
            #expect(text.hasPrefix("HTTP/1.1 400 Bad Request\r\n"), "\(text)")
            #expect(text.contains("application/problem+json") && text.contains(#""code":"malformedRequest""#))
            #expect(listening.answering.refusals == [.malformedRequest])
        }
    }

    @Test("Heads with too many bytes or fields are refused")
    func headers() async throws {
        let long = "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + String(repeating: "a", count: 20_000) + "\r\n\r\n"
        let many =
            "GET / HTTP/1.1\r\nHost: x\r\n" + (0..<200).map { "X-\($0): a\r\n" }.joined() + "\r\n"
        for bytes in [long, many] {
            try await Listening.with { listening in
                let client = try await RawClient.connect(listening.port)
                client.send(bytes)
                let text = try await client.rest()
                #expect(text.hasPrefix("HTTP/1.1 431 "), "\(text)")
                #expect(text.contains(#""code":"headersTooLarge""#))
            }
        }
    }

    @Test("A connection that sends no whole head in time ends, even if it sends single bytes")
    func slowHead() async throws {
        var limits = HTTPLimits()
        limits.head = .milliseconds(300)
        try await Listening.with(limits) { listening in
            let silent = try await RawClient.connect(listening.port)
            #expect(try await silent.rest() == "")
            let dribbling = try await RawClient.connect(listening.port)
            let bytes = Task {
                for byte in "GET / HTTP/1.1\r\nHost: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" {
                    guard (try? await Task.sleep(for: .milliseconds(20))) != nil else { return }
                    dribbling.send(String(byte))
                }
            }
            #expect(try await dribbling.rest() == "")
            bytes.cancel()
        }
    }

    @Test("A body that does not arrive in time is refused")
    func slowBody() async throws {
        var limits = HTTPLimits()
        limits.upload = .milliseconds(300)
        try await Listening.with(limits) { listening in
            let client = try await RawClient.connect(listening.port)
            client.send("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
            let text = try await client.rest()
            #expect(text.hasPrefix("HTTP/1.1 408 "), "\(text)")
            #expect(listening.answering.refusals == [.tooSlow])
        }
    }

    @Test("A response before the end of its request is received, and the connection then ends")
    func early() async throws {
        var limits = HTTPLimits()
        limits.lingering = .milliseconds(300)
        try await Listening.with(limits) { listening in
            let client = try await RawClient.connect(listening.port)
            client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\nabc")
            let text = try await client.rest()
            #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n") && text.lowercased().contains("connection: close"))
        }
    }

    @Test("Connections beyond the limit are closed immediately, and accepted again when one ends")
    func connections() async throws {
        var limits = HTTPLimits()
        limits.connections = 2
        try await Listening.with(limits) { listening in
            let first = try await RawClient.connect(listening.port)
            let second = try await RawClient.connect(listening.port)
            try await listening.wait { $0.connectionCount == 2 }
            let third = try await RawClient.connect(listening.port)
            #expect(try await third.rest() == "")
            #expect(listening.answering.refusals == [.tooManyConnections])
            first.close()
            try await listening.wait { $0.connectionCount == 1 }
            let fourth = try await RawClient.connect(listening.port)
            fourth.send("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            #expect(try await fourth.rest().contains("/x from"))
            second.close()
        }
    }

    @Test("One source cannot use all connections of a listener")
    func sources() async throws {
        var limits = HTTPLimits()
        limits.connections = 100
        limits.connectionsOfOneSource = 3
        try await Listening.with(limits) { listening in
            var clients: [RawClient] = []
            for _ in 0..<3 { clients.append(try await RawClient.connect(listening.port)) }
            try await listening.wait { $0.connectionCount == 3 }
            #expect(try await RawClient.connect(listening.port).rest() == "")
            for client in clients { client.close() }
        }
    }

    @Test(
        "All listeners together leave descriptors for nft, and no source can use all connections of a listener",
        arguments: [(1024, 4), (1024, 7), (4096, 4), (16_384, 4), (1_048_576, 4)])
    func descriptors(_ descriptors: Int, _ listeners: Int) {
        let limits = HTTPLimits(descriptors: descriptors, listeners: listeners)
        #expect(limits.connections * listeners <= descriptors - HTTPLimits.reservedDescriptors)
        #expect(limits.connections >= 100 && limits.connections <= HTTPLimits().connections)
        #expect((1...limits.connections / 4).contains(limits.connectionsOfOneSource))
        // Even if there are fewer descriptors than are reserved, an administrator can reach the gateway.
        #expect(HTTPLimits(descriptors: 64, listeners: 4).connectionsOfOneSource >= 2)
    }

    @Test("Stopping ends idle connections, and accepts no more")
    func stop() async throws {
        try await Listening.with { listening in
            let client = try await RawClient.connect(listening.port)
            client.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            try await listening.wait { _ in listening.answering.count == 1 }
            await listening.listener.stop(within: .seconds(5))
            #expect(try await client.rest().contains("/x from"))
            await #expect(throws: (any Error).self) { try await RawClient.connect(listening.port) }
        }
    }

    @Test("The device listener refuses TLS 1.2, and the addKey listener accepts it")
    func versions() async throws {
        let pair = try GatewayCertificate.leaf(host: "127.0.0.1", key: P256.Signing.PrivateKey())
        var client = TLSConfiguration.makeClientConfiguration()
        client.certificateVerification = .none
        for isModern in [true, false] {
            for version in [TLSVersion.tlsv12, .tlsv13] {
                client.minimumTLSVersion = version
                client.maximumTLSVersion = version
                let tls = client
                try await Listening.with(tls: try pair.tls(isModern: isModern)) { listening in
                    let connection = try await RawClient.connect(listening.port, tls: tls)
                    connection.send("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    let text = try await connection.rest()
                    #expect(text.contains("/x from") == (version == .tlsv13 || !isModern))
                }
            }
        }
    }

    @Test("Without descriptors or memory, a listener waits before it accepts again", arguments: [EMFILE, ENOMEM])
    func exhausted(_ number: Int32) async throws {
        var limits = HTTPLimits()
        limits.recovery = .seconds(2)
        let log = CapturedLog()
        try await Listening.with(limits, logger: log.logger) { listening in
            let channel = try #require(listening.listener.channel)
            // NIO reports a failed accept this way. The socket must not be read again before a timer ends.
            let (isReading, problem) = try await channel.eventLoop.flatSubmit {
                for _ in 0..<2 { channel.pipeline.fireErrorCaught(IOError(errnoCode: number, reason: "accept")) }
                let problem = listening.listener.problem?.what
                return channel.getOption(ChannelOptions.autoRead).map { ($0, problem) }
            }.get()
            #expect(!isReading && problem == "the test accepts no connections: \(SystemError.words(number))")
            let client = try await RawClient.connect(listening.port)
            client.send("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            #expect(try await client.rest().contains("/x from"))
            try await listening.wait { $0.problem == nil }
        }
        #expect(log.text.components("warning the test accepts no connections") == 1)
        #expect(log.text.components("info the test accepts connections again") == 1)
    }

    @Test("A connection that ends before it is accepted does not pause a listener")
    func aborted() async throws {
        try await Listening.with { listening in
            let channel = try #require(listening.listener.channel)
            let isReading = try await channel.eventLoop.flatSubmit {
                channel.pipeline.fireErrorCaught(IOError(errnoCode: ECONNABORTED, reason: "accept"))
                return channel.getOption(ChannelOptions.autoRead)
            }.get()
            #expect(isReading && listening.listener.problem == nil)
        }
    }

    @Test("The delay between attempts to accept doubles from 100 ms to 1 s")
    func delays() {
        let trouble = ListenerTrouble(name: "test", quiet: .seconds(5), logger: Logger(label: "test"))
        #expect((0..<6).map { _ in trouble.nextDelay() } == [100, 200, 400, 800, 1000, 1000].map { .milliseconds($0) })
    }

    @Test("A listener whose socket fails listens again at the same port, and its connections continue")
    func failedSocket() async throws {
        let log = CapturedLog()
        try await Listening.with(logger: log.logger) { listening in
            let old = try await RawClient.connect(listening.port)
            old.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
            try await listening.wait { _ in listening.answering.count == 1 }
            try await listening.failSocket()
            #expect(listening.listener.problem != nil)
            try await listening.wait { $0.channel?.isActive == true }
            let new = try await RawClient.connect(listening.port)
            new.send("GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            #expect(try await new.rest().contains("/b from"))
            old.send("GET /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            #expect(try await old.rest().contains("/c from"))
        }
        #expect(log.text.components("error the test has stopped listening: \(SystemError.words(EBADF))") == 1)
    }

    @Test("A listener that is stopped while its socket is closed does not listen again")
    func stoppedWhileClosed() async throws {
        let port = Mutex(0)
        try await Listening.with { listening in
            port.withLock { $0 = listening.port }
            try await listening.failSocket()
        }
        await #expect(throws: (any Error).self) { try await RawClient.connect(port.withLock { $0 }) }
    }

    @Test("A socket reports the user of the calling process, even after it has failed", arguments: [false, true])
    func socket(hasFailed: Bool) async throws {
        let folder = "/tmp/culvert-gw-\(UInt64.random(in: 0..<UInt64.max))"
        defer { unsafe _ = rmdir(folder) }
        let path = "\(folder)/admin.sock"
        let unix = try UnixListener(path: path, isGuarded: true)
        defer { unsafe _ = unlink(path + ".lock") }
        let listener = HTTPListener(
            name: "socket", place: .unix(unix), tls: nil, responder: Answering(), logger: Logger(label: "test"))
        try await listener.open()
        let serving = Task { await listener.run() }
        if hasFailed {
            let listening = Listening(listener: listener, answering: Answering(), port: 0)
            try await listening.failSocket()
            try await listening.wait { $0.channel?.isActive == true }
        }
        let reply = try await Task.detached {
            let socket = try UnixSocket.connect(to: path, isBlocking: true)
            _ = SystemCall.writeAll(
                socket.number, Array("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".utf8))
            return String(decoding: SystemCall.readAll(socket.number, limit: 10_000) ?? [], as: UTF8.self)
        }.value
        #expect(reply.contains("/x from process \(getuid())"), "\(reply)")
        await listener.stop(within: .seconds(5))
        await serving.value
        #expect(FileStatus(of: path) == nil)
    }
}

/// Answers with the path and the source.
private final class Answering: HTTPAnswering {
    private let state = Mutex<(count: Int, refusals: [ProblemDetails.Code])>((0, []))

    var count: Int { state.withLock { $0.count } }
    var refusals: [ProblemDetails.Code] { state.withLock { $0.refusals } }

    func answer(_ request: Request, from source: RequestSource, limits: HTTPLimits) async -> Response {
        state.withLock { $0.count += 1 }
        if request.uri.path == "/body" { _ = try? await request.body.collect(upTo: limits.body) }
        let words =
            switch source {
            case .address(let address): "\(address)"
            case .process(let user): "process \(user)"
            case .unknown: "unknown"
            }
        return Response(
            status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(string: "\(request.uri.path) from \(words)")))
    }

    func refused(by listener: String, _ source: RequestSource, _ code: ProblemDetails.Code) {
        state.withLock { $0.refusals.append(code) }
    }
}

private struct Listening {
    var listener: HTTPListener
    var answering: Answering
    var port: Int

    static func with(
        _ limits: HTTPLimits = HTTPLimits(), tls: TLSConfiguration? = nil,
        logger: Logger = Logger(label: "test"), _ body: (Listening) async throws -> Void
    ) async throws {
        let answering = Answering()
        let listener = HTTPListener(
            name: "test", place: .address("127.0.0.1", port: 0), tls: tls, limits: limits, responder: answering,
            logger: logger)
        let port = try await listener.open()
        let serving = Task { await listener.run() }
        do { try await body(Listening(listener: listener, answering: answering, port: port)) } catch {
            await listener.stop(within: .zero)
            throw error
        }
        await listener.stop(within: .zero)
        await serving.value
    }

    /// Closes the listening socket as NIO does after a fatal error of `accept`.
    func failSocket() async throws {
        let channel = try #require(listener.channel)
        try await channel.eventLoop.flatSubmit {
            channel.pipeline.fireErrorCaught(IOError(errnoCode: EBADF, reason: "accept"))
            return channel.close()
        }.get()
    }

    func wait(_ condition: (HTTPListener) -> Bool) async throws {
        guard await waitUntil(timeout: .seconds(30), { condition(listener) }) else {
            throw TestFailure("the expected event does not happen")
        }
    }
}

extension String {
    fileprivate func components(_ part: String) -> Int { ranges(of: part).count }
}
