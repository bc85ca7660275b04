// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Testing
import TrustPinning
import TrustPinningNIOTesting
import TrustPinningTesting

@testable import TrustPinningNIO

@Suite("TLS with a custom verifier")
struct PinnedTLSTests {
    private static let refusal = ServerVerdict(isTrusted: false, reason: "no pin matches")

    @Test("The verifier receives the unchanged chain, the host and the port")
    func chain() async throws {
        let authority = try Shared.authority.get()
        let server = try await LoopbackServer.start()
        let seen = NIOLockedValueBox<PresentedChain?>(nil)
        let tls = try PinnedTLS { chain in
            seen.withLockedValue { $0 = chain }
            return ServerVerdict(isTrusted: true, reason: "test")
        }
        _ = try await server.session(tls: tls).data(from: server.url("/", host: "WWW.Example.com"))
        let chain = try #require(seen.withLockedValue { $0 })
        #expect(chain.certificates == authority.served)
        #expect(chain.host == "www.example.com")
        #expect(chain.port == server.port)
    }

    @Test(
        "A refused connection closes before any byte of the request is sent", arguments: [TLSVersion.tlsv12, .tlsv13])
    func refused(version: TLSVersion) async throws {
        let authority = try Shared.authority.get()
        let server = try await LoopbackServer.start(chain: authority.served, key: authority.leaf.key, maximum: version)
        let session = try server.session(Self.refusal)
        let request = try PinnedRequest(
            url: server.url(), method: .POST, headers: ["Authorization": "Bearer x"], body: .bytes("secret".utf8))
        await #expect(throws: PinnedSessionError.untrusted(host: "www.example.com", verdict: Self.refusal)) {
            try await session.data(for: request)
        }
        #expect(await server.wait { $0.closed == 1 })
        let figures = server.figures
        #expect(figures.accepted == 1)
        #expect(figures.handshakes == 0)
        #expect(figures.applicationBytes == 0)
        #expect(try await session.wait { $0.open == 0 })
    }

    @Test("The verifier is called for each connection")
    func eachTime() async throws {
        let server = try await LoopbackServer.start { _ in [.send(LoopbackServer.ok("x", ["Connection: close"]))] }
        let count = NIOLockedValueBox(0)
        let tls = try PinnedTLS { _ in
            count.withLockedValue { $0 += 1 }
            return ServerVerdict(isTrusted: true, reason: "test")
        }
        let session = try server.session(tls: tls)
        for _ in 0..<3 { _ = try await session.data(from: server.url()) }
        #expect(count.withLockedValue { $0 } == 3)
    }

    @Test("Servers with keys of any algorithm are accepted", arguments: TestKey.Algorithm.signing)
    func keys(algorithm: TestKey.Algorithm) async throws {
        let authority = try TestAuthority(algorithm: algorithm)
        let server = try await LoopbackServer.start(chain: authority.served, key: authority.leaf.key)
        #expect(String(try await server.session().data(from: server.url()).0) == "hello")
    }

    @Test("IP addresses are not sent as server names")
    func address() async throws {
        let server = try await LoopbackServer.start()
        let seen = NIOLockedValueBox<String?>(nil)
        let tls = try PinnedTLS { chain in
            seen.withLockedValue { $0 = chain.host }
            return ServerVerdict(isTrusted: true, reason: "test")
        }
        _ = try await server.session(tls: tls).data(from: server.url("/", host: "127.0.0.1"))
        #expect(seen.withLockedValue { $0 } == "127.0.0.1")
        #expect(server.figures.requests.first?.head.headers["host"] == ["127.0.0.1:\(server.port)"])
    }

    @Test("The handler works in any bootstrap", arguments: [true, false])
    func handler(isTrusted: Bool) async throws {
        let server = try await LoopbackServer.start()
        let tls = try PinnedTLS { _ in ServerVerdict(isTrusted: isTrusted, reason: "test") }
        let answer = try await Self.exchange(server) { channel in
            try channel.pipeline.syncOperations.addHandler(tls.handler(for: "www.example.com", port: server.port))
        }
        try await Self.check(answer, isTrusted, server)
    }

    @Test("The verifier works as a verification callback", arguments: [true, false])
    func callback(isTrusted: Bool) async throws {
        let server = try await LoopbackServer.start()
        let tls = try PinnedTLS { _ in ServerVerdict(isTrusted: isTrusted, reason: "test") }
        let context = try NIOSSLContext(configuration: .makeClientConfiguration())
        let answer = try await Self.exchange(server) { channel in
            let handler = try NIOSSLClientHandler(
                context: context, serverHostname: "www.example.com",
                customVerificationCallback: tls.verificationCallback(for: "www.example.com", port: server.port))
            try channel.pipeline.syncOperations.addHandler(handler)
        }
        try await Self.check(answer, isTrusted, server)
    }

    @Test("The provider works in a universal bootstrap", arguments: [true, false])
    func universal(isTrusted: Bool) async throws {
        let server = try await LoopbackServer.start()
        let tls = try PinnedTLS { _ in ServerVerdict(isTrusted: isTrusted, reason: "test") }
        let provider: NIOSSLClientTLSProvider<ClientBootstrap> = try tls.provider(
            for: "www.example.com", port: server.port)
        let bootstrap = NIOClientTCPBootstrap(
            ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton), tls: provider
        ).enableTLS()
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let promise = loop.makePromise(of: String.self)
        let channel = try await bootstrap.channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(AnswerReader(promise: promise))
            }
        }.connect(host: "127.0.0.1", port: server.port).get()
        channel.writeAndFlush(Self.requestBytes, promise: nil)
        let answer = try? await promise.futureResult.get()
        try await channel.closeFuture.get()
        try await Self.check(answer, isTrusted, server)
    }

    @Test(
        "Hosts that TLS cannot send are refused",
        arguments: ["", ".", "a\u{0}b", String(repeating: "a", count: 300)])
    func hosts(host: String) throws {
        let tls = try PinnedTLS { _ in ServerVerdict(isTrusted: true, reason: "test") }
        #expect(throws: PinnedTLSError.self) { try tls.handler(for: host) }
    }

    private static let requestBytes = ByteBuffer(string: "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    /// Sends a request over a channel with these handlers. It is written before the handshake, and must wait.
    private static func exchange(
        _ server: LoopbackServer, _ addTLS: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> String? {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let promise = loop.makePromise(of: String.self)
        let channel = try await ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try addTLS(channel)
                    try channel.pipeline.syncOperations.addHandler(AnswerReader(promise: promise))
                }
            }
            .connect(host: "127.0.0.1", port: server.port).get()
        channel.writeAndFlush(requestBytes, promise: nil)
        let answer = try? await promise.futureResult.get()
        channel.close(promise: nil)
        try await channel.closeFuture.get()
        return answer
    }

    private static func check(_ answer: String?, _ isTrusted: Bool, _ server: LoopbackServer) async throws {
        if isTrusted {
            #expect(answer?.hasSuffix("hello") == true)
        } else {
            #expect(answer == nil)
            #expect(await server.wait { $0.closed == 1 })
            #expect(server.figures.applicationBytes == 0)
        }
    }
}

/// Returns the first decrypted bytes, or the error.
private final class AnswerReader: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let promise: EventLoopPromise<String>
    private var text = ""

    init(promise: EventLoopPromise<String>) { self.promise = promise }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        text += String(buffer: unwrapInboundIn(data))
        guard text.hasSuffix("hello") else { return }
        promise.succeed(text)
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        promise.fail(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { promise.fail(ChannelError.eof) }
}
