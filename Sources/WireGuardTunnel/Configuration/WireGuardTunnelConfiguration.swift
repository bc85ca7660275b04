// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel

/// What the WireGuard provider needs to know, without secrets: keys are named, and kept in the profile's secret store.
///
/// In JSON, whatever has a default may be left out. ``validate()`` says everything that is wrong with it at once.
public struct WireGuardTunnelConfiguration: Hashable, Sendable {
    /// The other side.
    public struct Peer: Hashable, Sendable {
        /// The key that names the peer: 44 characters of base64.
        public var publicKey: String
        /// The name of the secret that holds the pre-shared key; nil when there is none.
        public var presharedKeyName: String?
        /// Where the peer is, as `host:port`, `1.2.3.4:port` or `[v6]:port`; nil when only it can begin.
        public var endpoint: String?
        /// The networks behind the peer.
        public var allowedIPs: [IPPrefix]
        /// Seconds between keepalives when nothing else is sent; 0 is never.
        public var persistentKeepalive: UInt16

        /// A peer.
        public init(
            publicKey: String, presharedKeyName: String? = nil, endpoint: String? = nil,
            allowedIPs: [IPPrefix] = [], persistentKeepalive: UInt16 = 0
        ) {
            self.publicKey = publicKey
            self.presharedKeyName = presharedKeyName
            self.endpoint = endpoint
            self.allowedIPs = allowedIPs
            self.persistentKeepalive = persistentKeepalive
        }
    }

    /// The name of the secret that holds the private key.
    public var privateKeyName: String
    /// Whether there is no such secret: the private key comes by the management socket once the tunnel's interface is there, as
    /// from `PostUp = wg set %i private-key FILE`. Only hosts that serve that socket can start it.
    package var privateKeyComesLater = false
    /// The interface's addresses.
    public var addresses: [InterfaceAddress]
    /// Who answers name lookups, and which; nil leaves the system's servers.
    public var dns: DNSSettings?
    /// The most bytes of one IP packet in the tunnel; nil leaves it to the path.
    public var mtu: Int?
    /// The UDP port to listen on; nil or 0 lets the system choose.
    public var listenPort: UInt16?
    /// The mark on outgoing datagrams, where the system knows marks; nil or 0 is none.
    public var fwMark: UInt32?
    /// Networks that are not reached through the tunnel, although a peer's allowed IPs hold them.
    public var excludedRoutes: [IPPrefix]
    /// Whether allowed IPs become routes; off for `Table = off`.
    public var makesRoutes: Bool
    /// The routing table that allowed IPs become routes in, without policy rules, for `Table = N`; nil for the host's choice.
    ///
    /// It is for who makes the host: see `routeTable` of `LinuxHostOptions`. The provider itself has no use for it, and allowed
    /// IPs are routes like any others on a host that was not told of it: say so to the user there, or refuse the configuration.
    public var routeTable: UInt32?
    /// Whether networks that are attached directly are reached directly.
    public var allowsLocalNetwork: Bool
    /// What may leave outside of the tunnel.
    public var leakPolicy: LeakPolicy
    /// Networks that are reached beside the tunnel, whatever allowed IPs and leak policy say.
    public var allowedNetworks: [IPPrefix]
    /// The other sides.
    public var peers: [Peer]
    /// How the provider notices that nothing comes through any more, and what it does about it.
    public var connectivity: ConnectivityOptions
    /// How long names may take to resolve, in seconds.
    public var resolutionTimeout: Double
    /// How long the first handshake may take, in seconds.
    public var handshakeTimeout: Double
    /// Whether a start waits for proof that the tunnel works: a handshake within ``handshakeTimeout``. Without, the tunnel is up
    /// as soon as its settings are in force, `reasserting` until there is proof, and goes on trying, also where there is no
    /// network yet and where names have no address yet.
    public var waitsForHandshake: Bool

