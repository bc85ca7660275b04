// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import TunnelSystem
public import WireGuardCore

extension WireGuardTunnelConfiguration: Codable {
    private enum CodingKeys: String, CodingKey {
        case privateKeyName, addresses, dns, mtu, listenPort, fwMark, excludedRoutes, makesRoutes, routeTable
        case allowsLocalNetwork, leakPolicy, allowedNetworks, peers, connectivity, resolutionTimeout, handshakeTimeout
        case waitsForHandshake, privateKeyComesLater
    }

    /// Decodes; a member that is left out has its default.
    /// - Throws: `TunnelError` with `.configurationInvalid` and all problems if the key or the endpoint of a peer is malformed.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let texts = try container.decode([PeerText].self, forKey: .peers)
        let parsed = texts.enumerated().map { index, text in text.parsed(at: "peers[\(index)].") }
        self.init(
            addresses: try container.decode([InterfaceAddress].self, forKey: .addresses),
            dns: try container.decodeIfPresent(DNSSettings.self, forKey: .dns),
            mtu: try container.decodeIfPresent(Int.self, forKey: .mtu),
            listenPort: try container.decodeIfPresent(UInt16.self, forKey: .listenPort),
            fwMark: try container.decodeIfPresent(UInt32.self, forKey: .fwMark),
            makesRoutes: try container.decodeIfPresent(Bool.self, forKey: .makesRoutes) ?? true,
            routeTable: try container.decodeIfPresent(UInt32.self, forKey: .routeTable),
            peers: parsed.map(\.peer))
        for (text, parsed) in zip(texts, parsed) {
            presharedKeyNames[parsed.peer.publicKey] = text.presharedKeyName
        }
        try container.take(.privateKeyName, &privateKeyName)
        try container.take(.excludedRoutes, &excludedRoutes)
        try container.take(.allowsLocalNetwork, &allowsLocalNetwork)
        try container.take(.leakPolicy, &leakPolicy)
        try container.take(.allowedNetworks, &allowedNetworks)
        try container.take(.connectivity, &connectivity)
        try container.take(.resolutionTimeout, &resolutionTimeout)
        try container.take(.handshakeTimeout, &handshakeTimeout)
        try container.take(.waitsForHandshake, &waitsForHandshake)
        try container.take(.privateKeyComesLater, &privateKeyComesLater)
        let malformed = parsed.flatMap(\.problems)
        guard malformed.isEmpty else {
            let fields = Set(malformed.map(\.field))
            throw Self.invalid(malformed + validate().filter { !fields.contains($0.field) })
        }
    }

    /// Encodes everything but the keys.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(privateKeyName, forKey: .privateKeyName)
        try container.encode(addresses, forKey: .addresses)
        try container.encodeIfPresent(dns, forKey: .dns)
        try container.encodeIfPresent(mtu, forKey: .mtu)
        try container.encodeIfPresent(listenPort, forKey: .listenPort)
        try container.encodeIfPresent(fwMark, forKey: .fwMark)
        try container.encode(excludedRoutes, forKey: .excludedRoutes)
        try container.encode(makesRoutes, forKey: .makesRoutes)
        try container.encodeIfPresent(routeTable, forKey: .routeTable)
        try container.encode(allowsLocalNetwork, forKey: .allowsLocalNetwork)
        try container.encode(leakPolicy, forKey: .leakPolicy)
        try container.encode(allowedNetworks, forKey: .allowedNetworks)
        let texts = peers.map { PeerText($0, presharedKeyName: presharedKeyNames[$0.publicKey]) }
        try container.encode(texts, forKey: .peers)
        try container.encode(connectivity, forKey: .connectivity)
        try container.encode(resolutionTimeout, forKey: .resolutionTimeout)
        try container.encode(handshakeTimeout, forKey: .handshakeTimeout)
        try container.encode(waitsForHandshake, forKey: .waitsForHandshake)
        try container.encode(privateKeyComesLater, forKey: .privateKeyComesLater)
    }
}

