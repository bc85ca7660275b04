// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// What a ``TunnelMonitor`` does while the tunnel has a status.
public enum MonitoringPhase: Hashable, Sendable {
    /// It polls.
    case polling
    /// It waits for the next status.
    case waiting
    /// It ends: the tunnel is gone for good.
    case ended
}

extension MonitoringPhase {
    /// What there is to do in a tunnel's status: to poll while it is up, be it that it carries nothing for the present; to end
    /// once its profile is gone; else to wait.
    public init(_ update: TunnelStatusUpdate) {
        self =
            switch update.status {
            case .connected, .reasserting: .polling
            case .disconnected, .connecting, .disconnecting, .blocked: .waiting
            case .invalid: .ended
            }
    }
}

/// What a ``TunnelMonitor`` gives.
public enum TunnelMonitorEvent<Status: Sendable, Reply: Sendable>: Sendable {
    /// The tunnel's status is another one.
    case status(Status)
    /// A poll was answered.
    case reply(Reply)
    /// A poll failed. The next one is made all the same.
    case failure(any Error)
}

/// Asks a tunnel the same thing again and again while it is connected, and follows its status.
///
/// The first poll is made as soon as the tunnel is connected; the others at the interval, counted from the beginning of
/// one to that of the next. Polls never overlap: one that takes longer than the interval makes the next wait for its
/// place in the rhythm. When the status says so, polling pauses, and the poll under way is cancelled and its answer
/// dropped; it begins again at once when the tunnel is back.
///
/// A slow reader gets every status, but of answers the latest only. The sequence ends after a status that is the end,
/// after the last status, or when the iterating task is cancelled. Each iteration polls for itself.
public struct TunnelMonitor<Status: Equatable & Sendable, Reply: Sendable>: AsyncSequence, Sendable {
    /// What the sequence gives.
    public typealias Element = TunnelMonitorEvent<Status, Reply>

    private let makeRun: @Sendable () -> MonitorRun<Status, Reply>

    /// A monitor.
    /// - Parameters:
    ///   - statuses: the tunnel's statuses, the present one first.
    ///   - interval: how often to poll; at least a millisecond.
    ///   - clock: measures the interval.
    ///   - phase: what to do in a status.
    ///   - poll: asks the tunnel, for example with a ``MessageClient``. It should have a time-out.
    public init<Statuses: AsyncSequence<Status, Never> & Sendable, C: Clock<Duration>>(
        following statuses: Statuses, every interval: Duration = .seconds(1), clock: C = ContinuousClock(),
        phase: @escaping @Sendable (Status) -> MonitoringPhase, poll: @escaping @Sendable () async throws -> Reply
    ) {
        makeRun = {
            let run = MonitorRun<Status, Reply>()
            run.start {
                await run.follow(
                    statuses, every: Swift.max(interval, .milliseconds(1)), clock: clock, phase: phase, poll: poll)
            }
            return run
        }
    }

    /// Takes events one at a time.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let lifetime: MonitorLifetime<Status, Reply>

        fileprivate init(_ run: MonitorRun<Status, Reply>) {
            lifetime = MonitorLifetime(run)
        }

        /// The next event; nil at the end, and when the task is cancelled.
        public mutating func next() async -> Element? {
            await lifetime.run.next()
        }
    }

    /// Begins to follow and to poll.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(makeRun())
    }
}

extension TunnelMonitor where Status == TunnelStatusUpdate {
    /// A monitor of a profile's tunnel, which sends its provider a message again and again while the tunnel is up, also after it
    /// was stopped and started. It ends when the profile is removed.
    ///
    /// A message without a reply is a ``TunnelMonitorEvent/failure(_:)`` with a ``MessageError``.
    /// - Parameters:
    ///   - manager: knows the tunnel.
    ///   - id: the profile's id.
    ///   - interval: how often to ask; at least a millisecond.
    ///   - timeout: how long an answer may take.
    ///   - clock: measures both.
    ///   - message: what to ask.
    public init<Message: TunnelMessage, C: Clock<Duration>>(
        _ manager: TunnelManager, _ id: String, every interval: Duration = .seconds(1),
        timeout: Duration = MessageClient.defaultTimeout, clock: C = ContinuousClock(), asking message: Message
    ) where Reply == Message.Reply {
        let client = manager.client(for: id, timeout: timeout, clock: clock)
        makeRun = {
            let run = MonitorRun<Status, Reply>()
            run.start {
                await run.follow(
                    await manager.statusUpdates(id), every: Swift.max(interval, .milliseconds(1)), clock: clock,
                    phase: { MonitoringPhase($0) }, poll: { try await client.send(message) })
            }
            return run
        }
    }
}

/// Ends a run when nobody iterates any more. The run's own tasks hold on to the run only.
private final class MonitorLifetime<Status: Equatable & Sendable, Reply: Sendable>: Sendable {
    let run: MonitorRun<Status, Reply>

    init(_ run: MonitorRun<Status, Reply>) {
        self.run = run
    }

    deinit { run.finish() }
}
