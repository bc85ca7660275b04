// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS
import Testing
import TunnelSystem

/// A connection that sends exactly the bytes of a test, without changes, and reads until the other end closes.
final class RawClient: Sendable {
    private let channel: any Channel
    private let received: EventLoopFuture<String>

    private final class Collector: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private var text = ""
        private let promise: EventLoopPromise<String>

        init(_ promise: EventLoopPromise<String>) { self.promise = promise }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { text += String(buffer: unwrapInboundIn(data)) }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            // The other end of TLS waits for this end to close.
            if case .inputClosed? = event as? ChannelEvent { context.close(promise: nil) }
            if case .shutdownCompleted? = event as? TLSUserEvent { context.close(promise: nil) }
        }
        func channelInactive(context: ChannelHandlerContext) { promise.succeed(text) }
    }

    private init(_ channel: any Channel, _ received: EventLoopFuture<String>) {
        self.channel = channel
        self.received = received
    }

    /// - Parameter tls: The TLS settings; `nil` for plain TCP.
    static func connect(_ port: Int, tls: TLSConfiguration? = nil) async throws -> RawClient {
        try await connect(tls: tls) { $0.connect(host: "127.0.0.1", port: port) }
    }

    /// Connects to a Unix socket.
    static func connect(path: String) async throws -> RawClient {
        try await connect(tls: nil) { $0.connect(unixDomainSocketPath: path) }
    }

    private static func connect(
        tls: TLSConfiguration?, _ connect: (ClientBootstrap) -> EventLoopFuture<any Channel>
    ) async throws -> RawClient {
        let context = try tls.map { try NIOSSLContext(configuration: $0) }
        let promise = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: String.self)
        do {
            let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        if let context {
                            try channel.pipeline.syncOperations.addHandler(
                                NIOSSLClientHandler(context: context, serverHostname: nil))
                        }
                        try channel.pipeline.syncOperations.addHandler(Collector(promise))
                    }
                }
            return RawClient(try await connect(bootstrap).get(), promise.futureResult)
        } catch {
            promise.fail(error)
            throw error
        }
    }

    func send(_ text: String) { channel.writeAndFlush(ByteBuffer(string: text), promise: nil) }

    /// Closes the connection.
    func close() { channel.close(promise: nil) }

    /// Returns everything that arrives until the other end closes.
    func rest() async throws -> String {
        let received = received
        let outcome = await withDeadline(.seconds(30), clock: ContinuousClock()) { try? await received.get() }
        guard case .finished(let text) = outcome else {
            throw TestFailure("the connection does not end")
        }
        return try #require(text)
    }
}

/// The error of a test that cannot continue.
struct TestFailure: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) { self.description = description }
}
