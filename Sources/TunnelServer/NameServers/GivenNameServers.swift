// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnelLinux

/// The name servers that clients are given.
package enum GivenNameServers {
    /// The files with the name servers that a host uses, and with those that its own resolver asks.
    package static let hostFile = "/etc/resolv.conf"
    package static let resolvedFile = "/run/systemd/resolve/resolv.conf"

    /// Replaces the host's loopback resolver with its upstream servers, since a client would reach its own loopback address.
    /// - Parameters:
    ///   - host: the text of ``hostFile``, if it exists.
    ///   - resolved: the text of ``resolvedFile``, if it exists.
    /// - Returns: each server once. Empty if the upstream servers are unknown and no other server was given.
    package static func reachable(_ servers: [IPAddress], host: String?, resolved: String?) -> [IPAddress] {
        var given: [IPAddress] = []
        for server in servers {
            for address in isNearby(server) ? upstreams(host: host, resolved: resolved) : [server]
            where !given.contains(address) { given.append(address) }
        }
        return given
    }

    /// Replaces the loopback resolver in a list of name servers, from this host's own files.
    package static func reachable(_ servers: [IPAddress]) throws(LinuxNetworkError) -> [IPAddress] {
        reachable(servers, host: try SmallFile.text(hostFile), resolved: try SmallFile.text(resolvedFile))
    }

    /// The host's name servers that other hosts can reach: those in its own file, or, if these are a resolver on the host
    /// itself, the servers that systemd-resolved uses.
    package static func upstreams(host: String?, resolved: String?) -> [IPAddress] {
        let own = servers(in: host)
        return own.isEmpty ? servers(in: resolved) : own
    }

    private static func servers(in text: String?) -> [IPAddress] {
        // A server with a zone is on the host's own link, which no client can reach.
        ResolvConf.servers(in: text ?? "").compactMap { try? IPAddress($0) }.filter { !isNearby($0) }
    }

    /// Whether clients cannot reach this server: its address belongs to the host itself or to its link, or is
    /// multicast.
    private static func isNearby(_ address: IPAddress) -> Bool {
        address.isLoopback || address.isUnspecified || address.isLinkLocal || address.isMulticast
    }
}
