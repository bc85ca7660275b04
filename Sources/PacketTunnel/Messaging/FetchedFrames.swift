// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelSystem

/// The frames of a subscription over a channel with one answer per request. It fetches each frame with a separate
/// request.
final class FetchedFrames: MessageFrames {
    private struct State {
        /// The answer to the opening request, if it was an error.
        var first: [UInt8]?
        /// The number of the next frame.
        var next: UInt64 = 1
        var isOver = false
        var waiting: OneShot<Result<[UInt8]?, any Error>>?
        var work: Task<Void, Never>?
    }

    /// The time limit of a fetch. The other side answers sooner, even if it has no element.
    private static let limit = FetchedSubscriptions.patience * 3

    private let channel: any MessageChannel
    private let request: MessageContainer
    private let byteLimit: Int
    private let clock: any Clock<Duration>
    private let state: Mutex<State>

    /// Opens a subscription.
    /// - Throws: `.subscriptionsUnsupported` if there is no answer, and the errors of the channel.
    init(
        opening bytes: [UInt8], on channel: any MessageChannel, limit: Int, clock: any Clock<Duration>
    ) async throws {
        request = try MessageContainer(decoding: bytes, limit: limit)
        (self.channel, byteLimit, self.clock) = (channel, limit, clock)
        guard let answer = try await channel.exchange(bytes) else { throw MessageError.subscriptionsUnsupported }
        // Any answer but a reply, such as an error, is the first frame: the decoder of frames handles it.
        state = Mutex(State(first: Self.isReply(answer, limit) ? nil : answer))
    }

    private static func isReply(_ bytes: [UInt8], _ limit: Int) -> Bool {
        (try? MessageContainer(decoding: bytes, limit: limit))?.kind == .reply
    }

    func next() async throws -> [UInt8]? {
        let (first, isOver) = state.withLock { state in
            defer {
                if state.first != nil { (state.first, state.isOver) = (nil, true) }
            }
            return (state.first, state.isOver)
        }
        if let first { return first }
        guard !isOver else { return nil }
        while let frame = try await fetch() {
            // The other side had no element in time, so fetch again.
            guard !Self.isReply(frame, byteLimit) else { continue }
            state.withLock { $0.next += 1 }
            return frame
        }
        return nil
    }

    /// Makes one request and returns its answer, or `nil` after a cancellation.
    private func fetch() async throws -> [UInt8]? {
        let answer = OneShot<Result<[UInt8]?, any Error>>()
        let number = state.withLock { state -> UInt64? in
            guard !state.isOver else { return nil }
            state.waiting = answer
            return state.next
        }
        guard let number else { return nil }
        let bytes = try container(.take, MessageRouter.take(number))
        let (channel, clock) = (channel, clock)
        let work = Task {
            let outcome = await withDeadline(Self.limit, clock: clock) { () async -> Result<[UInt8]?, any Error> in
                do { return .success(try await channel.exchange(bytes)) } catch { return .failure(error) }
            }
            switch outcome {
            case .finished(.success(nil)): answer.finish(.failure(MessageError.noReply))
            case .finished(let result): answer.finish(result)
            case .timedOut: answer.finish(.failure(MessageError.timeout))
            case .cancelled: answer.finish(.success(nil))
            }
        }
        let isOver = state.withLock { state in
            state.work = work
            return state.isOver
        }
        if isOver { work.cancel() }
        return try await answer.value.get()
    }

    /// Ends the subscription and informs the other side, which would otherwise notice only after its idle limit.
    func cancel() {
        let (wasOver, waiting, work) = state.withLock { state in
            defer { (state.isOver, state.waiting, state.work) = (true, nil, nil) }
            return (state.isOver, state.waiting, state.work)
        }
        waiting?.finish(.success(nil))
        work?.cancel()
        guard !wasOver, let bytes = try? container(.leave, []) else { return }
        let channel = channel
        Task { _ = try? await channel.exchange(bytes) }
    }

    private func container(_ kind: MessageContainer.Kind, _ payload: [UInt8]) throws -> [UInt8] {
        var container = request
        (container.kind, container.payload) = (kind, payload)
        return try container.encoded(limit: byteLimit)
    }
}
