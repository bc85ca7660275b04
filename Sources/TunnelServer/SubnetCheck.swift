// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelLinux

extension ClientNetwork {
    /// Finds a network that no client may get from now on: one that the host cannot route to a client, or whose addresses the host
    /// needs outside the tunnel. A client that has such a network keeps it.
    /// - Returns: The first such network, with the reason; `nil` if there is none.
    func refusal(
        among subnets: [IPPrefix], on network: LinuxNetwork
    ) throws(LinuxNetworkError) -> (subnet: IPPrefix, reason: String)? {
        let own = try network.netlink.addresses().map(\.address.address)
        let gateways = try network.netlink.defaultGateways()
        let nameServers = GivenNameServers.upstreams(
            host: try SmallFile.text(GivenNameServers.hostFile),
            resolved: try SmallFile.text(GivenNameServers.resolvedFile))
        for subnet in subnets {
            if let problem = hostProblem(of: subnet, own) { return (subnet, problem) }
            if let address = gateways.first(where: subnet.contains) {
                return (subnet, "the server's default route leads to \(address), which is in it")
            }
            if let address = nameServers.first(where: subnet.contains) {
                return (subnet, "the server's name server \(address) is in it")
            }
        }
        return nil
    }
}
