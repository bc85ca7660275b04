// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The networks that count as local, so that they are reached outside a tunnel whose settings allow it.
///
/// The routing table does not count. A DHCP server (option 121, RFC 3442) or a router (RFC 4861) could put half of the
/// Internet on the link, and so could the operator of a wireless network. No host on the path can turn a private network that
/// contains one of the host's addresses into a public one.
package enum LocalNetworks {
    /// Private (RFC 1918), link-local (RFC 3927, RFC 4291), shared (RFC 6598) and unique-local (RFC 4193) addresses.
    static let ranges = [
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "fe80::/10", "fc00::/7",
    ].compactMap { try? IPPrefix($0) }

    /// The least prefix length of a local network: a DHCP server cannot make it larger.
    private static func leastLength(isIPv6: Bool) -> Int { isIPv6 ? 64 : 16 }

    /// The local networks of a host with these addresses: each address's network, as far as it is in a private range, and no
    /// larger than a /16 of IPv4 or a /64 of IPv6. Sorted, each once.
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
