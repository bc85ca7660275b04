// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Tasks that wait for one of some descriptors, none of them on a thread: one event loop watches for all.
final class PacketWaiters: Sendable {
    private let descriptors: [Int32]
    private let state: Mutex<State>

    private struct State {
        var loop: EventLoop?
        let ownsLoop: Bool
        var registrations: [EventLoop.Registration] = []
        var waiting: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var nextNumber: UInt64 = 0
        var isClosed = false
    }

    /// - Parameter loop: nil to make one, with a thread, when it is first needed.
    init(descriptors: [Int32], loop: EventLoop?) {
        self.descriptors = descriptors
        state = Mutex(State(loop: loop, ownsLoop: loop == nil))
    }

    /// Suspends the task until a descriptor is ready, ``wakeAll()`` or ``close()`` is called, or the task is cancelled.
    ///
    /// It may return for no reason. `isReady` is asked once the task is among those that are woken, so that nothing is missed.
    func wait(unless isReady: () -> Bool) async throws(TunnelIOError) {
        try prepare()
        let number = state.withLock { state in
            state.nextNumber += 1
            return state.nextNumber
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                insert(number, continuation)
                // What happened before the insertion woke nobody.
                if Task.isCancelled || isReady() { wake(number) }
            }
        } onCancel: {
            wake(number)
        }
    }

    /// Tasks that wait.
    var count: Int { state.withLock { $0.waiting.count } }

    private func prepare() throws(TunnelIOError) {
        try state.withLock { state throws(TunnelIOError) in
            guard !state.isClosed, state.registrations.isEmpty else { return }
            let loop: EventLoop
            if let present = state.loop {
                loop = present
            } else {
                loop = try EventLoop()
                try loop.startThread(name: "culvert-port")
                state.loop = loop
            }
            for descriptor in descriptors {
                state.registrations.append(
                    try loop.register(descriptor, for: []) { [weak self] _ in self?.wakeAll() })
            }
        }
    }

    private func insert(_ number: UInt64, _ continuation: CheckedContinuation<Void, Never>) {
        let isClosed = state.withLock { state in
            guard !state.isClosed else { return true }
            state.waiting[number] = continuation
            // A failure means that the descriptor is closed, which is found out by reading.
            guard let loop = state.loop, !state.registrations.isEmpty,
                state.registrations.allSatisfy({ (try? loop.modify($0, interest: .readable)) != nil })
            else {
                state.waiting[number] = nil
                return true
            }
            return false
        }
        if isClosed { continuation.resume() }
    }

    private func wake(_ number: UInt64) {
        state.withLock { state in state.waiting.removeValue(forKey: number) }?.resume()
    }

    /// Wakes every task that waits; those that find nothing wait again.
    func wakeAll() {
        let woken = state.withLock { state in
            let woken = state.waiting
            state.waiting = [:]
            // Nobody waits now, so that a descriptor which stays readable does not keep the loop spinning.
            for registration in state.registrations { try? state.loop?.modify(registration, interest: []) }
            return woken
        }
        for continuation in woken.values { continuation.resume() }
    }

    /// Wakes every task and watches no more. Safe to repeat.
    func close() {
        let loop = state.withLock { state -> EventLoop? in
            state.isClosed = true
            for registration in state.registrations { state.loop?.unregister(registration) }
            state.registrations = []
            defer { state.loop = nil }
            return state.ownsLoop ? state.loop : nil
        }
        wakeAll()
        loop?.stop()
    }
}
