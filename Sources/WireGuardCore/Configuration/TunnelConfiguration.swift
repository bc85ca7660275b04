// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The contents of a wg-quick file: one interface and its peers. See `wg(8)` and `wg-quick(8)`.
public struct TunnelConfiguration: Equatable, Sendable {
    /// This side of the tunnel.
    public var interface: InterfaceConfiguration
    /// The peers, in the order of the file.
    public var peers: [PeerConfiguration]

    /// A configuration.
    public init(interface: InterfaceConfiguration = InterfaceConfiguration(), peers: [PeerConfiguration] = []) {
        self.interface = interface
        self.peers = peers
    }
}

/// The `[Interface]` section of a wg-quick file.
public struct InterfaceConfiguration: Equatable, Sendable {
    /// The private key. A file for `wg setconf` may omit it, but a tunnel does not start without it.
    public var privateKey: PrivateKey?
    /// The UDP port to listen on; with `nil` or 0 the system chooses it.
    public var listenPort: UInt16?
    /// The mark of outgoing datagrams; 0, `off` in files, removes it.
    public var fwMark: UInt32?
    /// The addresses of the interface.
    public var addresses: [InterfaceAddress] = []
    /// The name servers to use while the tunnel is up.
    public var dnsServers: [IPAddress] = []
    /// The domains that complete short names while the tunnel is up.
    public var dnsSearchDomains: [String] = []
    /// The interface's MTU in bytes; `nil` computes it from the path to the peers.
    public var mtu: UInt16?
    /// The routing table.
    public var table: RouteTable = .automatic
    /// Commands to run before the interface comes up.
    public var preUp: [String] = []
    /// Commands to run after the interface came up.
    public var postUp: [String] = []
    /// Commands to run before the interface goes down.
    public var preDown: [String] = []
    /// Commands to run after the interface went down.
    public var postDown: [String] = []
    /// Whether to write the running state to the file when the interface goes down.
    public var saveConfig = false

    /// The permitted MTUs: from the smallest datagram that every IPv4 host accepts to the largest IP packet.
    public static let mtuRange: ClosedRange<UInt16> = 576...65535

    /// An interface with nothing set.
    public init(privateKey: PrivateKey? = nil) {
        self.privateKey = privateKey
    }
}

/// The routing table of the routes to the peers: `Table` of a wg-quick file.
public enum RouteTable: Hashable, Sendable {
    /// Use the main table, and add policy rules if a peer has the default route.
    case automatic
    /// Add no routes.
    case off
    /// The table with this number.
    case number(UInt32)
    /// The table with this name in `/etc/iproute2/rt_tables`.
    case named(String)
}

/// A `[Peer]` section of a wg-quick file.
public struct PeerConfiguration: Equatable, Sendable {
    /// The public key, which identifies the peer.
    public var publicKey: PublicKey
    /// A further secret that both sides share; `nil` if there is none.
    public var presharedKey: PresharedKey?
    /// The networks of the peer, or the changes to them.
    public var allowedIPsRule: AllowedIPsRule
    /// The peer's host and port; `nil` if only the peer can initiate.
    public var endpoint: EndpointAddress?
    /// The seconds between keepalives when nothing else is sent; 0 (`off` in files) or `nil` for none.
    public var persistentKeepalive: UInt16?

    /// A peer.
    public init(
        publicKey: PublicKey, presharedKey: PresharedKey? = nil, allowedIPs: [IPPrefix] = [],
        endpoint: EndpointAddress? = nil, persistentKeepalive: UInt16? = nil
    ) {
        self.publicKey = publicKey
        self.presharedKey = presharedKey
        self.allowedIPsRule = .exactly(allowedIPs)
        self.endpoint = endpoint
        self.persistentKeepalive = persistentKeepalive
    }

    /// The networks of the peer. For a rule that changes an earlier set: the networks that it adds and does not remove
    /// again.
    public var allowedIPs: [IPPrefix] {
        get {
            switch allowedIPsRule {
            case .exactly(let prefixes): return prefixes
            case .changes(let changes):
                var prefixes: [IPPrefix] = []
                for change in changes {
                    switch change {
                    case .add(let prefix): prefixes.append(prefix)
                    case .remove(let prefix): prefixes.removeAll { $0 == prefix }
                    }
                }
                return prefixes
            }
        }
        set { allowedIPsRule = .exactly(newValue) }
    }
}

/// The meaning of a peer's `AllowedIPs`.
public enum AllowedIPsRule: Hashable, Sendable {
    /// The peer has exactly these networks.
    case exactly([IPPrefix])
    /// The peer's networks change in this way, because at least one entry of the file has the prefix `+` or `-`.
    case changes([AllowedIPChange])
}

/// One change of a peer's networks.
public enum AllowedIPChange: Hashable, Sendable {
    /// The peer gets this network, even if another peer has it.
    case add(IPPrefix)
    /// The peer loses exactly this network.
    case remove(IPPrefix)
}

// MARK: - Descriptions without secrets

extension InterfaceConfiguration: CustomStringConvertible, CustomReflectable {
    // Commands may contain passwords, so only their number is shown.
    private var summary: [(label: String?, value: Any)] {
        [
            ("privateKey", privateKey == nil ? "none" : "(private key)"),
            ("listenPort", listenPort.map { "\($0)" } ?? "any"),
            ("fwMark", fwMark.map { "\($0)" } ?? "none"),
            ("addresses", addresses.map(\.description)),
            ("dnsServers", dnsServers.map(\.description)),
            ("dnsSearchDomains", dnsSearchDomains),
            ("mtu", mtu.map { "\($0)" } ?? "automatic"),
            ("table", "\(table)"),
            ("commands", preUp.count + postUp.count + preDown.count + postDown.count),
            ("saveConfig", saveConfig),
        ]
    }

    /// The settings without the key, and the number of commands in place of their text.
    public var description: String {
        "[Interface] " + summary.map { "\($0.label ?? ""): \($0.value)" }.joined(separator: ", ")
    }

    /// Shows the contents of ``description`` to `dump` and debuggers.
    public var customMirror: Mirror { Mirror(self, children: summary, displayStyle: .struct) }
}

extension PeerConfiguration: CustomStringConvertible {
    /// The settings without the pre-shared key.
    public var description: String {
        "[Peer] publicKey: \(publicKey), presharedKey: \(presharedKey == nil ? "none" : "(preshared key)"), "
            + "allowedIPs: \(allowedIPs.map(\.description)), endpoint: \(endpoint?.description ?? "none"), "
            + "persistentKeepalive: \(persistentKeepalive.map { "\($0)" } ?? "none")"
    }
}

extension TunnelConfiguration: CustomStringConvertible {
    /// Interface and peers without their secrets. ``wgQuickText()`` is the text with them.
    public var description: String {
        ([interface.description] + peers.map(\.description)).joined(separator: "\n")
    }
}
