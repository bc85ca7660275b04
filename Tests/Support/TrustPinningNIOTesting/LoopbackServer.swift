// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
package import NIOCore
package import NIOHTTP1
import NIOPosix
package import NIOSSL
import NIOTLS
package import TrustPinningTesting

/// A TLS server on 127.0.0.1 that sends exactly the bytes that a test specifies, and counts the requests and bytes that
/// it receives.
package final class LoopbackServer: Sendable {
    /// The reaction of a test's script to a request.
    package enum Step: Sendable {
        /// Sends text unchanged.
        case send(String)
        case sendBytes([UInt8])
        /// Ends the connection with TLS's closure alert.
        case close
        /// Ends the TCP connection without a TLS closure.
        case abort
        /// Runs code on the event loop, which may take more steps later.
        case call(@Sendable (Connection) -> Void)
    }

    package struct Request: Sendable {
        package var head: HTTPRequestHead
        package var body = ByteBuffer()
        /// The number of this connection, from 0.
        package var connection: Int
        /// The number of this request among those of its connection, from 0.
        package var index: Int

        package var text: String { String(buffer: body) }
    }

    package struct Figures: Sendable {
        package var accepted = 0
        package var handshakes = 0
        package var closed = 0
        /// The number of application bytes after TLS decryption.
        package var applicationBytes = 0
        package var requests: [Request] = []
        package var clientChains: [[[UInt8]]] = []
        package var errors: [String] = []
    }

    /// A connection as a script sees it.
    package struct Connection: Sendable {
        package let channel: any Channel

        package func take(_ steps: [Step]) {
            channel.eventLoop.execute {
                for step in steps {
                    switch step {
                    case .send(let text): channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
                    case .sendBytes(let bytes): channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
                    case .close: channel.close(promise: nil)
                    case .abort:
                        // Close it below the TLS handler, which would send a closure alert.
                        let operations = channel.pipeline.syncOperations
                        if let context = try? operations.context(handlerType: NIOSSLServerHandler.self) {
                            context.close(promise: nil)
                        }
                    case .call(let body): body(self)
                    }
                }
            }
        }
    }

    package typealias Script = @Sendable (Request) -> [Step]

    private let channel: any Channel
    private let box: NIOLockedValueBox<Figures>

    package let port: Int
    package var figures: Figures { box.withLockedValue { $0 } }

    private init(channel: any Channel, box: NIOLockedValueBox<Figures>) {
        self.channel = channel
        self.box = box
        port = channel.localAddress?.port ?? 0
    }

    deinit { channel.close(promise: nil) }

    /// Starts a server.
    /// - Parameters:
    ///   - chain: The certificates that it sends, in DER.
    ///   - key: The key of the first of them.
    ///   - asksForClient: Whether the server requests client certificates. It accepts any certificate, and none.
    ///   - onHead: Called when the head of a request has arrived, before its body.
    ///   - script: Called when a request has arrived.
    package static func start(
        chain: [[UInt8]], key: TestKey, asksForClient: Bool = false, maximum: TLSVersion? = nil,
        onHead: @escaping @Sendable (HTTPRequestHead) -> [Step] = { _ in [] },
        script: @escaping Script = { _ in [.send(ok("hello"))] }
    ) async throws -> LoopbackServer {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try chain.map { .certificate(try NIOSSLCertificate(bytes: $0, format: .der)) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pem.utf8), format: .pem)))
        configuration.signingSignatureAlgorithms = signatureAlgorithms
        configuration.maximumTLSVersion = maximum
        configuration.shutdownTimeout = .milliseconds(200)
        if asksForClient {
            // The callback below is the only check, because the dates of test certificates are fixed while the
            // machine's clock is not.
            configuration.certificateVerification = .optionalVerification
            configuration.verifySignatureAlgorithms = signatureAlgorithms
            configuration.trustRoots = .certificates([])
        }
        let context = try NIOSSLContext(configuration: configuration)
        let box = NIOLockedValueBox(Figures())
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let number = box.withLockedValue { figures in
                        figures.accepted += 1
                        return figures.accepted - 1
                    }
                    let tls =
                        asksForClient
                        ? NIOSSLServerHandler(
                            context: context,
                            customVerificationCallback: { certificates, promise in
                                let chain = certificates.compactMap { try? $0.toDERBytes() }
                                box.withLockedValue { $0.clientChains.append(chain) }
                                promise.succeed(.certificateVerified)
                            }) : NIOSSLServerHandler(context: context)
                    let decoder = HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes)
                    try channel.pipeline.syncOperations.addHandlers([
                        tls, ApplicationByteCounter(box: box), ByteToMessageHandler(decoder),
                        ScriptHandler(number: number, box: box, onHead: onHead, script: script),
                    ])
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return LoopbackServer(channel: channel, box: box)
    }

    private static let signatureAlgorithms: [SignatureAlgorithm] = [
        .ecdsaSecp256R1Sha256, .ecdsaSecp384R1Sha384, .ecdsaSecp521R1Sha512, .ed25519, .rsaPssRsaeSha256,
        .rsaPkcs1Sha256,
    ]

    /// An answer with a length.
    package static func ok(_ body: String, _ fields: [String] = []) -> String { answer("200 OK", body, fields) }

    /// An answer with a length and any status.
    package static func answer(_ status: String, _ body: String = "", _ fields: [String] = []) -> String {
        let lines = ["HTTP/1.1 \(status)", "Content-Length: \(body.utf8.count)"] + fields
        return lines.joined(separator: "\r\n") + "\r\n\r\n" + body
    }

    /// Waits until the figures match. The server may observe an event later than the client.
    package func wait(
        within limit: Duration = .seconds(60), until isReached: @Sendable (Figures) -> Bool
    ) async -> Bool {
        let deadline = ContinuousClock.now + limit
        while !isReached(figures) {
            guard ContinuousClock.now < deadline else { return false }
            // Yields to the awaited work, even if all threads are busy.
            try? await channel.eventLoop.scheduleTask(in: .milliseconds(1)) {}.futureResult.get()
        }
        return true
    }
}

