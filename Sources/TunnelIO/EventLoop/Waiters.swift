// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The tasks that wait for packets or for room in a queue. A waiting task occupies no thread: one event loop watches the
/// descriptors for all of them.
///
/// `Failure` is the error type of the methods that wait.
package final class Waiters<Failure: Error>: Sendable {
    private let failure: @Sendable (TunnelIOError) -> Failure
    private let state: Mutex<State>

    /// A task that waits; it receives the reason why it cannot, or `nil`.
    private typealias Continuation = CheckedContinuation<TunnelIOError?, Never>
    private typealias Continuations = [UInt64: Continuation]

    private struct State {
        var descriptors: [Int32]
        var loop: EventLoop?
        let ownsLoop: Bool
        var registrations: [EventLoop.Registration] = []
        /// Tasks that a readable descriptor wakes.
        var readers: Continuations = [:]
        /// Tasks that only a call wakes.
        var writers: Continuations = [:]
        var nextNumber: UInt64 = 0
        var isClosed = false
    }

    /// - Parameters:
    ///   - descriptors: The descriptors that are readable while there is something to receive.
    ///   - loop: The event loop to wait with; it must run until ``close()``. `nil`: one with a thread is made for the first reader.
    ///   - failure: Converts the errors of waiting, which are `.cancelled` and `.eventLoop`.
    package init(
        descriptors: [Int32] = [], loop: EventLoop? = nil, failure: @escaping @Sendable (TunnelIOError) -> Failure
    ) {
        self.failure = failure
        state = Mutex(State(descriptors: descriptors, loop: loop, ownsLoop: loop == nil))
    }

    /// Sets the descriptors of waiters that were made without any, and wakes all tasks.
    package func watch(_ descriptors: [Int32]) {
        state.withLock { $0.descriptors = descriptors }
        wakeAll()
    }

    /// Calls `attempt` until it returns an element, and suspends the task in between.
    ///
    /// The task tries again when a descriptor is readable, unless `isReader` is false, and after ``wakeAll()`` and ``close()``.
    /// - Parameter isReady: Whether to try again immediately. It is called when the task is already among those that are woken,
    ///   so that no change is missed.
    /// - Throws: The error of `attempt`; `.cancelled` if the task was cancelled; `.eventLoop` if the system has no more descriptors,
    ///   or cannot watch one.
    package func next<Element>(
        isReader: Bool = true, unless isReady: () -> Bool, _ attempt: () throws(Failure) -> Element?
    ) async throws(Failure) -> Element {
        while true {
            if Task.isCancelled { throw failure(TunnelIOError(.cancelled)) }
            if let element = try attempt() { return element }
            if isReader { try prepare() }
            guard let error = await suspend(isReader: isReader, unless: isReady) else { continue }
            // `attempt` has the better error, for example if the descriptor was closed.
            if let element = try attempt() { return element }
            throw failure(error)
        }
    }

    /// The number of tasks that wait.
    package var count: Int { state.withLock { $0.readers.count + $0.writers.count } }

    /// Registers the descriptors with the event loop, once.
    private func prepare() throws(Failure) {
        do throws(TunnelIOError) {
            try state.withLock { state throws(TunnelIOError) in
                guard !state.isClosed, state.registrations.count < state.descriptors.count else { return }
                let loop: EventLoop
                if let present = state.loop {
                    loop = present
                } else {
                    loop = try EventLoop()
                    try loop.startThread(name: "culvert-port")
                    state.loop = loop
                }
                for descriptor in state.descriptors.dropFirst(state.registrations.count) {
                    state.registrations.append(
                        try loop.register(descriptor, for: []) { [weak self] _ in self?.wake(all: false) })
                }
            }
        } catch {
            throw failure(error)
        }
    }

    /// May return without an event.
    /// - Returns: the error if the event loop cannot watch a descriptor.
    private func suspend(isReader: Bool, unless isReady: () -> Bool) async -> TunnelIOError? {
        let number = state.withLock { state in
            state.nextNumber += 1
            return state.nextNumber
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: Continuation) in
                insert(number, continuation, isReader: isReader)
                // A change before the insertion woke no task.
                if Task.isCancelled || isReady() { wake(number) }
            }
        } onCancel: {
            wake(number)
        }
    }

    private func insert(_ number: UInt64, _ continuation: Continuation, isReader: Bool) {
        let (isWaiting, error) = state.withLock { state -> (Bool, TunnelIOError?) in
            guard !state.isClosed else { return (false, nil) }
            guard isReader else {
                state.writers[number] = continuation
                return (true, nil)
            }
            // The descriptors were set after `prepare()`.
            guard state.registrations.count == state.descriptors.count else { return (false, nil) }
            do throws(TunnelIOError) {
                for registration in state.registrations { try state.loop?.modify(registration, interest: .readable) }
            } catch {
                return (false, error)
            }
            state.readers[number] = continuation
            return (true, nil)
        }
        if !isWaiting { continuation.resume(returning: error) }
    }

    private func wake(_ number: UInt64) {
        let continuation = state.withLock { state -> Continuation? in
            state.readers.removeValue(forKey: number) ?? state.writers.removeValue(forKey: number)
        }
        continuation?.resume(returning: nil)
    }

    /// Wakes every task that waits; a task that finds nothing waits again.
    package func wakeAll() { wake(all: true) }

    private func wake(all: Bool) {
        let (readers, writers) = state.withLock { state -> (Continuations, Continuations) in
            let woken = (state.readers, all ? state.writers : [:])
            state.readers = [:]
            if all { state.writers = [:] }
            // No task waits for a descriptor now, and one that stays readable must not keep the loop busy.
            for registration in state.registrations { try? state.loop?.modify(registration, interest: []) }
            return woken
        }
        for continuation in readers.values { continuation.resume(returning: nil) }
        for continuation in writers.values { continuation.resume(returning: nil) }
    }

    /// Wakes every task and ends the watching. Safe to repeat. Call it before the descriptors are closed: their numbers may be
    /// reused then.
    package func close() {
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
