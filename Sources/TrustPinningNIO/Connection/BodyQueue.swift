// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOConcurrencyHelpers
import NIOCore
import TrustPinning

/// The received chunks of a body that were not read yet. The size of the queue is bounded, because the connection
/// pauses reading.
final class BodyQueue: Sendable {
    typealias Next = Result<ByteBuffer?, PinnedSessionError>

    private struct Content {
        var chunks = CircularBuffer<ByteBuffer>()
        var bytes = 0
        var end: PinnedSessionError??
        var waiter: CheckedContinuation<Next, Never>?
        var isStopped = false
    }

    /// The size in bytes at which the connection stops reading, and the size below which it resumes.
    private static let high = 256 * 1024
    private static let low = 64 * 1024

    private let content = NIOLockedValueBox(Content())
    private let onDemand: @Sendable () -> Void
    private let onAbandon: @Sendable () -> Void

    /// - Parameters:
    ///   - onDemand: Called when the reader wants more data after `push` has returned `false`.
    ///   - onAbandon: Called when the reader abandons the rest of the body.
    init(onDemand: @escaping @Sendable () -> Void, onAbandon: @escaping @Sendable () -> Void) {
        self.onDemand = onDemand
        self.onAbandon = onAbandon
    }

    /// Adds a received chunk.
    /// - Returns: Whether the connection may continue to read.
    func push(_ chunk: ByteBuffer) -> Bool {
        let (waiter, mayContinue) = content.withLockedValue { content -> (CheckedContinuation<Next, Never>?, Bool) in
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
        return mayContinue
    }

    /// Ends the body: after the stored chunks, the reader receives the end or the error.
    func finish(_ error: PinnedSessionError? = nil) {
        let waiter = content.withLockedValue { content -> CheckedContinuation<Next, Never>? in
            guard content.end == nil else { return nil }
            content.end = .some(error)
            defer { content.waiter = nil }
            return content.waiter
        }
        waiter?.resume(returning: error.map { .failure($0) } ?? .success(nil))
    }

    /// Returns the next chunk, or `nil` at the end. Only one task may read at a time.
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

    /// Drops the stored chunks, since the rest will not be read.
    func abandon() {
        content.withLockedValue { content in
            content.chunks.removeAll()
            content.bytes = 0
        }
        onAbandon()
    }
}
