// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOTLS
import TrustPinning
import TunnelSystem

/// Opens connections: looks up the name, connects by TCP, negotiates TLS with the verifier's verdict, and adds HTTP.
struct Connector: Sendable {
    let tls: PinnedTLS
    let group: any EventLoopGroup
    let connectTimeout: TimeAmount
    let keepAlive: TimeAmount
    /// The addresses to connect to instead, for some endpoints.
    let detours: [Endpoint: Endpoint]
    var socketMark: UInt32?
    /// The resolver of names; `nil` uses the system's.
    var resolver: (any Resolver & Sendable)?

    /// The callbacks of a connection to its pool.
    struct Events: Sendable {
        var onIdle: @Sendable (HTTPConnection) -> Void
        var onClose: @Sendable (HTTPConnection) -> Void
        /// Called once, instead of the others, if the attempt failed or was cancelled: when its sockets are closed, or
        /// immediately if it has none.
        var onUnused: @Sendable () -> Void
    }

    private struct Progress {
        /// Whether the attempt has failed.
        var isOver = false
        /// Whether a socket was created before it failed.
        var hasSocket = false
    }

    /// Connects, and returns when the server is trusted.
    /// - Parameter deadline: The deadline; the connect time-out may end earlier.
    func connect(
        _ key: ConnectionKey, deadline: NIODeadline, events: Events
    ) async -> Result<HTTPConnection, PinnedSessionError> {
        let loop = group.next()
        // The promise is completed once, with a connection, an error, a cancellation or a time-out. Later results are
        // ignored.
        let attempt = loop.makePromise(of: HTTPConnection.self)
        let timeout = min(deadline, .now() + connectTimeout)
        let phase: PinnedSessionError.TimedPhase = deadline < .now() + connectTimeout ? .whole : .connect
        let timer = loop.scheduleTask(deadline: timeout) { attempt.fail(PinnedSessionError.timedOut(phase)) }
        defer { timer.cancel() }
        do {
            return try await withTaskCancellationHandler {
                start(attempt, key, on: loop, events: events)
                return .success(try await attempt.futureResult.get())
            } onCancel: {
                attempt.fail(PinnedSessionError.cancelled)
            }
        } catch { return .failure(error as? PinnedSessionError ?? .connectionLost(Connector.reason(error))) }
    }

