// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The addresses that a gateway or server must not give to a device.
enum LocalAddresses {
    /// The metadata services of clouds, each with its network. A route within that network that contains the service is
    /// refused.
    private static let metadata: [(service: IPAddress, network: IPPrefix)] = [
        (.v4(169, 254, 169, 254), IPPrefix(.v4(169, 254, 0, 0), length: 16)),
        (.v6(0xfd00_0ec2_0000_0000, 0x254), IPPrefix(.v6(0xfd00_0ec2_0000_0000, 0), length: 32)),
    ].compactMap { service, network in network.map { (service, $0) } }

    private static let networks: [(network: IPPrefix, kind: String)] = [
        (IPPrefix(.v4(127, 0, 0, 0), length: 8), loopback), (IPPrefix(host: .v6(0, 1)), loopback),
        (IPPrefix(.v4(224, 0, 0, 0), length: 4), multicast),
        (IPPrefix(.v6(0xff00_0000_0000_0000, 0), length: 8), multicast),
        (IPPrefix(host: .v4(0)), unspecified), (IPPrefix(host: .v6(0, 0)), unspecified),
        (IPPrefix(host: .v4(255, 255, 255, 255)), "the broadcast address"),
    ].compactMap { network, kind in network.map { ($0, kind) } }

    private static let loopback = "a loopback address"
    private static let multicast = "a multicast address"
    private static let unspecified = "the unspecified address"
    private static let metadataService = "the metadata service of a cloud"

    /// The kind of a route that no device may have; `nil` for any other route.
    static func kind(of route: IPPrefix) -> String? {
        // A larger network, such as 0.0.0.0/0, is permitted even though it contains such addresses.
        if let found = networks.first(where: { $0.network.contains(route) }) { return found.kind }
        return metadata.contains { $0.network.contains(route) && route.contains($0.service) } ? metadataService : nil
    }

    /// The kind of an address that no device may have; `nil` for any other address.
    static func kind(of address: IPAddress) -> String? { kind(of: IPPrefix(host: address.unmapped)) }

    /// The IP address of a host, without a zone; `nil` for a name.
    static func address(_ host: String) -> IPAddress? { try? IPAddress(host.prefix { $0 != "%" }) }

    /// Whether a host is a loopback address, or a name that always resolves to one (RFC 6761 section 6.3).
    static func isLoopback(_ host: String) -> Bool {
        if let address = address(host) { return address.unmapped.isLoopback }
        let labels = host.lowercased().split(separator: ".")
        return labels.last == "localhost"
    }
}
