// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// A snapshot of the machine's network connection outside the tunnel.
public struct NetworkPath: Codable, Hashable, Sendable {
    /// The state of the network path.
    public enum Status: String, Codable, Hashable, Sendable, CaseIterable {
        /// Packets can be sent.
        case satisfied
        /// Packets cannot be sent.
        case unsatisfied
        /// Packets cannot be sent yet, but using the path may bring it up.
        case requiresConnection
    }

    /// The kind of an interface.
    public enum InterfaceKind: String, Codable, Hashable, Sendable, CaseIterable {
        /// Wi-Fi (IEEE 802.11).
        case wifi
        /// A mobile network.
        case cellular
        /// A wired network.
        case ethernet
        /// The loopback interface.
        case loopback
        /// Another tunnel, or an unknown kind.
        case other
    }

    /// An interface.
    public struct Interface: Codable, Hashable, Sendable {
        /// The system's name of the interface.
        public var name: String
        /// The kind.
        public var kind: InterfaceKind
        /// The system's index of the interface; 0 if it is not known.
        public var index: UInt32

        /// An interface.
        public init(name: String, kind: InterfaceKind, index: UInt32 = 0) {
            self.name = name
            self.kind = kind
            self.index = index
        }
    }

    /// The state of the path.
    public var status: Status
    /// The interfaces in use, the preferred one first.
    public var interfaces: [Interface]
    /// The name of the Wi-Fi network, if the system reports it.
    public var ssid: String?
    /// Whether IPv4 addresses can be reached.
    public var supportsIPv4: Bool
    /// Whether IPv6 addresses can be reached.
    public var supportsIPv6: Bool
    /// The name servers that the network provides.
    public var dnsServers: [IPAddress]
    /// The search domains that the network provides.
    public var dnsSearchDomains: [String]
    /// Whether traffic costs money.
    public var isExpensive: Bool
    /// Whether the user asked to save data.
    public var isConstrained: Bool
    /// The networks that can be reached in an address family without a default route, such as an isolated network or
    /// one next to another tunnel. Those with the shortest prefixes are first; a long list is cut. Empty if both
    /// families have a default route, or if the system does not list the networks.
    public var attachedNetworks: [IPPrefix]
    /// The machine's own addresses on the interfaces in use, and the routers there, sorted. If either changes, the path
    /// is a different one, even on the same interfaces. Empty if the system does not report them.
    public var endsOfWay: [IPAddress]
    /// The number of changes to another network that the host has seen and that no other property shows, such as from
    /// one Wi-Fi network to another on the same interface. It is not encoded.
    package var unnamedChanges: UInt64 = 0

    /// A path.
    public init(
        status: Status = .satisfied, interfaces: [Interface] = [], ssid: String? = nil, supportsIPv4: Bool = true,
        supportsIPv6: Bool = true, dnsServers: [IPAddress] = [], dnsSearchDomains: [String] = [],
        isExpensive: Bool = false, isConstrained: Bool = false, attachedNetworks: [IPPrefix] = [],
        endsOfWay: [IPAddress] = []
    ) {
        self.status = status
        self.interfaces = interfaces
        self.ssid = ssid
        self.supportsIPv4 = supportsIPv4
        self.supportsIPv6 = supportsIPv6
        self.dnsServers = dnsServers
        self.dnsSearchDomains = dnsSearchDomains
        self.isExpensive = isExpensive
        self.isConstrained = isConstrained
        self.attachedNetworks = attachedNetworks
        self.endsOfWay = endsOfWay
    }

    private enum CodingKeys: String, CodingKey {
        case status, interfaces, ssid, supportsIPv4, supportsIPv6, dnsServers, dnsSearchDomains, isExpensive
        case isConstrained, attachedNetworks, endsOfWay
    }

    /// Decodes; members of later versions may be missing.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            status: try values.decode(Status.self, forKey: .status),
            interfaces: try values.decode([Interface].self, forKey: .interfaces),
            ssid: try values.decodeIfPresent(String.self, forKey: .ssid),
            supportsIPv4: try values.decode(Bool.self, forKey: .supportsIPv4),
            supportsIPv6: try values.decode(Bool.self, forKey: .supportsIPv6),
            dnsServers: try values.decode([IPAddress].self, forKey: .dnsServers),
            dnsSearchDomains: try values.decode([String].self, forKey: .dnsSearchDomains),
            isExpensive: try values.decode(Bool.self, forKey: .isExpensive),
            isConstrained: try values.decode(Bool.self, forKey: .isConstrained),
            attachedNetworks: try values.decodeIfPresent([IPPrefix].self, forKey: .attachedNetworks) ?? [],
            endsOfWay: try values.decodeIfPresent([IPAddress].self, forKey: .endsOfWay) ?? [])
    }

    /// No network.
    public static let unsatisfied = NetworkPath(status: .unsatisfied, supportsIPv4: false, supportsIPv6: false)

    /// The kind of the preferred interface, or `nil` if there is none.
    public var primaryKind: InterfaceKind? { interfaces.first?.kind }

    /// Whether no address can be reached.
    public var isCutOff: Bool { status == .unsatisfied && attachedNetworks.isEmpty }

    /// Whether one of these addresses may be reachable: through a default route, or in an attached network.
    public func mayReach(_ addresses: some Sequence<IPAddress>) -> Bool {
        status != .unsatisfied
            || addresses.contains { address in attachedNetworks.contains { $0.contains(address) } }
    }

    /// Whether a host may be reachable. A host name counts as reachable while there is any network, because its address
    /// is not known.
    package func mayReach(host: String) -> Bool {
        guard let address = try? IPAddress(host) else { return !isCutOff }
        return mayReach([address])
    }
}

extension NetworkPath {
    /// Whether packets use the same interfaces, network, families, addresses and routers as on `other`.
    package func isSameWay(as other: NetworkPath) -> Bool {
        interfaces == other.interfaces && ssid == other.ssid && supportsIPv4 == other.supportsIPv4
            && supportsIPv6 == other.supportsIPv6 && endsOfWay == other.endsOfWay
            && unnamedChanges == other.unnamedChanges
            // With a default route the attached networks do not matter.
            && (status != .unsatisfied || attachedNetworks == other.attachedNetworks)
    }
}
