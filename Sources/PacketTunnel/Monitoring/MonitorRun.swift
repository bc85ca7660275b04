// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// One iteration of a ``TunnelMonitor``: its events, and the tasks that produce them.
final class MonitorRun<Status: Equatable & Sendable, Reply: Sendable>: Sendable {
    typealias Event = TunnelMonitorEvent<Status, Reply>

    /// The limit of undelivered statuses; beyond it the oldest are dropped.
    private static var maximumStatuses: Int { 64 }

    private struct State {
        /// The undelivered events, in order. At most one is an answer, and it is the last.
        var events: [Event] = []
        var reader: CheckedContinuation<Event?, Never>?
        var isFinished = false
        /// The number of times that polling began. Answers to polls of earlier times are dropped.
        var generation = 0
        var follower: Task<Void, Never>?
        var poller: Task<Void, Never>?
    }

    private let state = Mutex(State())

    /// Starts the task that produces the events.
    func start(_ body: @escaping @Sendable () async -> Void) {
        let task = Task { await body() }
        let isFinished = state.withLock { state in
            state.follower = task
            return state.isFinished
        }
        if isFinished { task.cancel() }
    }

    /// The next event; nil at the end.
    func next() async -> Event? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isReady, event) = state.withLock { state -> (Bool, Event?) in
                    if !state.events.isEmpty { return (true, state.events.removeFirst()) }
                    guard !state.isFinished, state.reader == nil else { return (true, nil) }
                    state.reader = continuation
                    return (false, nil)
                }
                if isReady { continuation.resume(returning: event) }
            }
        } onCancel: {
            finish(dropping: true)
        }
    }

    /// Ends the iteration and its polls.
    func finish(dropping: Bool = false) {
        let (reader, tasks) = state.withLock { state in
            state.isFinished = true
            state.generation += 1
            if dropping { state.events = [] }
            defer { state.reader = nil }
            return (state.reader, [state.follower, state.poller])
        }
        for task in tasks { task?.cancel() }
        reader?.resume(returning: nil)
    }

    // MARK: - Following and polling

    /// Follows the statuses until the sequence ends or a status ends the monitoring.
    func follow<Statuses: AsyncSequence<Status, Never> & Sendable, C: Clock<Duration>>(
        _ statuses: Statuses, every interval: Duration, clock: C, phase: @Sendable (Status) -> MonitoringPhase,
        poll: @escaping @Sendable () async throws -> Reply
    ) async {
        defer { finish() }
        var last: Status?
        var isPolling = false
        for await status in statuses where status != last {
            last = status
            let phase = phase(status)
            if isPolling, phase != .polling {
                stopPolling()
                isPolling = false
            }
            push(.status(status))
            guard phase != .ended else { return }
            if phase == .polling, !isPolling {
                startPolling(every: interval, clock: clock, poll)
                isPolling = true
            }
        }
    }

    private func startPolling<C: Clock<Duration>>(
        every interval: Duration, clock: C, _ poll: @escaping @Sendable () async throws -> Reply
    ) {
        state.withLock { state in
            guard !state.isFinished else { return }
            let (previous, generation) = (state.poller, state.generation)
            state.poller = Task {
                // A poll that ignores its cancellation still ends before the next one begins.
                await previous?.value
                await self.poll(generation, every: interval, clock: clock, poll)
            }
        }
    }

    private func stopPolling() {
        let poller = state.withLock { state in
            state.generation += 1
            return state.poller
        }
        poller?.cancel()
    }

    private func poll<C: Clock<Duration>>(
        _ generation: Int, every interval: Duration, clock: C, _ poll: @Sendable () async throws -> Reply
    ) async {
        var due = clock.now
        while !Task.isCancelled {
            let event: Event
            do { event = .reply(try await poll()) } catch { event = .failure(error) }
            push(event, of: generation)
            let now = clock.now
            repeat { due = due.advanced(by: interval) } while due <= now
            do { try await clock.sleep(until: due, tolerance: nil) } catch { return }
        }
    }

    /// Delivers an event, unless it is an answer to a poll from before polling was stopped.
    private func push(_ event: Event, of generation: Int? = nil) {
        let reader = state.withLock { state -> CheckedContinuation<Event?, Never>? in
            guard !state.isFinished, generation == nil || generation == state.generation else { return nil }
            if let reader = state.reader {
                state.reader = nil
                return reader
            }
            if let newest = state.events.last, !event.isStatus, !newest.isStatus { state.events.removeLast() }
            state.events.append(event)
            if state.events.count > 2 * Self.maximumStatuses { state.events.removeFirst() }
            return nil
        }
        reader?.resume(returning: event)
    }
}

extension TunnelMonitorEvent {
    fileprivate var isStatus: Bool {
        if case .status = self { true } else { false }
    }
}
