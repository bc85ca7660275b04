// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOCore
import NIOHTTP1
import TrustPinning

/// What connections have in common that may take each other's requests.
struct ConnectionKey: Hashable, Sendable {
    var endpoint: Endpoint
    /// The client identity that may have been shown on it.
    var identityRevision: UInt64
    /// What it was judged by. A connection that an older policy let through is not used under a newer one.
    var rule: PolicySet.Rule?
    /// Whether its pins had expired then, after which another verdict is due.
    var hasExpired = false
}

/// A connection that was found trusted, and takes one request after another.
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

    /// Sends a request and gives the beginning of its answer.
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

    /// Closes the connection if nothing is on its way over it.
    func closeIfIdle() {
        let handler = handler
        channel.eventLoop.execute { handler.value.closeIfIdle() }
    }

    /// Closes the connection now.
    func close() { channel.close(promise: nil) }
}