/// Counts the bytes directly after the TLS handler.
private final class ApplicationByteCounter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let box: NIOLockedValueBox<LoopbackServer.Figures>

    init(box: NIOLockedValueBox<LoopbackServer.Figures>) { self.box = box }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let count = unwrapInboundIn(data).readableBytes
        box.withLockedValue { $0.applicationBytes += count }
        context.fireChannelRead(data)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event { box.withLockedValue { $0.handshakes += 1 } }
        context.fireUserInboundEventTriggered(event)
    }
}

private final class ScriptHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    private let number: Int
    private let box: NIOLockedValueBox<LoopbackServer.Figures>
    private let onHead: @Sendable (HTTPRequestHead) -> [LoopbackServer.Step]
    private let script: LoopbackServer.Script
    private var request: LoopbackServer.Request?
    private var count = 0

    init(
        number: Int, box: NIOLockedValueBox<LoopbackServer.Figures>,
        onHead: @escaping @Sendable (HTTPRequestHead) -> [LoopbackServer.Step], script: @escaping LoopbackServer.Script
    ) {
        self.number = number
        self.box = box
        self.onHead = onHead
        self.script = script
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            request = LoopbackServer.Request(head: head, connection: number, index: count)
            count += 1
            LoopbackServer.Connection(channel: context.channel).take(onHead(head))
        case .body(var bytes): request?.body.writeBuffer(&bytes)
        case .end:
            guard let request else { return }
            box.withLockedValue { $0.requests.append(request) }
            LoopbackServer.Connection(channel: context.channel).take(script(request))
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        box.withLockedValue { $0.closed += 1 }
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        box.withLockedValue { $0.errors.append(String(describing: error)) }
        context.close(promise: nil)
    }
}
