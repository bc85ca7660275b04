// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import TunnelIO
import WireGuardCore

/// A running client: logins and their session, between a UDP socket and, after a login, a TUN device.
///
/// The server assigns the interface's settings, so there is no interface before the first login. Until then, the lanes
/// run on an in-memory device that carries no packets.
package final class CredentialClientDevice: Sendable {
    /// The options of a device.
    package struct Options: Sendable {
        /// The binding of the sockets.
        package var binding = DatagramBinding()
        package var dataPath = DataPathOptions()
        /// The source of keys and indices; cryptographically secure outside of tests.
        package var random: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }

        package init() {}
    }

    /// The events of logins and session, for one reader.
    package let events: AsyncStream<ClientEvent>
    private let transport: LaneTransport<ClientEnd>
    private let lanes: EndLanes
    private let random: @Sendable () -> any RandomNumberGenerator

    /// Creates a device that waits for a login.
    /// - Parameter onFailure: Called once, on a lane's thread, when the interface was removed or a system call has
    ///   failed.
    package init(
        network: any DatagramNetwork, options: Options = Options(),
        onFailure: @escaping @Sendable (TunnelIOError) -> Void = { _ in }
    ) throws(TunnelIOError) {
        let (events, continuation) = AsyncStream.makeStream(of: ClientEvent.self)
        self.events = events
        random = options.random
        transport = LaneTransport(
            ClientEnd { continuation.yield($0) }, batchCapacity: options.dataPath.configuration().largestBatch)
        lanes = EndLanes(
            transport, network: network, binding: options.binding, dataPath: options.dataPath,
            onFailure: onFailure)
        try lanes.run(on: MemoryTun(name: "login", queueCapacity: 1))
    }

    /// Begins a login while an existing session continues, and cancels a login in progress. Uses the ticket of the
    /// previous login, if there was one. If there are several
    /// addresses, each is tried in turn.
    package func logIn(_ configuration: CredentialClient.Configuration, at endpoints: [Endpoint]) {
        let random = random
        transport.withEnd { end, now in
            var configuration = configuration
            configuration.ticket = end.ticket
            end.logIn(CredentialClient(configuration, random: random()), at: endpoints, now: now)
        }
        lanes.wake()
    }

    /// Cancels the first login because the server's port is closed. Has no effect after a response.
    func cancelLoginAtClosedPort() { transport.withEnd { end, now in end.cancelLoginAtClosedPort(now: now) } }

    /// Carries the packets of this device from now on.
    package func attach(_ tun: any TunDevice) throws(TunnelIOError) { try lanes.run(on: tun) }

    /// Opens new sockets and renews the keys, after sleep or a change of network. Uses the new addresses if they are
    /// known.
    package func rebind(to endpoints: [Endpoint] = []) throws(TunnelIOError) {
        try lanes.rebind()
        transport.withEnd { end, now in
            end.move(to: endpoints)
            end.renew(now: now)
        }
        lanes.wake()
    }

    /// Renews the keys, which proves that the server responds.
    package func renew() {
        transport.withEnd { end, now in end.renew(now: now) }
        lanes.wake()
    }

    /// Sends a packet as if the interface had sent it.
    /// - Returns: Whether there is a session to send it in.
    package func submit(_ packet: [UInt8]) -> Bool {
        defer { lanes.wake() }
        return transport.withEnd { end, now in end.submit(packet, now: now) }
    }

    /// The number of times that the server has proven that it responds, and whether it owes an answer.
    package var proof: (count: UInt64, isOwed: Bool) { transport.withEnd { end, _ in (end.proofs, end.isOwed) } }
    /// Whether a session is established.
    package var isEstablished: Bool { transport.withEnd { end, _ in end.isEstablished } }
    /// The server's address.
    package var endpoint: Endpoint? { transport.withEnd { end, _ in end.endpoint } }
    /// The age of the keys in use.
    package var keyAge: Duration? {
        transport.withEnd { end, now in end.keysMadeAt.map { .nanoseconds(now.nanoseconds - $0.nanoseconds) } }
    }
    /// The number of key renewals.
    package var rekeys: Int { transport.withEnd { end, _ in end.rekeys } }
    package var statistics: ClientStatistics { transport.withEnd { end, _ in end.statistics } }
    package var laneStatistics: LaneStatistics { lanes.statistics }
    /// The numbers of dropped packets and datagrams, by cause.
    package var drops: DropCounters { Self.drops(statistics, lanes.statistics, lanes.socketDrops) }

    static func drops(
        _ statistics: ClientStatistics, _ lane: LaneStatistics, _ sockets: DatagramReceiveDrops
    ) -> DropCounters {
        var drops = DropCounters()
        drops.add(statistics, by: ClientStatistics.dropCauses)
        drops.add(lane, by: laneDropCauses)
        drops.add(sockets, by: DatagramReceiveDrops.dropCauses)
        return drops
    }

    /// The drop causes of lanes. Two of them have other names here, which the status of login tunnels has always used.
    private static let laneDropCauses: [DropCause<LaneStatistics, Int>] = {
        let names = ["refused by device": "device", "refused by network": "network"]
        return LaneStatistics.dropCauses.map { (names[$0.name] ?? $0.name, $0.counter, $0.summary) }
    }()

    /// Notifies the server, ends the session, and stops threads and sockets. Waits for the threads. Safe to repeat.
    package func close() {
        transport.withEnd { end, _ in end.close() }
        lanes.stop()
    }
}
