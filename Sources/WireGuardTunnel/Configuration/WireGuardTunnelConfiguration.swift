// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
public import WireGuardCore

/// The configuration of a WireGuard tunnel: interface, peers, and tunnel options. Its JSON names the secrets of the profile's
/// secret store, and never contains a key.
///
/// In JSON, members with a default may be omitted. ``validate()`` returns all problems of a configuration.
public struct WireGuardTunnelConfiguration: Hashable, Sendable {
    /// A peer of ``tunnel``.
    public typealias Peer = PeerConfiguration

    /// Interface and peers. A start reads their keys from the secrets that this configuration names, and ignores commands.
    public var tunnel: TunnelConfiguration
    /// The name of the secret that holds the private key.
    public var privateKeyName: String
    /// The names of the secrets that hold the pre-shared keys of peers.
    public var presharedKeyNames: [PublicKey: String]
    /// Whether the private key is not a stored secret, but is set through the management socket after the interface
    /// exists, as with `PostUp = wg set %i private-key FILE`. Only hosts that serve that socket can start such a
    /// configuration.
    package var privateKeyComesLater = false
    /// Split DNS: the name servers resolve only names in these domains, or every name if the list is empty.
    public var dnsMatchDomains: [String] = []
    /// Whether ``dnsMatchDomains`` are search domains as well.
    public var searchesDNSMatchDomains = false
    /// Networks that are not reached through the tunnel, although a peer's allowed IPs contain them.
    public var excludedRoutes: [IPPrefix]
    /// Whether directly attached networks are reached outside the tunnel.
    public var allowsLocalNetwork: Bool
    /// The policy for traffic that could bypass the tunnel.
    public var leakPolicy: LeakPolicy
    /// Networks that are reached outside the tunnel, regardless of allowed IPs and leak policy.
    public var allowedNetworks: [IPPrefix]
    /// Options for detecting that no data arrives through the tunnel, and for the response.
    public var connectivity: ConnectivityOptions
    /// The time limit for resolving names, in seconds.
    public var resolutionTimeout: Double
    /// The time limit for the first handshake, in seconds.
    public var handshakeTimeout: Double
    /// Whether a start waits for proof that the tunnel works: a handshake within ``handshakeTimeout``. If `false`, the tunnel
    /// is up as soon as its settings are applied, stays `reasserting` until a handshake completes, and keeps trying, even
    /// without a network or before names resolve.
    public var waitsForHandshake: Bool

    /// An ``mtu`` that ``tunnel`` cannot contain, so that ``validate()`` reports this number.
    private var invalidMTU: Int?
    /// Whether ``dns`` has no server and no domain, which ``validate()`` reports, and is not `nil`.
    private var hasEmptyDNS = false

    /// Makes a configuration.
    public init(
        privateKeyName: String = defaultPrivateKeyName, addresses: [InterfaceAddress], dns: DNSSettings? = nil,
        mtu: Int? = nil, listenPort: UInt16? = nil, fwMark: UInt32? = nil, excludedRoutes: [IPPrefix] = [],
        makesRoutes: Bool = true, routeTable: UInt32? = nil, allowsLocalNetwork: Bool = false,
        leakPolicy: LeakPolicy = .routeBased,
        peers: [PeerConfiguration], presharedKeyNames: [PublicKey: String] = [:],
        connectivity: ConnectivityOptions = ConnectivityOptions(), resolutionTimeout: Double = 10,
        handshakeTimeout: Double = 30, allowedNetworks: [IPPrefix] = [], waitsForHandshake: Bool = true
    ) {
        tunnel = TunnelConfiguration(peers: peers)
        self.privateKeyName = privateKeyName
        self.presharedKeyNames = presharedKeyNames
        self.excludedRoutes = excludedRoutes
        self.allowsLocalNetwork = allowsLocalNetwork
        self.leakPolicy = leakPolicy
        self.allowedNetworks = allowedNetworks
        self.connectivity = connectivity
        self.resolutionTimeout = resolutionTimeout
        self.handshakeTimeout = handshakeTimeout
        self.waitsForHandshake = waitsForHandshake
        tunnel.interface.addresses = addresses
        tunnel.interface.listenPort = listenPort
        tunnel.interface.fwMark = fwMark
        tunnel.interface.table = makesRoutes ? routeTable.map { .number($0) } ?? .automatic : .off
        self.mtu = mtu
        self.dns = dns
    }

