// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import WireGuardTunnel

/// Detects IPv6 traffic outside a tunnel for all IPv4 traffic: its file contains `0.0.0.0/0` but not `::/0`.
enum IPv6Outside {
    static let warning =
        "IPv4 uses the tunnel, but this host's IPv6 traffic leaves outside it; "
        + "fix: add ::/0 to AllowedIPs, or use --leak-policy everything"

    /// Whether all public IPv4 addresses are routed into the tunnel, but not all global IPv6 addresses.
    static func isLeft(by configuration: WireGuardTunnelConfiguration) -> Bool {
        // A user with a separate table decides about the routes.
        let hasOwnTable = configuration.routeTable.map { $0 != RoutingTableNames.main } ?? false
        guard configuration.makesRoutes, !hasOwnTable else { return false }
        let routes = configuration.settings().effectiveRoutes
        return IPPrefix.allIPv4.subtracting(routes + local).isEmpty
            && !global6.flatMap { $0.subtracting(routes) }.isEmpty
    }

    /// Whether a host with these addresses can reach IPv6.
    static func isThere(_ addresses: [IPAddress], hasDefaultRoute: Bool) -> Bool {
        hasDefaultRoute || addresses.contains { address in global6.contains { $0.contains(address) } }
    }

    /// The addresses that are routed in the internet (RFC 4291).
    private static let global6 = ["2000::/3"].compactMap { try? IPPrefix($0) }

    /// The IPv4 networks that lists of "everything but private networks" leave out.
    private static let local = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
        "224.0.0.0/3",
    ].compactMap { try? IPPrefix($0) }
}
