// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization
import TunnelSystem

/// Follows one connection of the system, and reports its status, with the error that ended it.
///
/// It ignores notifications of other connections.
final class SessionFollower: Sendable {
    /// A status to report, and the waiter for its report.
    private struct Told: Sendable {
        /// The status; `nil` to wait only for the earlier ones.
        var status: NEVPNStatus?
        var done: OneShot<Void>?
    }

    private let configuration: SystemConfiguration
    private let reader: Reader
    private let statuses: AsyncStream<Told>.Continuation
    private let task: Task<Void, Never>
    private let observer: ConnectionObserver

    init(_ configuration: SystemConfiguration, _ record: SessionRecord, clock: any Clock<Duration>) {
        self.configuration = configuration
        let (stream, continuation) = AsyncStream.makeStream(of: Told.self)
        statuses = continuation
        let reader = Reader(configuration, record, clock)
        self.reader = reader
        task = Task {
            for await told in stream {
                if let status = told.status { await reader.handle(status) }
                told.done?.finish(())
            }
        }
        observer = ConnectionObserver(configuration.manager.connection) { status in
            reader.expect(status)
            continuation.yield(Told(status: status))
        }
    }

    deinit {
        statuses.finish()
        task.cancel()
    }

    /// Reads the present status. Returns when it was reported, after the earlier ones.
    func refresh() async {
        let status = configuration.status
        reader.expect(status)
        await deliver(status)
    }

    /// Returns once the record has every status that the system reported so far.
    func settle() async { await deliver(nil) }

    private func deliver(_ status: NEVPNStatus?) async {
        let done = OneShot<Void>()
        if case .enqueued = statuses.yield(Told(status: status, done: done)) { await done.value }
    }

    /// Records that this process is about to stop the tunnel, so that the end is not reported as a failure.
    func expectStop() { reader.expectStop() }

    /// Converts statuses to updates, one after the other.
    private final class Reader: Sendable {
        private struct State {
            var isStopExpected = false
            /// The number of queued statuses other than reasserting that were not read yet.
            var newer = 0
            var inquiry: OneShot<TunnelStatusUpdate?>?
        }

        private let configuration: SystemConfiguration
        private let record: SessionRecord
        private let clock: any Clock<Duration>
        private let state = Mutex(State())

        init(_ configuration: SystemConfiguration, _ record: SessionRecord, _ clock: any Clock<Duration>) {
            self.configuration = configuration
            self.record = record
            self.clock = clock
        }

        func expectStop() { state.withLock { $0.isStopExpected = true } }

        /// Records that a status was queued. This ends an inquiry about an older status, which a hung extension might
        /// never answer.
        func expect(_ status: NEVPNStatus) {
            guard status != .reasserting else { return }
            let inquiry = state.withLock { state in
                state.newer += 1
                return state.inquiry
            }
            inquiry?.finish(nil)
        }

        func handle(_ status: NEVPNStatus) async {
            if status != .reasserting { state.withLock { $0.newer -= 1 } }
            let current = record.updates.current
            var update = TunnelStatusUpdate(TunnelStatus(status))
            switch status {
            case .connecting: state.withLock { $0.isStopExpected = false }
            case .disconnected where current.status.isActive:
                if !state.withLock({ $0.isStopExpected }) { update.error = await configuration.lastError() }
            case .disconnected: update.error = current.error
            // The system reports a blocked tunnel as reasserting; only the extension knows that it is blocked.
            case .reasserting: if let told = await blocked() { update = told }
            default: break
            }
            record.append(update)
        }

        /// Asks the extension whether it blocks, and returns the status that it then reports. It must answer within 5
        /// seconds, and before the system reports another status.
        private func blocked() async -> TunnelStatusUpdate? {
            let answer = OneShot<TunnelStatusUpdate?>()
            let isCurrent = state.withLock { state in
                guard state.newer == 0 else { return false }
                state.inquiry = answer
                return true
            }
            guard isCurrent else { return nil }
            let (configuration, clock) = (configuration, clock)
            let inquiry = Task {
                let outcome = await withDeadline(.seconds(5), clock: clock) { await Self.ask(configuration) }
                if case .finished(let update) = outcome { answer.finish(update) } else { answer.finish(nil) }
            }
            let update = await answer.value
            inquiry.cancel()
            state.withLock { $0.inquiry = nil }
            return update
        }

        private static func ask(_ configuration: SystemConfiguration) async -> TunnelStatusUpdate? {
            do throws(TunnelError) {
                let reply = try ExtensionMessage.reply(
                    try await configuration.send(ExtensionMessage.encode(.status)))
                if case .status(let update) = reply, update.status == .blocked { return update }
            } catch {
                // Without an answer, the system's status applies.
            }
            return nil
        }
    }
}

extension TunnelStatus {
    /// Converts the system's status.
    init(_ status: NEVPNStatus) {
        self =
            switch status {
            case .invalid: .invalid
            case .disconnected: .disconnected
            case .connecting: .connecting
            case .connected: .connected
            case .reasserting: .reasserting
            case .disconnecting: .disconnecting
            @unknown default: .invalid
            }
    }
}
