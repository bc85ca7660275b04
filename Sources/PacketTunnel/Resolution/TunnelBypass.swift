// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import TunnelIO

/// A way past a tunnel that is up, or that holds everything back, for the lookups of its server's name.
public struct TunnelBypass: Sendable {
    /// Where sockets come from.
    public var network: any DatagramNetwork
    /// The mark that their datagrams need (`ProviderContext.socketMark`).
    public var mark: UInt32
    /// The name servers of the network outside of the tunnel, the preferred one first.
    public var servers: [IPAddress]

    /// A way past a tunnel.
    public init(network: any DatagramNetwork, mark: UInt32, servers: [IPAddress]) {
        self.network = network
        self.mark = mark
        self.servers = servers
    }
}