    /// A configuration.
    public init(
        privateKeyName: String = defaultPrivateKeyName, addresses: [InterfaceAddress], dns: DNSSettings? = nil,
        mtu: Int? = nil, listenPort: UInt16? = nil, fwMark: UInt32? = nil, excludedRoutes: [IPPrefix] = [],
        makesRoutes: Bool = true, routeTable: UInt32? = nil, allowsLocalNetwork: Bool = false,
        leakPolicy: LeakPolicy = .routeBased,
        peers: [Peer], connectivity: ConnectivityOptions = ConnectivityOptions(), resolutionTimeout: Double = 10,
        handshakeTimeout: Double = 30, allowedNetworks: [IPPrefix] = [], waitsForHandshake: Bool = true
    ) {
        self.privateKeyName = privateKeyName
        self.addresses = addresses
        self.dns = dns
        self.mtu = mtu
        self.listenPort = listenPort
        self.fwMark = fwMark
        self.excludedRoutes = excludedRoutes
        self.makesRoutes = makesRoutes
        self.routeTable = routeTable
        self.allowsLocalNetwork = allowsLocalNetwork
        self.leakPolicy = leakPolicy
        self.allowedNetworks = allowedNetworks
        self.peers = peers
        self.connectivity = connectivity
        self.resolutionTimeout = resolutionTimeout
        self.handshakeTimeout = handshakeTimeout
        self.waitsForHandshake = waitsForHandshake
    }

    /// The name that the private key's secret has unless stated.
    public static let defaultPrivateKeyName = "private-key"
}

extension WireGuardTunnelConfiguration: Codable {
    private enum CodingKeys: String, CodingKey {
        case privateKeyName, addresses, dns, mtu, listenPort, fwMark, excludedRoutes, makesRoutes, routeTable
        case allowsLocalNetwork, leakPolicy, allowedNetworks, peers, connectivity, resolutionTimeout, handshakeTimeout
        case waitsForHandshake, privateKeyComesLater
    }

    /// Decodes; what is left out has its default.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            addresses: try container.decode([InterfaceAddress].self, forKey: .addresses),
            dns: try container.decodeIfPresent(DNSSettings.self, forKey: .dns),
            mtu: try container.decodeIfPresent(Int.self, forKey: .mtu),
            listenPort: try container.decodeIfPresent(UInt16.self, forKey: .listenPort),
            fwMark: try container.decodeIfPresent(UInt32.self, forKey: .fwMark),
            peers: try container.decode([Peer].self, forKey: .peers))
        func take<Value: Decodable>(_ key: CodingKeys, into value: inout Value) throws {
            if let given = try container.decodeIfPresent(Value.self, forKey: key) { value = given }
        }
        try take(.privateKeyName, into: &privateKeyName)
        try take(.excludedRoutes, into: &excludedRoutes)
        try take(.makesRoutes, into: &makesRoutes)
        routeTable = try container.decodeIfPresent(UInt32.self, forKey: .routeTable)
        try take(.allowsLocalNetwork, into: &allowsLocalNetwork)
        try take(.leakPolicy, into: &leakPolicy)
        try take(.allowedNetworks, into: &allowedNetworks)
        try take(.connectivity, into: &connectivity)
        try take(.resolutionTimeout, into: &resolutionTimeout)
        try take(.handshakeTimeout, into: &handshakeTimeout)
        try take(.waitsForHandshake, into: &waitsForHandshake)
        try take(.privateKeyComesLater, into: &privateKeyComesLater)
    }
}

extension WireGuardTunnelConfiguration.Peer: Codable {
    private enum CodingKeys: String, CodingKey {
        case publicKey, presharedKeyName, endpoint, allowedIPs, persistentKeepalive
    }

    /// Decodes; what is left out has its default.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            publicKey: try container.decode(String.self, forKey: .publicKey),
            presharedKeyName: try container.decodeIfPresent(String.self, forKey: .presharedKeyName),
            endpoint: try container.decodeIfPresent(String.self, forKey: .endpoint),
            allowedIPs: try container.decodeIfPresent([IPPrefix].self, forKey: .allowedIPs) ?? [],
            persistentKeepalive: try container.decodeIfPresent(UInt16.self, forKey: .persistentKeepalive) ?? 0)
    }
}
