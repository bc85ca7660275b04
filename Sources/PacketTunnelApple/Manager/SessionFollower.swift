// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization
import TunnelSystem

/// Follows one connection of the system, and tells what it is in our words, with the error that ended it.
///
/// It listens to its own connection only: the system tells of all of them.
final class SessionFollower: Sendable {
    /// A status, and who waits until everybody knows of it.
    private struct Told: Sendable {
        var status: NEVPNStatus
        var done: OneShot<Void>?
    }

    private let configuration: SystemConfiguration
    private let reader: Reader
    private let statuses: AsyncStream<Told>.Continuation
    private let task: Task<Void, Never>
    private let observer: Observer

    init(
        _ configuration: SystemConfiguration, _ updates: Broadcast<TunnelStatusUpdate>, clock: any Clock<Duration>
    ) {
        self.configuration = configuration
        let (stream, continuation) = AsyncStream.makeStream(of: Told.self)
        statuses = continuation
        let reader = Reader(configuration, updates, clock)
        self.reader = reader
        task = Task {
            for await told in stream {
                await reader.take(told.status)
                told.done?.finish(())
            }
        }
        observer = Observer(configuration) { continuation.yield(Told(status: $0)) }
    }

    deinit {
        statuses.finish()
        task.cancel()
    }

    /// Takes the status that there is now; returns once it is told, after those before it.
    func look() async {
        let done = OneShot<Void>()
        if case .enqueued = statuses.yield(Told(status: configuration.status, done: done)) { await done.value }
    }

    /// How many statuses were told so far.
    var count: Int { reader.count }

    /// The tunnel is about to end because somebody here wants it to, which is no failure.
    func expectStop() { reader.expectStop() }

    /// Turns statuses into updates, one after the other.
    private final class Reader: Sendable {
        private let configuration: SystemConfiguration
        private let updates: Broadcast<TunnelStatusUpdate>
        private let clock: any Clock<Duration>
        private let state = Mutex((count: 0, isStopExpected: false))

        init(
            _ configuration: SystemConfiguration, _ updates: Broadcast<TunnelStatusUpdate>,
            _ clock: any Clock<Duration>
        ) {
            self.configuration = configuration
            self.updates = updates
            self.clock = clock
        }

        var count: Int { state.withLock { $0.count } }

        func expectStop() { state.withLock { $0.isStopExpected = true } }

        func take(_ status: NEVPNStatus) async {
            var update = TunnelStatusUpdate(TunnelStatus(status))
            switch status {
            case .connecting: state.withLock { $0.isStopExpected = false }
            case .disconnected where updates.current.status.isActive:
                if !state.withLock({ $0.isStopExpected }) { update.error = await configuration.lastError() }
            case .disconnected: update.error = updates.current.error
            // Blocked is reasserting for the system; only the extension knows.
            case .reasserting: if let told = await blocked() { update = told }
            default: break
            }
            // A status that is repeated is news where a start failed faster than we looked.
            state.withLock { $0.count += 1 }
            updates.send(update)
        }

        /// What the extension says, if it says that it blocks; it has no long to say so.
        private func blocked() async -> TunnelStatusUpdate? {
            let configuration = configuration
            let outcome = await withDeadline(.seconds(5), clock: clock) { () async -> TunnelStatusUpdate? in
                do throws(TunnelError) {
                    let reply = try ExtensionMessage.reply(
                        try await configuration.send(ExtensionMessage.encode(.status)))
                    if case .status(let update) = reply, update.status == .blocked { return update }
                } catch {
                    // Then it is what the system says.
                }
                return nil
            }
            return if case .finished(let update) = outcome { update } else { nil }
        }
    }

    /// Listens to the system's notifications about one connection.
    private final class Observer: @unchecked Sendable {
        private let token: any NSObjectProtocol

        init(_ configuration: SystemConfiguration, _ handler: @escaping @Sendable (NEVPNStatus) -> Void) {
            token = NotificationCenter.default.addObserver(
                forName: .NEVPNStatusDidChange, object: configuration.manager.connection, queue: nil
            ) { [weak configuration] _ in
                if let configuration { handler(configuration.status) }
            }
        }

        deinit { NotificationCenter.default.removeObserver(token) }
    }
}

extension TunnelStatus {
    /// The system's status.
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
