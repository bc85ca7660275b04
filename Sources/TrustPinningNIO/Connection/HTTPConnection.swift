// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import NIOHTTP1
import TrustPinning

/// The properties by which the pool decides whether a connection can serve a request.
struct ConnectionKey: Hashable, Sendable {
    var endpoint: Endpoint
    /// The revision of the client identity that may have been sent.
    var identityRevision: UInt64
    /// The rule by which the server was verified. A connection that was accepted by an older rule is not used under a
    /// newer one.
    var rule: PolicySet.Rule?
    /// Whether the rule's pins had expired, which changes the decision.
    var hasExpired = false
}

/// A connection to a trusted server, which serves one request after another.
final class HTTPConnection: Sendable {
    let key: ConnectionKey
    let channel: any Channel
    private let handler: NIOLoopBound<ExchangeHandler>

    init(key: ConnectionKey, channel: any Channel, handler: NIOLoopBound<ExchangeHandler>) {
        self.key = key
        self.channel = channel
        self.handler = handler
    }

    var isActive: Bool { channel.isActive }

    /// Sends a request and returns the head of its response.
    func perform(_ plan: ExchangePlan) async -> Result<ExchangeAnswer, ExchangeFailure> {
        let token = ExchangeToken()
        let handler = handler
        let loop = channel.eventLoop
        return await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                loop.execute { handler.value.begin(token, plan, waiter) }
            }
        } onCancel: {
            token.cancel()
            loop.execute { handler.value.cancel(token) }
        }
    }

    /// Closes the connection if no exchange uses it.
    func closeIfIdle() {
        let handler = handler
        channel.eventLoop.execute { handler.value.closeIfIdle() }
    }

    /// Closes the connection immediately.
    func close() { channel.close(promise: nil) }
}
