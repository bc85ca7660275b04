// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import NIOHTTP1
import NIOSSL
import TrustPinning

/// The last handler of a connection's pipeline. It runs one exchange at a time. After unexpected data, it runs no more
/// exchanges.
final class ExchangeHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = HTTPClientRequestPart

    private enum Phase {
        case idle
        case active(Exchange)
        case closed
    }

    /// The maximum number of 1xx responses; more are treated as an attack.
    private static let informationalLimit = 16

    private let eventLoop: any EventLoop
    private let keepAlive: TimeAmount
    private let onIdle: @Sendable () -> Void
    private let onClose: @Sendable () -> Void
    private var phase = Phase.idle
    private var context: ChannelHandlerContext?
    private var keepAliveTimer: Scheduled<Void>?
    private var isPaused = false
    private var wantsRead = false

    /// - Parameters:
    ///   - eventLoop: The event loop of the connection.
    ///   - keepAlive: The time for which an idle connection stays open.
    ///   - onIdle: Called when the connection is ready for the next request.
    ///   - onClose: Called once, when the connection has ended.
    init(
        eventLoop: any EventLoop, keepAlive: TimeAmount, onIdle: @escaping @Sendable () -> Void,
        onClose: @escaping @Sendable () -> Void
    ) {
        self.eventLoop = eventLoop
        self.keepAlive = keepAlive
        self.onIdle = onIdle
        self.onClose = onClose
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        end(with: .connectionLost("closed"), isStale: true)
        self.context = nil
    }

    // MARK: - From the session

    func begin(
        _ token: ExchangeToken, _ plan: ExchangePlan,
        _ waiter: CheckedContinuation<Result<ExchangeAnswer, ExchangeFailure>, Never>
    ) {
        let exchange = Exchange(token: token, plan: plan, waiter: waiter)
        guard case .idle = phase, let context, context.channel.isActive else {
            let error = PinnedSessionError.connectionLost("closed before the request")
            exchange.answer(.failure(ExchangeFailure(error: error, requestLeft: false, isStale: true)))
            return
        }
        guard !token.isCancelled else {
            exchange.answer(.failure(ExchangeFailure(error: .cancelled, requestLeft: false, isStale: false)))
            becomeIdle()
            return
        }
        keepAliveTimer?.cancel()
        phase = .active(exchange)
        startTimers(exchange, context)

        context.write(wrapOutboundOut(.head(plan.head)), promise: nil)
        if let timeout = plan.continueTimeout {
            context.flush()
            let handler = NIOLoopBound(self, eventLoop: eventLoop)
            exchange.continueTimer = eventLoop.scheduleTask(in: timeout) {
                handler.value.sendBody(of: token)
            }
        } else {
            sendBody(of: token)
        }
    }

    func cancel(_ token: ExchangeToken) {
        guard current(token) != nil else { return }
        fail(.cancelled)
    }

    /// Cancels the exchange, unless it has ended, because its body will not be read.
    func readerEnded(_ token: ExchangeToken) { cancel(token) }

    func readerWantsMore(_ token: ExchangeToken) {
        guard let exchange = current(token), isPaused else { return }
        exchange.lastActivity = eventLoop.now
        resumeReading()
    }

    /// Closes the connection, unless an exchange is on it.
    func closeIfIdle() {
        guard case .idle = phase else { return }
        // No exchange may begin while TLS is being closed, which takes time.
        phase = .closed
        close()
    }

    func close() {
        keepAliveTimer?.cancel()
        context?.close(promise: nil)
    }

    // MARK: - Request

    private func sendBody(of token: ExchangeToken) {
        guard let exchange = current(token), let context, !exchange.bodyBegan else { return }
        exchange.bodyBegan = true
        exchange.continueTimer?.cancel()
        switch exchange.plan.body.source {
        case .none: finishRequest(exchange, context)
        case .bytes(let bytes):
            if bytes.readableBytes > 0 { exchange.outgoing.append(bytes) }
            exchange.outgoing.complete()
            writeNext(of: token)
        case .stream(let length, let produce):
            context.flush()
            let handler = NIOLoopBound(self, eventLoop: eventLoop)
            let loop = eventLoop
            let writer = PinnedRequest.BodyWriter { chunk in
                try await loop.flatSubmit { handler.value.write(chunk, of: token, length: length) }.get()
            }
            exchange.upload = Task {
                do {
                    try await produce(writer)
                    loop.execute { handler.value.bodyEnded(of: token, length: length) }
                } catch let error as PinnedSessionError {
                    loop.execute { handler.value.bodyFailed(of: token, error) }
                } catch {
                    let reason = String(describing: error)
                    loop.execute { handler.value.bodyFailed(of: token, .bodyFailed(reason)) }
                }
            }
        }
    }

    private func write(_ chunk: ByteBuffer, of token: ExchangeToken, length: Int?) -> EventLoopFuture<Void> {
        guard let exchange = current(token), !exchange.outgoing.isComplete else {
            return failedFuture(.connectionLost("the exchange has ended"))
        }
        guard chunk.readableBytes > 0 else { return eventLoop.makeSucceededVoidFuture() }
        let (sent, isTooMuch) = exchange.bodySent.addingReportingOverflow(chunk.readableBytes)
        if isTooMuch || sent > length ?? .max {
            return failedFuture(.bodyFailed("it is longer than the announced \(length ?? .max) bytes"))
        }
        exchange.bodySent = sent
        guard sent != length else {
            // Hold the last chunk until the source has ended, because sending it completes the request.
            exchange.lastChunk = chunk
            return eventLoop.makeSucceededVoidFuture()
        }
        let promise = eventLoop.makePromise(of: Void.self)
        exchange.outgoing.append(chunk, promise: promise)
        writeNext(of: token)
        return promise.futureResult
    }

    /// Writes the next piece of the body, and the end of the request after the last one.
    private func writeNext(of token: ExchangeToken) {
        guard let exchange = current(token), let context, !exchange.isWriting, !exchange.requestComplete else { return }
        guard let piece = exchange.outgoing.nextPiece() else {
            if exchange.outgoing.isComplete { finishRequest(exchange, context) }
            return
        }
        exchange.isWriting = true
        let written = eventLoop.makePromise(of: Void.self)
        if let promise = piece.promise { written.futureResult.cascade(to: promise) }
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        let loop = eventLoop
        // Run this in another iteration of the event loop, so that the writes of a long body do not nest.
        written.futureResult.whenSuccess { loop.execute { handler.value.pieceWritten(of: token) } }
        context.write(wrapOutboundOut(.body(.byteBuffer(piece.bytes))), promise: written)
        if piece.isLast { finishRequest(exchange, context) } else { context.flush() }
    }

    /// Called when a piece of the body has reached the network, which counts as activity.
    private func pieceWritten(of token: ExchangeToken) {
        guard let exchange = current(token) else { return }
        exchange.lastActivity = eventLoop.now
        exchange.isWriting = false
        writeNext(of: token)
    }

    private func failedFuture(_ error: PinnedSessionError) -> EventLoopFuture<Void> {
        eventLoop.makeFailedFuture(error)
    }

    private func bodyEnded(of token: ExchangeToken, length: Int?) {
        guard let exchange = current(token), !exchange.outgoing.isComplete else { return }
        if let length, exchange.bodySent < length {
            fail(.bodyFailed("it has \(exchange.bodySent) bytes instead of the announced \(length)"))
            return
        }
        if let chunk = exchange.lastChunk { exchange.outgoing.append(chunk) }
        exchange.outgoing.complete()
        writeNext(of: token)
    }

    private func bodyFailed(of token: ExchangeToken, _ error: PinnedSessionError) {
        guard current(token) != nil else { return }
        fail(error)
    }

    private func finishRequest(_ exchange: Exchange, _ context: ChannelHandlerContext) {
        exchange.requestComplete = true
        let flushed = eventLoop.makePromise(of: Void.self)
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        let token = exchange.token
        flushed.futureResult.whenSuccess { handler.value.current(token)?.requestFlushed = true }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: flushed)
    }

    // MARK: - Response

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .active(let exchange) = phase else {
            // Close the connection after unsolicited data, whose rest could be mistaken for the response to another
            // request.
            phase = .closed
            context.close(promise: nil)
            return
        }
        exchange.lastActivity = eventLoop.now
        switch unwrapInboundIn(data) {
        case .head(let head): received(head, exchange, context)
        case .body(let bytes): received(bytes, exchange)
        case .end: complete(exchange, context)
        }
    }

    private func received(_ head: HTTPResponseHead, _ exchange: Exchange, _ context: ChannelHandlerContext) {
        if let problem = ResponseFraming.problem(of: head) {
            fail(.invalidResponse(problem))
            return
        }
        guard !(100..<200).contains(head.status.code) else {
            receivedInformational(head, exchange)
            return
        }
        if exchange.plan.head.method != .HEAD, let length = head.headers["content-length"].first.flatMap({ Int($0) }),
            length > exchange.plan.bodyLimit
        {
            fail(.responseTooLarge(limit: exchange.plan.bodyLimit))
            return
        }
        exchange.responseBegan = true
        exchange.keepsAlive = head.isKeepAlive
        // The server responded before it received the body: do not send it (RFC 9110, section 10.1.1).
        exchange.continueTimer?.cancel()
        exchange.bodyBegan = true

        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        let loop = eventLoop
        let token = exchange.token
        let queue = BodyQueue(
            onDemand: { loop.execute { handler.value.readerWantsMore(token) } },
            onAbandon: { loop.execute { handler.value.readerEnded(token) } })
        exchange.queue = queue
        exchange.answer(.success(ExchangeAnswer(head: head, body: PinnedBody(reader: BodyReader(queue)))))
    }

    private func receivedInformational(_ head: HTTPResponseHead, _ exchange: Exchange) {
        exchange.informationalCount += 1
        guard head.status != .switchingProtocols, exchange.informationalCount <= ExchangeHandler.informationalLimit
        else {
            fail(.invalidResponse("status \(head.status.code) was not requested"))
            return
        }
        if head.status == .continue { sendBody(of: exchange.token) }
    }

    private func received(_ bytes: ByteBuffer, _ exchange: Exchange) {
        guard exchange.responseBegan else { return }
        exchange.bodyReceived &+= bytes.readableBytes
        guard exchange.bodyReceived <= exchange.plan.bodyLimit else {
            fail(.responseTooLarge(limit: exchange.plan.bodyLimit))
            return
        }
        if exchange.queue?.push(bytes) == false { isPaused = true }
    }

    private func complete(_ exchange: Exchange, _ context: ChannelHandlerContext) {
        // This is the end of an informational response, not of the exchange.
        guard exchange.responseBegan else { return }
        exchange.stop()
        // Do not reuse the connection before the request was flushed: its rest would be sent before the next request.
        let canReuse = exchange.requestFlushed && exchange.keepsAlive && context.channel.isActive
        phase = canReuse ? .idle : .closed
        resumeReading()
        if canReuse { becomeIdle() } else { context.close(promise: nil) }
        // Do this last: as soon as the response has ended, the reader may send another request, which must find this
        // connection idle.
        exchange.queue?.finish()
    }

    /// Offers the connection for the next request, and closes it if none begins in time.
    private func becomeIdle() {
        keepAliveTimer?.cancel()
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        keepAliveTimer = eventLoop.scheduleTask(in: keepAlive) { handler.value.closeIfIdle() }
        onIdle()
    }

    /// Reads unless the body's reader has enough data.
    func read(context: ChannelHandlerContext) {
        if isPaused {
            wantsRead = true
        } else {
            context.read()
        }
    }

    private func resumeReading() {
        isPaused = false
        guard wantsRead else { return }
        wantsRead = false
        context?.read()
    }

    // MARK: - Failure and time-outs

    func channelInactive(context: ChannelHandlerContext) {
        end(with: .connectionLost("the server closed it"), isStale: true)
        onClose()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        end(with: ExchangeHandler.failure(for: error), isStale: !(error is HTTPParserError))
        context.close(promise: nil)
    }

    private static func failure(for error: any Error) -> PinnedSessionError {
        switch error {
        case let error as HTTPParserError: .invalidResponse("it is not HTTP (\(error))")
        case let error as NIOHTTPDecoderError: .invalidResponse(String(describing: error))
        case NIOSSLError.uncleanShutdown: .connectionLost("it was closed without the end of TLS")
        default: .connectionLost(String(describing: error))
        }
    }

    private func fail(_ error: PinnedSessionError) {
        end(with: error, isStale: false)
        context?.close(promise: nil)
    }

    private func end(with error: PinnedSessionError, isStale: Bool) {
        keepAliveTimer?.cancel()
        guard case .active(let exchange) = phase else {
            phase = .closed
            return
        }
        phase = .closed
        exchange.stop()
        exchange.queue?.finish(error)
        exchange.answer(.failure(ExchangeFailure(error: error, requestLeft: true, isStale: isStale)))
        isPaused = false
    }

    private func startTimers(_ exchange: Exchange, _ context: ChannelHandlerContext) {
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        let token = exchange.token
        exchange.deadlineTimer = eventLoop.scheduleTask(deadline: exchange.plan.deadline) {
            guard handler.value.current(token) != nil else { return }
            handler.value.fail(.timedOut(.whole))
        }
        exchange.lastActivity = eventLoop.now
        scheduleIdleTimer(exchange, context)
    }

    private func scheduleIdleTimer(_ exchange: Exchange, _ context: ChannelHandlerContext) {
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        let token = exchange.token
        exchange.idleTimer = eventLoop.scheduleTask(
            deadline: exchange.lastActivity + exchange.plan.idleTimeout
        ) { handler.value.idleTimerFired(token) }
    }

    private func idleTimerFired(_ token: ExchangeToken) {
        guard let exchange = current(token), let context else { return }
        // A slow reader does not count as an idle server.
        if isPaused { exchange.lastActivity = eventLoop.now }
        if eventLoop.now >= exchange.lastActivity + exchange.plan.idleTimeout {
            fail(.timedOut(.idle))
        } else {
            scheduleIdleTimer(exchange, context)
        }
    }

    private func current(_ token: ExchangeToken) -> Exchange? {
        guard case .active(let exchange) = phase, exchange.token === token else { return nil }
        return exchange
    }
}
