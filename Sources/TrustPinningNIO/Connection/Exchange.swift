// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import TrustPinning

/// A request with the limits for its exchange.
struct ExchangePlan: Sendable {
    var head: HTTPRequestHead
    var body: PinnedRequest.Body
    /// The time to wait for `100 Continue` before the body is sent, or `nil` not to wait.
    var continueTimeout: TimeAmount?
    var idleTimeout: TimeAmount
    var deadline: NIODeadline
    /// The maximum length of the response body, in bytes.
    var bodyLimit: Int
}

/// The head of a response, and its body to read.
struct ExchangeAnswer: Sendable {
    var head: HTTPResponseHead
    var body: PinnedBody
}

/// The error of an exchange, with the facts that decide whether the request may be sent again.
struct ExchangeFailure: Error {
    var error: PinnedSessionError
    /// Whether a part of the request may have reached the server.
    var requestLeft: Bool
    /// Whether the connection was closed, as servers close idle connections.
    var isStale: Bool
}

/// Identifies an exchange on its connection, before and after the exchange has begun. Any thread may use it.
final class ExchangeToken: Sendable {
    private let cancelled = NIOLockedValueBox(false)

    var isCancelled: Bool { cancelled.withLockedValue { $0 } }

    func cancel() { cancelled.withLockedValue { $0 = true } }
}

/// The state of an exchange. Only used on the event loop of its connection.
final class Exchange {
    let token: ExchangeToken
    let plan: ExchangePlan
    private var waiter: CheckedContinuation<Result<ExchangeAnswer, ExchangeFailure>, Never>?

    var upload: Task<Void, Never>?
    var queue: BodyQueue?
    var idleTimer: Scheduled<Void>?
    var deadlineTimer: Scheduled<Void>?
    var continueTimer: Scheduled<Void>?

    var lastActivity = NIODeadline.uptimeNanoseconds(0)
    /// The part of the request's body that was not written yet.
    var outgoing = OutgoingBody()
    /// Whether a piece of the body was written and has not reached the network yet.
    var isWriting = false
    var bodySent = 0
    var lastChunk: ByteBuffer?
    var bodyBegan = false
    /// Whether the end of the request was written.
    var requestComplete = false
    /// Whether the end of the request reached the network. Before that, the connection cannot take another request.
    var requestFlushed = false
    var responseBegan = false
    var informationalCount = 0
    var bodyReceived = 0
    var keepsAlive = true

    init(
        token: ExchangeToken, plan: ExchangePlan,
        waiter: CheckedContinuation<Result<ExchangeAnswer, ExchangeFailure>, Never>
    ) {
        self.token = token
        self.plan = plan
        self.waiter = waiter
    }

    func answer(_ result: Result<ExchangeAnswer, ExchangeFailure>) {
        waiter?.resume(returning: result)
        waiter = nil
    }

    /// Stops the timers and the upload.
    func stop() {
        idleTimer?.cancel()
        deadlineTimer?.cancel()
        continueTimer?.cancel()
        upload?.cancel()
        outgoing.fail(PinnedSessionError.connectionLost("the exchange has ended"))
    }
}