    /// The default name of the private key's secret.
    public static let defaultPrivateKeyName = "private-key"

    /// Feeds the addresses and the number of peers to a hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(addresses)
        hasher.combine(peers.count)
    }
}

// MARK: - Parts of the interface

extension WireGuardTunnelConfiguration {
    /// The peers of ``tunnel``.
    public var peers: [PeerConfiguration] {
        get { tunnel.peers }
        set { tunnel.peers = newValue }
    }

    /// The interface's addresses.
    public var addresses: [InterfaceAddress] {
        get { tunnel.interface.addresses }
        set { tunnel.interface.addresses = newValue }
    }

    /// The UDP port to listen on; if `nil` or 0, the system chooses.
    public var listenPort: UInt16? {
        get { tunnel.interface.listenPort }
        set { tunnel.interface.listenPort = newValue }
    }

    /// The mark on outgoing datagrams, on systems that have marks; if `nil` or 0, no mark is set.
    public var fwMark: UInt32? {
        get { tunnel.interface.fwMark }
        set { tunnel.interface.fwMark = newValue }
    }

    /// The maximum size of an IP packet in the tunnel, in bytes; if `nil`, it follows from the path. ``validate()``
    /// reports a value that no interface can have.
    public var mtu: Int? {
        get { tunnel.interface.mtu.map { $0 == 0 ? invalidMTU ?? 0 : Int($0) } }
        set {
            tunnel.interface.mtu = newValue.map { UInt16(exactly: $0) ?? 0 }
            invalidMTU = newValue.flatMap { UInt16(exactly: $0) == nil ? $0 : nil }
        }
    }

    /// The name servers and their domains; if `nil`, the system's servers stay in use.
    public var dns: DNSSettings? {
        get {
            let dns = DNSSettings(
                servers: tunnel.interface.dnsServers, searchDomains: tunnel.interface.dnsSearchDomains,
                matchDomains: dnsMatchDomains, searchesMatchDomains: searchesDNSMatchDomains)
            return dns == DNSSettings(servers: []) && !hasEmptyDNS ? nil : dns
        }
        set {
            let dns = newValue ?? DNSSettings(servers: [])
            hasEmptyDNS = newValue == DNSSettings(servers: [])
            (tunnel.interface.dnsServers, tunnel.interface.dnsSearchDomains) = (dns.servers, dns.searchDomains)
            (dnsMatchDomains, searchesDNSMatchDomains) = (dns.matchDomains, dns.searchesMatchDomains)
        }
    }

    /// Whether allowed IPs become routes; false for `Table = off`.
    public var makesRoutes: Bool {
        get { tunnel.interface.table != .off }
        set { if newValue != makesRoutes { tunnel.interface.table = newValue ? .automatic : .off } }
    }

    /// The routing table for the routes of allowed IPs, without policy rules, for `Table = N`; if `nil`, the host chooses.
    ///
    /// The host applies it: see `routeTable` of `LinuxHostOptions`. The provider does not. On a host without such an option
    /// allowed IPs become ordinary routes: warn the user, or refuse the configuration.
    public var routeTable: UInt32? {
        get { if case .number(let table) = tunnel.interface.table { table } else { nil } }
        set {
            if let newValue { tunnel.interface.table = .number(newValue) }
            if newValue == nil, routeTable != nil { tunnel.interface.table = .automatic }
        }
    }
}
