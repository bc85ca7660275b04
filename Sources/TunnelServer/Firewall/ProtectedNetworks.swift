// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses

/// The networks that a server's clients must not reach: everything outside the public internet, and the addresses that serve
/// a cloud machine's credentials.
package enum ProtectedNetworks {
    /// IPv4 (RFC 6890; the last one is Azure's metadata service, the others' are link-local or shared addresses).
    package static let ipv4 = prefixes([
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
    ])
    /// The global unicast addresses of IPv6 (RFC 4291 section 2.4). The other addresses include unique local addresses
    /// (among them that of a metadata service), link-local addresses, and addresses that contain an IPv4 address.
    package static let globalIPv6 = IPPrefix.globalUnicast
    /// The protected networks whose addresses contain an IPv4 address that no router checks: Teredo and 6to4.
    package static let ipv6 = prefixes(["2001::/32", "2002::/16"])

    private static func prefixes(_ texts: [String]) -> [IPPrefix] { texts.compactMap { try? IPPrefix($0) } }
}

extension IPPrefix {
    /// 2000::/3
    fileprivate static let globalUnicast = IPPrefix(.v6(0x2000_0000_0000_0000, 0), length: 3) ?? .allIPv6
}
