// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The networks that count as local. They are reached outside the tunnel if its settings allow the local network.
///
/// The routing table does not decide this, because a DHCP server (option 121, RFC 3442), a router (RFC 4861) or the
/// operator of a wireless network could declare half of the Internet as on-link. None of them can turn a private
/// network that contains one of the host's addresses into a public one.
package enum LocalNetworks {
    /// Private (RFC 1918), link-local (RFC 3927, RFC 4291), shared (RFC 6598) and unique-local (RFC 4193) addresses.
    static let ranges = [
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "fe80::/10", "fc00::/7",
    ].compactMap { try? IPPrefix($0) }

    /// The minimum prefix length of a local network, so that a DHCP server cannot declare a larger one.
    private static func leastLength(isIPv6: Bool) -> Int { isIPv6 ? 64 : 16 }

    /// Returns the local networks of a host with these addresses, sorted and without duplicates: for each address its
    /// network, limited to the private range and to a /16 (IPv4) or /64 (IPv6).
    package static func of(_ addresses: [InterfaceAddress]) -> [IPPrefix] {
        let networks = addresses.compactMap { address -> IPPrefix? in
            let length = max(address.prefixLength, leastLength(isIPv6: address.isIPv6))
            guard let network = IPPrefix(address.address, length: length),
                ranges.contains(where: { $0.contains(network) })
            else { return nil }
            return network
        }
        return Set(networks).sorted { $0.description < $1.description }
    }
}
