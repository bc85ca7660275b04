// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import NIOHTTP1
import Provisioning

/// Watches one connection behind its HTTP decoder: counts it, ends it if a request or its reader is too slow, and
/// answers input that is not valid HTTP.
///
/// One timer runs at a time. Each step restarts the timer with the step's own limit, so a client that sends single
/// bytes gains no time.
final class RequestWatch: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private let limits: HTTPLimits
    private let table: ConnectionTable
    private let refused: @Sendable (RequestSource, ProblemDetails.Code) -> Void
    private var timer: Scheduled<Void>?
    private var source = RequestSource.unknown
    private var isAdmitted = false
    /// The number of requests whose head was received, and the number of complete responses.
    private var received = 0
    private var answered = 0
    private var isReading = false
    private var hasAnswered = false
    /// The number of the last request, counted from 1. The connection ends after its response.
    private var last: Int?
    private var isLingering = false
    private var isOver = false

    init(
        _ limits: HTTPLimits, _ table: ConnectionTable,
        refused: @escaping @Sendable (RequestSource, ProblemDetails.Code) -> Void
    ) {
        self.limits = limits
        self.table = table
        self.refused = refused
    }

    // MARK: - The connection

    func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isActive { begin(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { end(context) }

    func channelActive(context: ChannelHandlerContext) {
        begin(context)
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        end(context)
        context.fireChannelInactive()
    }

    private func begin(_ context: ChannelHandlerContext) {
        guard !isAdmitted else { return }
        source = RequestSource(context.channel.remoteAddress)
        isAdmitted = table.admit(context.channel, from: source.network)
        guard isAdmitted else {
            refused(source, .tooManyConnections)
            isOver = true
            return context.close(promise: nil)
        }
        wait(limits.head, context)
    }

    private func end(_ context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
        isOver = true
        if isAdmitted { table.remove(context.channel) }
        isAdmitted = false
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent { end(after: max(received, 1)) }
        context.fireUserInboundEventTriggered(event)
    }

    private func end(after request: Int) { last = min(last ?? request, request) }

    // MARK: - Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isOver else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            guard last.map({ received < $0 }) ?? true, !isLingering else { return }
            received += 1
            isReading = true
            if !head.isKeepAlive { end(after: received) }
            wait(limits.upload, context)
        case .body: break
        case .end:
            isReading = false
            if isLingering {
                isOver = true
                return context.close(promise: nil)
            }
            wait(limits.work + limits.download, context)
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !isOver else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        switch unwrapOutboundIn(data) {
        case .head(var head):
            hasAnswered = true
            // If the handler answered before the whole request arrived, do not read the rest.
            if isReading, received == answered + 1 { end(after: received) }
            if last == answered + 1 { head.headers.replaceOrAdd(name: "connection", value: "close") }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body:
            // A body that is sent in parts has the time for each of them.
            if !isReading { wait(limits.download, context) }
            context.write(data, promise: promise)
        case .end:
            hasAnswered = false
            answered += 1
            guard last == answered else {
                if received <= answered { wait(limits.head, context) }
                return context.write(data, promise: promise)
            }
            isLingering = isReading
            let written = promise ?? context.eventLoop.makePromise()
            context.writeAndFlush(data, promise: written)
            if isLingering {
                // Closing with unread data would make the client discard the response.
                wait(limits.lingering, context)
            } else {
                let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
                written.futureResult.whenComplete { _ in bound.value.close(promise: nil) }
            }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard !isOver else { return }
        guard let error = error as? HTTPParserError else {
            // An error of TLS or the network.
            isOver = true
            return context.close(promise: nil)
        }
        // The error is in a body: its reader receives the error and answers.
        guard received == answered else { return context.fireErrorCaught(error) }
        answer(error == .headerOverflow ? .headersTooLarge : .malformedRequest, context)
    }

    // MARK: - Time

    private func wait(_ limit: Duration, _ context: ChannelHandlerContext) {
        timer?.cancel()
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        let own = NIOLoopBound(self, eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleTask(in: TimeAmount(limit)) { own.value.expired(bound.value) }
    }

    private func expired(_ context: ChannelHandlerContext) {
        timer = nil
        guard !isOver else { return }
        guard isReading, !hasAnswered, !isLingering else {
            isOver = true
            return context.close(promise: nil)
        }
        answer(.tooSlow, context)
    }

    /// Answers with a problem, and ends the connection. Later writes of other handlers are dropped.
    private func answer(_ code: ProblemDetails.Code, _ context: ChannelHandlerContext) {
        refused(source, code)
        isOver = true
        timer?.cancel()
        let problem = ProblemDetails(code)
        let body = ByteBuffer(bytes: problem.body)
        let head = HTTPResponseHead(
            version: .http1_1, status: HTTPResponseStatus(statusCode: problem.status),
            headers: [
                "content-type": ProblemDetails.mediaType, "content-length": "\(body.readableBytes)",
                "cache-control": "no-store",
                "connection": "close",
            ])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        let written: EventLoopPromise<Void> = context.eventLoop.makePromise()
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { _ in bound.value.close(promise: nil) }
    }
}