    private func start(
        _ attempt: EventLoopPromise<HTTPConnection>, _ key: ConnectionKey, on loop: any EventLoop, events: Events
    ) {
        let record = HandshakeRecord()
        let endpoint = key.endpoint
        let place = detours[endpoint] ?? endpoint
        let progress = NIOLockedValueBox(Progress())
        let connected = ClientBootstrap(group: loop)
            .connectTimeout(connectTimeout)
            .resolver(resolver)
            .channelInitializer { channel in
                // An attempt that failed without a socket has returned its slot.
                let mayContinue = progress.withLockedValue { progress in
                    if !progress.isOver { progress.hasSocket = true }
                    return progress.hasSocket
                }
                guard mayContinue else { return channel.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel) }
                // Close the socket when the attempt fails, whether it is connected or not, so that a cancelled request
                // leaves no socket behind.
                attempt.futureResult.whenFailure { _ in channel.close(promise: nil) }
                // NIO may try several addresses of a host at the same time, but starts TLS on only one of them.
                return channel.marked(socketMark).flatMapThrowing {
                    let handler = try tls.handler(for: endpoint.host.description, port: endpoint.port, record: record)
                    try channel.pipeline.syncOperations.addHandlers([handler, HandshakeWatcher(eventLoop: loop)])
                }
            }
            .connect(host: place.host.description, port: place.port)
        attempt.futureResult.whenFailure { _ in
            let hasSocket = progress.withLockedValue { progress in
                progress.isOver = true
                return progress.hasSocket
            }
            // A name lookup cannot be interrupted, and may take as long as the time-out.
            guard hasSocket else { return events.onUnused() }
            connected.flatMap(\.closeFuture).whenComplete { _ in events.onUnused() }
        }
        connected.whenComplete { result in
            switch result {
            case .failure(let error): attempt.fail(PinnedSessionError.unreachable(Connector.reason(error)))
            case .success(let channel): finish(channel, key, record, attempt, progress, events)
            }
        }
    }

    /// Waits for the handshake, then adds HTTP. Runs on the channel's event loop.
    private func finish(
        _ channel: any Channel, _ key: ConnectionKey, _ record: HandshakeRecord,
        _ attempt: EventLoopPromise<HTTPConnection>, _ progress: NIOLockedValueBox<Progress>, _ events: Events
    ) {
        let future: EventLoopFuture<Void>
        do {
            future = try channel.pipeline.syncOperations.handler(type: HandshakeWatcher.self).completed
        } catch {
            // The channel was closed, and its handlers were removed.
            attempt.fail(PinnedSessionError.connectionLost("the server closed it during the handshake"))
            return
        }
        future.whenComplete { result in
            switch result {
            case .failure(let error):
                if let verdict = record.verdict, !verdict.isTrusted {
                    attempt.fail(
                        PinnedSessionError.untrusted(host: key.endpoint.host.description, verdict: verdict))
                } else {
                    attempt.fail(PinnedSessionError.handshakeFailed(Connector.reason(error)))
                }
            case .success:
                // After a failed attempt, `onUnused` returns the slot. Do not make a connection, which would return the
                // slot again.
                guard !progress.withLockedValue({ $0.isOver }) else { return }
                attempt.completeWith(Result { try addHTTP(to: channel, key, events) })
            }
        }
    }

    private func addHTTP(to channel: any Channel, _ key: ConnectionKey, _ events: Events) throws -> HTTPConnection {
        // Events refer to the connection, which is created after the handler.
        let box = NIOLockedValueBox<HTTPConnection?>(nil)
        let handler = ExchangeHandler(
            eventLoop: channel.eventLoop, keepAlive: keepAlive,
            onIdle: { if let connection = box.withLockedValue({ $0 }) { events.onIdle(connection) } },
            onClose: {
                let connection = box.withLockedValue { box in
                    // Break the reference cycle: the connection retains the handler.
                    defer { box = nil }
                    return box
                }
                if let connection { events.onClose(connection) }
            })
        let connection = HTTPConnection(
            key: key, channel: channel, handler: NIOLoopBound(handler, eventLoop: channel.eventLoop))
        box.withLockedValue { $0 = connection }
        let operations = channel.pipeline.syncOperations
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 16 * 1024
        limits.maxHeaderListSize = 64 * 1024
        let decoder = HTTPResponseDecoder(
            leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .forward, limitConfiguration: limits)
        do {
            try operations.addHandlers([
                HTTPRequestEncoder(), ByteToMessageHandler(decoder), NIOHTTPRequestHeadersValidator(), handler,
            ])
            guard channel.isActive else { throw ChannelError.ioOnClosedChannel }
        } catch {
            // The attempt fails: `onUnused` is called instead of the connection's events.
            box.withLockedValue { $0 = nil }
            throw error
        }
        return connection
    }

    private static func reason(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            error.connectionErrors.first.map { reason($0.error) } ?? "the name \(error.host) has no address"
        case let error as IOError: SystemError.words(error.errnoCode)
        case is ChannelError: "the connection timed out or was closed"
        case let error as PinnedTLSError: error.description
        default: String(describing: error)
        }
    }
}

/// Completes a future when the handshake has succeeded or failed.
private final class HandshakeWatcher: ChannelInboundHandler {
    typealias InboundIn = NIOAny

    private let promise: EventLoopPromise<Void>

    var completed: EventLoopFuture<Void> { promise.futureResult }

    init(eventLoop: any EventLoop) { promise = eventLoop.makePromise() }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event { promise.succeed() }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        promise.fail(error)
        context.fireErrorCaught(error)
    }

    func channelInactive(context: ChannelHandlerContext) {
        promise.fail(ChannelError.eof)
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { promise.fail(ChannelError.eof) }
}
