// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The machine's way to the network, outside of the tunnel, at one moment.
public struct NetworkPath: Codable, Hashable, Sendable {
    /// The state of the network path.
    public enum Status: String, Codable, Hashable, Sendable, CaseIterable {
        /// Yes.
        case satisfied
        /// No.
        case unsatisfied
        /// Not yet, but using it may bring it up.
        case requiresConnection
    }

    /// The kind of an interface.
    public enum InterfaceKind: String, Codable, Hashable, Sendable, CaseIterable {
        /// IEEE 802.11.
        case wifi
        /// A mobile network.
        case cellular
        /// A cable.
        case ethernet
        /// The machine itself.
        case loopback
        /// Another tunnel, or an unknown kind.
        case other
    }

    /// An interface.
    public struct Interface: Codable, Hashable, Sendable {
        /// The system's name for it.
        public var name: String
        /// The kind.
        public var kind: InterfaceKind
        /// The system's number; zero if unknown.
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
    /// The name of the Wi-Fi network, where the system tells.
    public var ssid: String?
    /// Whether there is a way to IPv4 addresses.
    public var supportsIPv4: Bool
    /// Whether there is a way to IPv6 addresses.
    public var supportsIPv6: Bool
    /// The servers that the network gave for name lookups.
    public var dnsServers: [IPAddress]
    /// The domains that the network gave to complete names.
    public var dnsSearchDomains: [String]
    /// Whether traffic costs money.
    public var isExpensive: Bool
    /// Whether the user asked to save data.
    public var isConstrained: Bool
    /// The networks that can be reached in a family without a default route, those with the shortest prefixes first: on an
    /// isolated network, or next to another tunnel. If they are many, not all of them. Empty if both families have a default
    /// route, or the system does not list the networks.
    public var attachedNetworks: [IPPrefix]
    /// The machine's own addresses on the interfaces in use, and the routers there, sorted: a change of either is another
    /// path, though the interfaces are the same. Empty if the system does not report them.
    public var endsOfWay: [IPAddress]
    /// The number of changes to another network that the host has seen, where nothing else in the path differs: one Wi-Fi
    /// network after another on the same interface. It is not encoded.
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

    /// Whether there is no way to anything.
    public var isCutOff: Bool { status == .unsatisfied && attachedNetworks.isEmpty }

    /// Whether there may be a way to one of these addresses: to everywhere, or to a network that has one of them.
    public func mayReach(_ addresses: some Sequence<IPAddress>) -> Bool {
        status != .unsatisfied
            || addresses.contains { address in attachedNetworks.contains { $0.contains(address) } }
    }

    /// Whether a host may be reachable: the address of a name is unknown.
    package func mayReach(host: String) -> Bool {
        guard let address = try? IPAddress(host) else { return !isCutOff }
        return mayReach([address])
    }
}

extension NetworkPath {
    /// Whether packets leave over the same interfaces, network, families, addresses and routers as on `other`.
    package func isSameWay(as other: NetworkPath) -> Bool {
        interfaces == other.interfaces && ssid == other.ssid && supportsIPv4 == other.supportsIPv4
            && supportsIPv6 == other.supportsIPv6 && endsOfWay == other.endsOfWay
            && unnamedChanges == other.unnamedChanges
            // With a default route they are not the way.
            && (status != .unsatisfied || attachedNetworks == other.attachedNetworks)
    }
}
