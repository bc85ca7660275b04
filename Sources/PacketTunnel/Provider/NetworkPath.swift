// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The machine's way to the network, outside of the tunnel, at one moment.
public struct NetworkPath: Codable, Hashable, Sendable {
    /// Whether packets can be sent.
    public enum Status: String, Codable, Hashable, Sendable, CaseIterable {
        /// Yes.
        case satisfied
        /// No.
        case unsatisfied
        /// Not yet, but using it may bring it up.
        case requiresConnection
    }

    /// What an interface is.
    public enum InterfaceKind: String, Codable, Hashable, Sendable, CaseIterable {
        /// IEEE 802.11.
        case wifi
        /// A mobile network.
        case cellular
        /// A cable.
        case ethernet
        /// The machine itself.
        case loopback
        /// Another tunnel, or what is not known.
        case other
    }

    /// An interface.
    public struct Interface: Codable, Hashable, Sendable {
        /// The system's name for it.
        public var name: String
        /// What it is.
        public var kind: InterfaceKind
        /// The system's number for it; zero where that is not known.
        public var index: UInt32

        /// An interface.
        public init(name: String, kind: InterfaceKind, index: UInt32 = 0) {
            self.name = name
            self.kind = kind
            self.index = index
        }
    }

    /// Whether packets can be sent.
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
    /// The networks that can be reached in a family without a default route, those with the shortest prefixes first: on a network
    /// that leads nowhere else, or beside another tunnel. When they are many, not all of them. Empty if both families have a default
    /// route, or the system does not list the networks.
    public var attachedNetworks: [IPPrefix]
    /// The machine's own addresses on the interfaces in use, and the routers there, sorted: another one of either is another
    /// way, though the interfaces are the same. None where the system does not tell.
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

    /// Decodes; what was added later may be left out.
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

    /// What the preferred interface is; nil without one.
    public var primaryKind: InterfaceKind? { interfaces.first?.kind }

    /// Whether there is no way to anything.
    public var isCutOff: Bool { status == .unsatisfied && attachedNetworks.isEmpty }

    /// Whether there may be a way to one of these addresses: to everywhere, or to a network that has one of them.
    public func mayReach(_ addresses: some Sequence<IPAddress>) -> Bool {
        status != .unsatisfied
            || addresses.contains { address in attachedNetworks.contains { $0.contains(address) } }
    }

    /// Whether there may be a way to a host: one that is known by name may be anywhere.
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
