// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelSystem

/// A channel to a router in the same process: for tests, and for hosts that run the provider themselves.
public final class MemoryMessageChannel: SubscribableChannel {
    private struct State {
        var isClosed = false
        var nextKey = 0
        var closers: [Int: @Sendable () -> Void] = [:]
    }

    private let router: MessageRouter
    private let state = Mutex(State())

    /// A channel to `router`.
    public init(router: MessageRouter) {
        self.router = router
    }

    /// Sends a request to the router.
    /// - Throws: ``MessageError/closed`` if the channel is closed before or during the call.
    public func exchange(_ request: [UInt8]) async throws -> [UInt8]? {
        let reply = OneShot<[UInt8]?>()
        let key = try enter { reply.finish(nil) }
        defer { leave(key) }
        let router = router
        let work = Task { _ = reply.finish(await router.respond(to: request)) }
        defer { work.cancel() }
        let answer = await withTaskCancellationHandler {
            await reply.value
        } onCancel: {
            reply.finish(nil)
        }
        guard let answer else { throw isClosed ? MessageError.closed : .cancelled }
        return answer
    }

    /// Subscribes at the router.
    /// - Throws: ``MessageError/closed`` once the channel is closed.
    public func open(_ request: [UInt8]) async throws -> any MessageFrames {
        let frames = MemoryFrames()
        let key = try enter { [weak frames] in frames?.cancel() }
        let router = router
        frames.start { [self] handoff in
            await router.serve(request) { frame in
                guard await handoff.send(frame) else { throw MessageError.closed }
            }
            handoff.finish()
            leave(key)
        }
        return frames
    }

    /// Ends requests in progress and refuses later ones, like a tunnel that stops. It may be called repeatedly.
    public func close() {
        let closers = state.withLock { state in
            state.isClosed = true
            defer { state.closers = [:] }
            return state.closers
        }
        for closer in closers.values { closer() }
    }

    private var isClosed: Bool { state.withLock(\.isClosed) }

    private func enter(_ close: @escaping @Sendable () -> Void) throws(MessageError) -> Int {
        let key = state.withLock { state -> Int? in
            guard !state.isClosed else { return nil }
            state.nextKey += 1
            state.closers[state.nextKey] = close
            return state.nextKey
        }
        guard let key else { throw .closed }
        return key
    }

    private func leave(_ key: Int) {
        state.withLock { state in _ = state.closers.removeValue(forKey: key) }
    }
}

/// The frames that a task of this process produces, at the speed at which they are consumed.
final class MemoryFrames: MessageFrames {
    private let handoff = Handoff<[UInt8]>()
    private let task = Mutex<Task<Void, Never>?>(nil)

    func start(_ body: @escaping @Sendable (Handoff<[UInt8]>) async -> Void) {
        let handoff = handoff
        task.withLock { $0 = Task { await body(handoff) } }
    }

    func next() async throws -> [UInt8]? { await handoff.next() }

    func cancel() {
        handoff.cancel()
        task.withLock { $0 }?.cancel()
    }

    deinit {
        cancel()
    }
}
