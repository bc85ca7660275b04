// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import TunnelSystem
public import WireGuardCore

extension WireGuardTunnelConfiguration: Codable {
    /// The members of the JSON, each with its part of the configuration. The peers are a member too, as texts.
    private static let members = [
        Member("privateKeyName", \.privateKeyName), Member("dns", \.dns), Member("mtu", \.mtu),
        Member("listenPort", \.listenPort), Member("fwMark", \.fwMark), Member("excludedRoutes", \.excludedRoutes),
        // `makesRoutes` takes precedence.
        Member("routeTable", \.routeTable), Member("makesRoutes", \.makesRoutes),
        Member("allowsLocalNetwork", \.allowsLocalNetwork), Member("leakPolicy", \.leakPolicy),
        Member("allowedNetworks", \.allowedNetworks), Member("connectivity", \.connectivity),
        Member("resolutionTimeout", \.resolutionTimeout), Member("handshakeTimeout", \.handshakeTimeout),
        Member("waitsForHandshake", \.waitsForHandshake), Member("privateKeyComesLater", \.privateKeyComesLater),
    ]

    /// Decodes the configuration; missing members have their defaults.
    /// - Throws: `TunnelError` with `.configurationInvalid` and all problems if the key or the endpoint of a peer is
    ///   malformed.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: MemberName.self)
        let texts = try container.decode([PeerText].self, forKey: "peers")
        let parsed = texts.enumerated().map { index, text in text.parsed(at: "peers[\(index)].") }
        self.init(
            addresses: try container.decode([InterfaceAddress].self, forKey: "addresses"), peers: parsed.map(\.peer))
        for (text, parsed) in zip(texts, parsed) {
            presharedKeyNames[parsed.peer.publicKey] = text.presharedKeyName
        }
        for member in Self.members { try member.decode(container, &self) }
        let malformed = parsed.flatMap(\.problems)
        guard malformed.isEmpty else {
            let fields = Set(malformed.map(\.field))
            throw Self.invalid(malformed + validate().filter { !fields.contains($0.field) })
        }
    }

    /// Encodes the configuration without the keys.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: MemberName.self)
        try container.encode(addresses, forKey: "addresses")
        let texts = peers.map { PeerText($0, presharedKeyName: presharedKeyNames[$0.publicKey]) }
        try container.encode(texts, forKey: "peers")
        for member in Self.members { try member.encode(self, &container) }
    }
}

/// A member of the configuration's JSON that may be missing.
private struct Member: Sendable {
    typealias Configuration = WireGuardTunnelConfiguration

    let decode: @Sendable (KeyedDecodingContainer<MemberName>, inout Configuration) throws -> Void
    let encode: @Sendable (Configuration, inout KeyedEncodingContainer<MemberName>) throws -> Void

    init<Value: Codable & Sendable>(_ name: MemberName, _ path: any WritableKeyPath<Configuration, Value> & Sendable) {
        decode = { container, configuration in try container.read(name, into: &configuration[keyPath: path]) }
        encode = { configuration, container in try container.encode(configuration[keyPath: path], forKey: name) }
    }

    init<Value: Codable & Sendable>(_ name: MemberName, _ path: any WritableKeyPath<Configuration, Value?> & Sendable) {
        decode = { container, configuration in
            configuration[keyPath: path] = try container.decodeIfPresent(Value.self, forKey: name)
        }
        encode = { configuration, container in
            try container.encodeIfPresent(configuration[keyPath: path], forKey: name)
        }
    }
}

private struct MemberName: CodingKey, ExpressibleByStringLiteral {
    let stringValue: String
    let intValue: Int? = nil

    init(stringLiteral name: String) { stringValue = name }
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

extension PeerConfiguration {
    /// Makes a peer from texts.
    /// - Parameters:
    ///   - publicKey: 44 characters of base64.
    ///   - endpoint: `host:port`, `1.2.3.4:port` or `[v6]:port`; `nil` if only the peer can start a handshake.
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
}

extension PeerText {
    init(_ peer: PeerConfiguration, presharedKeyName: String?) {
        self.init(
            publicKey: peer.publicKey.base64, presharedKeyName: presharedKeyName, endpoint: peer.endpoint?.description,
            allowedIPs: peer.allowedIPs, persistentKeepalive: peer.persistentKeepalive ?? 0)
    }

    /// Decodes the peer; missing members have their defaults.
    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        publicKey = try container.decode(String.self, forKey: .publicKey)
        presharedKeyName = try container.decodeIfPresent(String.self, forKey: .presharedKeyName)
        endpoint = try container.decodeIfPresent(String.self, forKey: .endpoint)
        allowedIPs = try container.decodeIfPresent([IPPrefix].self, forKey: .allowedIPs) ?? []
        persistentKeepalive = try container.decodeIfPresent(UInt16.self, forKey: .persistentKeepalive) ?? 0
    }

    /// Returns the peer, with zeros for a malformed key and without a malformed endpoint, and the problems.
    /// - Parameter path: the prefix of the fields' names.
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
