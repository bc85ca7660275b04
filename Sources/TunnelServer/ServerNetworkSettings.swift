// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The settings of a server's network that do not depend on its clients.
package struct ServerNetworkSettings: Hashable, Sendable {
    /// The way from the clients of a family to the internet.
    package enum Way: String, Hashable, Sendable, Codable, CaseIterable {
        /// The server's own address is the source of packets (NAT).
        case masqueraded
        /// The client's address is the source of packets: routers must know that the pool's network is behind the server.
        case routed
    }

    /// A service of the server itself.
    package struct Service: Hashable, Sendable {
        package enum Transport: String, Hashable, Sendable, Codable { case tcp, udp }
        package var transport: Transport
        package var port: UInt16

        package init(_ transport: Transport, _ port: UInt16) {
            self.transport = transport
            self.port = port
        }
    }

    /// The interface's name, from which the names of the firewall's table and the journal are made.
    package var name: String
    /// The most bytes of an IP packet in the tunnel.
    package var mtu: Int
    /// The server's own addresses in the tunnel, at most one of each family. The clients' addresses are in the same networks.
    package var addresses: [InterfaceAddress]
    /// The way of the clients' IPv4 packets to the internet.
    package var way4 = Way.masqueraded
    package var way6 = Way.masqueraded
    /// The name servers assigned to clients. Clients can reach port 53 of these servers in any network.
    package var nameServers: [IPAddress] = []
    /// The services on the server itself that clients may reach.
    package var services: [Service] = []
    /// Whether the server answers pings of its clients.
    package var answersPings = true
    /// The maximum number of flows that each source address of clients can have in the host's table of connections; 0
    /// for no limit.
    package var flowsPerSource = 4_096
    /// Networks that clients can reach even if they are protected (``ProtectedNetworks``).
    package var allowedNetworks: [IPPrefix] = []
    /// Interfaces from which and to which packets are forwarded too. In an address family in which the host forwarded
    /// nothing before, it forwards nothing else.
    package var otherInterfaces: [String] = []
    /// The interfaces of further tunnels. Their clients are behind the same firewall and have addresses in the same networks.
    /// These interfaces have no addresses; a route leads to each client.
    package var furtherTunnels: [String] = []
    /// The folder of the journal.
    package var journalFolder = "/run/culvert"

    package init(name: String, mtu: Int, addresses: [InterfaceAddress]) {
        self.name = name
        self.mtu = mtu
        self.addresses = addresses
    }

    /// The interfaces of all tunnels.
    package var tunnels: [String] { [name] + furtherTunnels }

    /// The networks of the clients.
    package var networks: [IPPrefix] { addresses.map(\.network) }

    /// The settings without IPv6, for a host with IPv4 only.
    var withoutIPv6: ServerNetworkSettings {
        var settings = self
        settings.addresses.removeAll(where: \.isIPv6)
        return settings
    }
}
