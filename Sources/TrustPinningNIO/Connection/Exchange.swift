// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import TrustPinning

/// How a request is to be carried out on a connection.
struct ExchangePlan: Sendable {
    var head: HTTPRequestHead
    var body: PinnedRequest.Body
    /// How long the server's word that it wants the body is waited for; nil: not at all.
    var continueTimeout: TimeAmount?
    var idleTimeout: TimeAmount
    var deadline: NIODeadline
    /// The longest body that is taken.
    var bodyLimit: Int
}

/// The beginning of an answer.
struct ExchangeAnswer: Sendable {
    var head: HTTPResponseHead
    var body: PinnedBody
}

/// Why there is no answer, with what decides whether the request may be sent again.
struct ExchangeFailure: Error {
    var error: PinnedSessionError
    /// Whether any of the request may have reached the server.
    var requestLeft: Bool
    /// Whether the connection ended, as one that was kept for long does.
    var isStale: Bool
}

/// Names one exchange to its connection, from any thread, before and after it has begun.
final class ExchangeToken: Sendable {
    private let cancelled = NIOLockedValueBox(false)

    var isCancelled: Bool { cancelled.withLockedValue { $0 } }

    func cancel() { cancelled.withLockedValue { $0 = true } }
}

/// The state of an exchange, on the event loop of its connection.
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
