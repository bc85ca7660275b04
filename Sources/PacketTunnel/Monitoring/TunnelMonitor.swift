// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The activity of a ``TunnelMonitor`` in a status of the tunnel.
public enum MonitoringPhase: Hashable, Sendable {
    /// It polls.
    case polling
    /// It waits for the next status.
    case waiting
    /// The monitor ends: the tunnel was removed.
    case ended
}

extension MonitoringPhase {
    /// The activity for a tunnel's status: polling while the tunnel is up, even without a connection; ended when its
    /// profile was removed; otherwise waiting.
    public init(_ update: TunnelStatusUpdate) {
        self =
            switch update.status {
            case .connected, .reasserting: .polling
            case .disconnected, .connecting, .disconnecting, .blocked: .waiting
            case .invalid: .ended
            }
    }
}

/// The events of a ``TunnelMonitor``.
public enum TunnelMonitorEvent<Status: Sendable, Reply: Sendable>: Sendable {
    /// The tunnel's status changed.
    case status(Status)
    /// A poll was answered.
    case reply(Reply)
    /// A poll failed. The next poll is made as usual.
    case failure(any Error)
}

/// Polls a tunnel while it is connected, and follows its status.
///
/// The first poll starts when the tunnel is connected. The interval is measured from the start of one poll to the start
/// of the next. Polls never overlap: if one takes longer than the interval, the next one starts at the next multiple of
/// the interval. In other statuses polling pauses: the poll in progress is cancelled and its answer dropped. Polling
/// resumes immediately when the tunnel is up again.
///
/// A slow reader gets every status, but only the latest answer. The sequence ends after a status that ends the
/// monitoring, when the statuses end, or when the iterating task is cancelled. Each iteration polls separately.
public struct TunnelMonitor<Status: Equatable & Sendable, Reply: Sendable>: AsyncSequence, Sendable {
    /// The events of the sequence.
    public typealias Element = TunnelMonitorEvent<Status, Reply>

    private let makeRun: @Sendable () -> MonitorRun<Status, Reply>

    /// Creates a monitor.
    /// - Parameters:
    ///   - statuses: The tunnel's statuses, the present one first.
    ///   - interval: The polling interval; at least a millisecond.
    ///   - clock: The clock of the interval.
    ///   - phase: Returns the activity in a status.
    ///   - poll: Asks the tunnel, for example with a ``MessageClient``. It should have a timeout.
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
    /// Creates a monitor of a profile's tunnel. It sends a message to the provider repeatedly while the tunnel is up,
    /// across stops and starts. It ends when the profile is removed.
    ///
    /// A message without a reply results in a ``TunnelMonitorEvent/failure(_:)`` with a ``MessageError``.
    /// - Parameters:
    ///   - manager: The manager of the tunnel.
    ///   - id: The profile's ID.
    ///   - interval: The polling interval; at least a millisecond.
    ///   - timeout: The time limit of an answer.
    ///   - clock: The clock of the interval and of the time limit.
    ///   - message: The message.
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

/// Ends a run when it is no longer iterated. The tasks of the run refer only to the run, not to this object.
private final class MonitorLifetime<Status: Equatable & Sendable, Reply: Sendable>: Sendable {
    let run: MonitorRun<Status, Reply>

    init(_ run: MonitorRun<Status, Reply>) {
        self.run = run
    }

    deinit { run.finish() }
}
