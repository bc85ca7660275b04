// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Synchronization
package import TunnelIO
package import WireGuardCore

/// A running server: the sessions of many clients between UDP sockets and one TUN device.
///
/// A client's packets are delivered to the device only if their source is the client's assigned address. Packets of the
/// device are sent to the client whose address is their destination. The firewall, not this type, limits the hosts that
/// clients can reach.
package final class CredentialServerDevice: Sendable {
    /// The options of a server.
    package struct Options: Sendable {
        package var limits = ServerLimits()
        package var dataPath = DataPathOptions()
        /// Seals the tickets of accepted logins; `nil` for a server without tickets.
        package var tickets: TicketSealer?
        /// The source of keys and indices; cryptographically secure outside of tests.
        package var random: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }

        package init() {}
    }

    /// The end of a session whose login was accepted.
    private struct End {
        var session: ClientID
        var reason: EndReason
        var moved: SessionTraffic
    }

    private let tun: any TunDevice
    private let transport: LaneTransport<ServerEnd>
    private let lanes: EndLanes
    private let store: any CredentialStore
    /// The logins for the store to decide on: at most ``ServerLimits/verifiers`` and ``ServerLimits/resumers`` without a
    /// verdict.
    private let attempts: AsyncStream<LoginAttempt>
    private let ends: AsyncStream<End>
    private let attemptsContinuation: AsyncStream<LoginAttempt>.Continuation
    private let endsContinuation: AsyncStream<End>.Continuation
    private let tasks = Mutex<[Task<Void, Never>]>([])

    /// Creates a server without starting it. The server owns `tun` from now on.
    /// - Parameters:
    ///   - binding: The binding of the sockets. For port 0, the system chooses the port.
    ///   - onFailure: Called once, on a lane's thread, if the interface was removed or the system fails. It must not
    ///     call the server.
    package init(
        privateKey: PrivateKey, presharedKey: PresharedKey, store: any CredentialStore, tun: any TunDevice,
        network: any DatagramNetwork, binding: DatagramBinding = DatagramBinding(), options: Options = Options(),
        onFailure: @escaping @Sendable (TunnelIOError) -> Void = { _ in }
    ) {
        self.tun = tun
        self.store = store
        let (attempts, attemptsContinuation) = AsyncStream.makeStream(
            of: LoginAttempt.self,
            bufferingPolicy: .bufferingOldest(max(options.limits.verifiers, 1) + options.limits.resumers))
        // Use an unbounded buffer: there is at most one end for each accepted login.
        let (ends, endsContinuation) = AsyncStream.makeStream(of: End.self)
        (self.attempts, self.attemptsContinuation) = (attempts, attemptsContinuation)
        (self.ends, self.endsContinuation) = (ends, endsContinuation)
        var server = CredentialServer(
            privateKey: privateKey, presharedKey: presharedKey, limits: options.limits, random: options.random())
        server.isKnown = { login, source in store.isKnown(login, from: source) }
        server.tickets = options.tickets
        let end = ServerEnd(server) { attempt in
            if case .enqueued = attemptsContinuation.yield(attempt) { true } else { false }
        } ended: { id, reason, moved in
            endsContinuation.yield(End(session: id, reason: reason, moved: moved))
        }
        transport = LaneTransport(end, batchCapacity: options.dataPath.configuration().largestBatch)
        lanes = EndLanes(
            transport, network: network, binding: binding, dataPath: options.dataPath,
            onFailure: onFailure)
    }

    deinit { shutDown() }

    /// Binds the port and starts the server.
    package func start() throws(TunnelIOError) {
        try lanes.run(on: tun)
        let (transport, lanes, store, attempts, ends) = (transport, lanes, store, attempts, ends)
        let verifier = Task {
            await withDiscardingTaskGroup { group in
                for await attempt in attempts {
                    group.addTask {
                        let verdict = await store.verdict(on: attempt)
                        // Most logins change the tables. The memory is released here, after the lock.
                        _ = transport.withEnd { end, now in
                            end.answer(attempt, verdict, at: now)
                            return end.takeRetired()
                        }
                        lanes.wake()
                    }
                }
            }
        }
        let ender = Task { for await end in ends { await store.ended(end.session, end.reason, end.moved) } }
        tasks.withLock { $0 = [verifier, ender] }
    }

    /// Ends a session, and notifies its client of the reason.
    package func disconnect(_ id: ClientID, _ reason: EndReason = .removed) {
        transport.withEnd { end, now in end.disconnect(id, reason, at: now) }
        lanes.wake()
    }

    /// The current sessions.
    package var sessions: [ServerSession] { transport.withEnd { end, now in end.sessions(at: now) } }
    package var statistics: ServerDeviceStatistics { transport.withEnd { end, _ in end.statistics } }
    package var laneStatistics: LaneStatistics { lanes.statistics }
    /// Warnings for the log: fewer lanes, or fewer lanes that receive, than the layout requests.
    package var laneWarnings: [String] { lanes.warnings }
    /// The numbers of dropped packets and datagrams, by cause.
    package var drops: DropCounters { Self.drops(statistics, lanes.statistics, lanes.socketDrops) }

    static func drops(
        _ statistics: ServerDeviceStatistics, _ lane: LaneStatistics, _ sockets: DatagramReceiveDrops
    ) -> DropCounters {
        var drops = DropCounters()
        drops.add(statistics, by: ServerDeviceStatistics.dropCauses)
        drops.add(statistics.protocolDrops, by: ServerStatistics.dropCauses)
        drops.add(lane, by: LaneStatistics.dropCauses)
        drops.add(sockets, by: DatagramReceiveDrops.dropCauses)
        return drops
    }
    /// The bound port, or `nil` if none is bound.
    package var port: UInt16? { lanes.boundPort }

    /// Ends all sessions and notifies their clients, then stops threads, sockets and the device. When it returns, the
    /// store was informed of every end. Waits for threads, and for verdicts in progress. Safe to repeat.
    package func stop() async {
        shutDown()
        for task in tasks.withLock({ $0 }) { await task.value }
    }

    private func shutDown() {
        attemptsContinuation.finish()
        transport.withEnd { end, now in end.close(at: now) }
        lanes.stop()
        tun.close()
        // Verdicts in progress may still begin sessions. Wait for the verdicts, and end these sessions too.
        guard let verifier = tasks.withLock({ $0.first }) else { return endsContinuation.finish() }
        let (transport, ends) = (transport, endsContinuation)
        Task {
            await verifier.value
            transport.withEnd { end, now in end.close(at: now) }
            ends.finish()
        }
    }
}
