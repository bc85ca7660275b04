// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnelLinux

/// The name servers that clients are given.
package enum GivenNameServers {
    /// The files in which a host says which name servers it uses, and which ones its own resolver asks.
    package static let hostFile = "/etc/resolv.conf"
    package static let resolvedFile = "/run/systemd/resolve/resolv.conf"

    /// The servers, with the upstreams of the host's own resolver in place of its loopback address, at which a client would ask
    /// itself.
    /// - Parameters:
    ///   - host: the text of ``hostFile``, where there is one.
    ///   - resolved: the text of ``resolvedFile``, where there is one.
    /// - Returns: each server once. Empty where nothing is known of the upstreams and no other server was named.
    package static func reachable(_ servers: [IPAddress], host: String?, resolved: String?) -> [IPAddress] {
        var given: [IPAddress] = []
        for server in servers {
            for address in isNearby(server) ? upstreams(host: host, resolved: resolved) : [server]
            where !given.contains(address) { given.append(address) }
        }
        return given
    }

    /// The same with the files of this host.
    package static func reachable(_ servers: [IPAddress]) throws(LinuxNetworkError) -> [IPAddress] {
        reachable(servers, host: try SmallFile.text(hostFile), resolved: try SmallFile.text(resolvedFile))
    }

    /// The name servers of the host that others can ask: those of its own file, or, where these are a resolver on the host itself,
    /// the ones that systemd-resolved asks.
    package static func upstreams(host: String?, resolved: String?) -> [IPAddress] {
        let own = servers(in: host)
        return own.isEmpty ? servers(in: resolved) : own
    }

    private static func servers(in text: String?) -> [IPAddress] {
        // One with a zone is on the host's own link, where no client is.
        ResolvConf.servers(in: text ?? "").compactMap { try? IPAddress($0) }.filter { !isNearby($0) }
    }

    /// Whether only the host itself can ask it.
    private static func isNearby(_ address: IPAddress) -> Bool {
        address.isLoopback || address.isUnspecified || address.isLinkLocal || address.isMulticast
    }
}
