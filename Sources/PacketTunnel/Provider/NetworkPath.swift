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

    /// A path.
    public init(
        status: Status = .satisfied, interfaces: [Interface] = [], ssid: String? = nil, supportsIPv4: Bool = true,
        supportsIPv6: Bool = true, dnsServers: [IPAddress] = [], dnsSearchDomains: [String] = [],
        isExpensive: Bool = false, isConstrained: Bool = false
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
    }

    /// No network.
    public static let unsatisfied = NetworkPath(status: .unsatisfied, supportsIPv4: false, supportsIPv6: false)

    /// What the preferred interface is; nil without one.
    public var primaryKind: InterfaceKind? { interfaces.first?.kind }
}

extension NetworkPath {
    /// Whether packets leave over the same interfaces, network and families as on `other`.
    package func isSameWay(as other: NetworkPath) -> Bool {
        interfaces == other.interfaces && ssid == other.ssid && supportsIPv4 == other.supportsIPv4
            && supportsIPv6 == other.supportsIPv6
    }
}