extension PeerConfiguration {
    /// A peer from texts.
    /// - Parameters:
    ///   - publicKey: 44 characters of base64.
    ///   - endpoint: `host:port`, `1.2.3.4:port` or `[v6]:port`; nil if only the peer can begin.
    /// - Throws: `TunnelError` with `.configurationInvalid` and the problems of both texts.
    public init(
        publicKey: String, endpoint: String? = nil, allowedIPs: [IPPrefix] = [], persistentKeepalive: UInt16 = 0
    ) throws(TunnelError) {
        let text = PeerText(
            publicKey: publicKey, endpoint: endpoint, allowedIPs: allowedIPs, persistentKeepalive: persistentKeepalive)
        let parsed = text.parsed(at: "")
        guard parsed.problems.isEmpty else { throw WireGuardTunnelConfiguration.invalid(parsed.problems) }
        self = parsed.peer
    }

    /// Replaces what JSON cannot state: no keepalive becomes 0, and changes of allowed IPs become their result.
    mutating func normalize() {
        persistentKeepalive = persistentKeepalive ?? 0
        allowedIPsRule = .exactly(allowedIPs)
    }
}

/// A peer in JSON.
private struct PeerText: Codable {
    var publicKey: String
    var presharedKeyName: String?
    var endpoint: String?
    var allowedIPs: [IPPrefix]
    var persistentKeepalive: UInt16

    init(publicKey: String, endpoint: String?, allowedIPs: [IPPrefix], persistentKeepalive: UInt16) {
        self.publicKey = publicKey
        self.endpoint = endpoint
        self.allowedIPs = allowedIPs
        self.persistentKeepalive = persistentKeepalive
    }

    init(_ peer: PeerConfiguration, presharedKeyName: String?) {
        self.init(
            publicKey: peer.publicKey.base64, endpoint: peer.endpoint?.description, allowedIPs: peer.allowedIPs,
            persistentKeepalive: peer.persistentKeepalive ?? 0)
        self.presharedKeyName = presharedKeyName
    }

    /// Decodes; a member that is left out has its default.
    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        publicKey = try container.decode(String.self, forKey: .publicKey)
        presharedKeyName = try container.decodeIfPresent(String.self, forKey: .presharedKeyName)
        endpoint = try container.decodeIfPresent(String.self, forKey: .endpoint)
        allowedIPs = try container.decodeIfPresent([IPPrefix].self, forKey: .allowedIPs) ?? []
        persistentKeepalive = try container.decodeIfPresent(UInt16.self, forKey: .persistentKeepalive) ?? 0
    }

    /// The peer, with zeros for a malformed key and without a malformed endpoint, and the problems.
    /// - Parameter path: The beginning of the fields' names.
    func parsed(at path: String) -> (peer: PeerConfiguration, problems: [SettingsProblem]) {
        var peer = PeerConfiguration(
            publicKey: PublicKey(Bytes32.zero), allowedIPs: allowedIPs, persistentKeepalive: persistentKeepalive)
        var problems: [SettingsProblem] = []
        if let key = PublicKey(base64: publicKey) {
            peer.publicKey = key
        } else {
            problems.append(.notPublicKey(path + "publicKey", byteCount: publicKey.utf8.count))
        }
        if let endpoint {
            do throws(AddressTextError) {
                peer.endpoint = try EndpointAddress(endpoint)
            } catch {
                problems.append(
                    SettingsProblem(
                        field: path + "endpoint", value: String(endpoint.prefix(80)), problem: error.reason,
                        fix: "write host:port or [v6]:port"))
            }
        }
        return (peer, problems)
    }
}

extension SettingsProblem {
    /// The text may be a private key, so the problem does not contain it.
    static func notPublicKey(_ field: String, byteCount: Int) -> SettingsProblem {
        SettingsProblem(
            field: field, value: "(\(byteCount) bytes)", problem: "is not a public key",
            fix: "use the peer's key in 44 characters of base64")
    }
}
