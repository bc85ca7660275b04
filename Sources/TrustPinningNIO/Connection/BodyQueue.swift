// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import TrustPinning

/// What has come of a body and was not read yet: bounded, because the connection is told to stop.
final class BodyQueue: Sendable {
    typealias Next = Result<ByteBuffer?, PinnedSessionError>

    private struct Content {
        var chunks = CircularBuffer<ByteBuffer>()
        var bytes = 0
        var end: PinnedSessionError??
        var waiter: CheckedContinuation<Next, Never>?
        var isStopped = false
    }

    /// From this many bytes on, the connection stops reading; it reads on when fewer than the lower number are left.
    private static let high = 256 * 1024
    private static let low = 64 * 1024

    private let content = NIOLockedValueBox(Content())
    private let onDemand: @Sendable () -> Void
    private let onAbandon: @Sendable () -> Void

    /// - Parameters:
    ///   - onDemand: called when the reader wants more after `push` has said that it is enough.
    ///   - onAbandon: called when nobody will read the rest.
    init(onDemand: @escaping @Sendable () -> Void, onAbandon: @escaping @Sendable () -> Void) {
        self.onDemand = onDemand
        self.onAbandon = onAbandon
    }

    /// Adds what has come.
    /// - Returns: whether more may come now.
    func push(_ chunk: ByteBuffer) -> Bool {
        let (waiter, mayGoOn) = content.withLockedValue { content -> (CheckedContinuation<Next, Never>?, Bool) in
            guard content.end == nil else { return (nil, true) }
            if let waiter = content.waiter {
                content.waiter = nil
                return (waiter, true)
            }
            content.chunks.append(chunk)
            content.bytes += chunk.readableBytes
            content.isStopped = content.bytes >= BodyQueue.high
            return (nil, !content.isStopped)
        }
        waiter?.resume(returning: .success(chunk))
        return mayGoOn
    }

    /// Nothing more comes: after what is there, the reader is told the end, or the error.
    func finish(_ error: PinnedSessionError? = nil) {
        let waiter = content.withLockedValue { content -> CheckedContinuation<Next, Never>? in
            guard content.end == nil else { return nil }
            content.end = .some(error)
            defer { content.waiter = nil }
            return content.waiter
        }
        waiter?.resume(returning: error.map { .failure($0) } ?? .success(nil))
    }

    /// The next chunk; nil at the end. Only one reader at a time.
    func next() async -> Next {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (next, wantsMore) = content.withLockedValue { content -> (Next?, Bool) in
                    if Task.isCancelled { return (.failure(.cancelled), false) }
                    if let chunk = content.chunks.popFirst() {
                        content.bytes -= chunk.readableBytes
                        let wantsMore = content.isStopped && content.bytes < BodyQueue.low
                        if wantsMore { content.isStopped = false }
                        return (.success(chunk), wantsMore)
                    }
                    if let end = content.end { return (end.map { .failure($0) } ?? .success(nil), false) }
                    guard content.waiter == nil else { return (.failure(.cancelled), false) }
                    content.waiter = continuation
                    return (nil, false)
                }
                if wantsMore { onDemand() }
                if let next { continuation.resume(returning: next) }
            }
        } onCancel: {
            finish(.cancelled)
            onAbandon()
        }
    }

    /// Nobody will read the rest.
    func abandon() {
        content.withLockedValue { content in
            content.chunks.removeAll()
            content.bytes = 0
        }
        onAbandon()
    }
}
