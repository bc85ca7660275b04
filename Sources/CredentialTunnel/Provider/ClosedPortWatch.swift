// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelIO

/// Finds out whether the server's port is closed, during the first login.
///
/// The sockets of the tunnel have no fixed destination, so the system reports no refusals to them. A port counts as closed
/// after the refusal of two datagrams from different sockets: an ICMP message can be forged, and a server may just restart.
/// A server that responds within 100 ms receives no such datagram.
struct ClosedPortWatch: Sendable {
    /// The time from the login to the first datagram.
    static let delay = Duration.milliseconds(100)
    /// The times from each datagram to the next, and from the last one to the end.
    static let intervals: [Duration] = [
        .milliseconds(150), .milliseconds(250), .milliseconds(500), .seconds(1), .seconds(2),
    ]
    /// The number of refusals after which a port counts as closed.
    static let refusals = 2

    let network: any DatagramNetwork
    let mark: UInt32
    let clock: any Clock<Duration>

    /// The datagrams to one address.
    private struct Port {
        let endpoint: Endpoint
        /// Each reports whether its datagram was refused.
        var pending: [@Sendable () -> Bool] = []
        var refusals = 0
        /// Whether the host could send to this address.
        var isReachable = false

        mutating func send(_ network: any PortProbing, mark: UInt32) {
            guard let probe = try? network.probe(endpoint, mark: mark) else { return }
            pending.append(probe)
            isReachable = true
        }

        mutating func update() {
            let before = pending.count
            pending.removeAll { $0() }
            refusals += before - pending.count
        }
    }

    /// Returns whether the host of each address refuses datagrams to the port. Returns false if the host of one of them
    /// does not within 4 seconds, if the task is cancelled, or if the network cannot find out.
    func areClosed(_ endpoints: [Endpoint]) async -> Bool {
        guard let network = network as? any PortProbing else { return false }
        var ports = endpoints.map { Port(endpoint: $0) }
        do {
            try await clock.sleep(for: Self.delay)
            for interval in Self.intervals {
                for index in ports.indices { ports[index].send(network, mark: mark) }
                try await clock.sleep(for: interval)
                for index in ports.indices { ports[index].update() }
                let reachable = ports.filter(\.isReachable)
                if !reachable.isEmpty, reachable.allSatisfy({ $0.refusals >= Self.refusals }) { return true }
            }
        } catch {
            // The start has ended.
        }
        return false
    }
}
