// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import WireGuardCore

/// The configuration of a login tunnel, without secrets: it contains the names of the password and the pre-shared key
/// in the profile's secret store. The server assigns addresses, routes, name servers and the MTU.
///
/// In JSON, fields with a default are optional. ``validate()`` returns all problems together.
public struct CredentialTunnelConfiguration: Hashable, Sendable {
    /// The server's address, as `host:port`, `1.2.3.4:port` or `[v6]:port`.
    public var server: String
    /// The server's public key, which identifies it: 44 characters of base64.
    public var serverKey: String
    /// The user's name.
    public var login: String
    /// The name of the secret with the password.
    public var passwordName: String
    /// The name of the secret with the pre-shared key: 32 bytes, or their base64.
    public var presharedKeyName: String
    /// The networks to exclude from the routes that the server assigns.
    public var excludedRoutes: [IPPrefix]
    /// Whether packets to directly attached networks bypass the tunnel.
    public var allowsLocalNetwork: Bool
    /// The traffic that may leave outside of the tunnel.
    public var leakPolicy: LeakPolicy
    /// The networks to reach outside of the tunnel, independently of routes and leak policy.
    public var allowedNetworks: [IPPrefix]
    /// Whether to use the name servers that the server assigns.
    public var usesNameServers: Bool
    /// The maximum time to resolve the server's name, in seconds.
    public var resolutionTimeout: Double
    /// The largest MTU of the tunnel's interface, for a path that carries less than the server expects; 576 to 65,535,
    /// or `nil` for the server's. With an assigned IPv6 address, the MTU is at least 1280.
    public var maximumMTU: Int?
    /// The probes of a tunnel without data, its repair, and its end.
    public var connectivity: ConnectivityOptions
    /// The maximum time of the first login, in seconds; `nil` for 10 seconds. Later logins are repeated without a limit.
    /// The first login ends earlier, after half a second, if all addresses of the server refuse datagrams.
    public var loginTimeout: Double?

    /// Creates a configuration.
    public init(
        server: String, serverKey: String, login: String, passwordName: String = defaultPasswordName,
        presharedKeyName: String = defaultPresharedKeyName, excludedRoutes: [IPPrefix] = [],
        allowsLocalNetwork: Bool = false, leakPolicy: LeakPolicy = .routeBased,
        allowedNetworks: [IPPrefix] = [], usesNameServers: Bool = true, resolutionTimeout: Double = 10,
        maximumMTU: Int? = nil, connectivity: ConnectivityOptions = ConnectivityOptions()
    ) {
        self.server = server
        self.serverKey = serverKey
        self.login = login
        self.passwordName = passwordName
        self.presharedKeyName = presharedKeyName
        self.excludedRoutes = excludedRoutes
        self.allowsLocalNetwork = allowsLocalNetwork
        self.leakPolicy = leakPolicy
        self.allowedNetworks = allowedNetworks
        self.usesNameServers = usesNameServers
        self.resolutionTimeout = resolutionTimeout
        self.maximumMTU = maximumMTU
        self.connectivity = connectivity
    }

    /// The default name of the password's secret.
    public static let defaultPasswordName = "password"
    /// The default name of the pre-shared key's secret.
    public static let defaultPresharedKeyName = "preshared-key"

    /// Returns all problems of the configuration, in the order of its fields; empty if it is valid.
    public func validate() -> [SettingsProblem] {
        var problems: [SettingsProblem] = []
        func add(_ field: String, _ value: some CustomStringConvertible, _ problem: String, fix: String) {
            problems.append(SettingsProblem(field: field, value: value.description, problem: problem, fix: fix))
        }
        do throws(AddressTextError) {
            _ = try EndpointAddress(server)
        } catch {
            add("server", server.prefix(80), error.reason, fix: "write host:port or [v6]:port")
        }
        // The text may be a private key, so the message does not contain it.
        if PublicKey(base64: serverKey).map(\.isZero) ?? true {
            add(
                "serverKey", "(\(serverKey.utf8.count) bytes)", "is not a public key",
                fix: "use the server's key in 44 characters of base64")
        }
        do throws(PacketParsingError) {
            try Body.ClientAuthRequest(login: login, password: "").check()
        } catch {
            add("login", login.prefix(80), "\(error)", fix: "use the name that the server's administrator gave you")
        }
        for (field, name) in [("passwordName", passwordName), ("presharedKeyName", presharedKeyName)] where name.isEmpty
        {
            add(field, "", "is empty", fix: "name the secret, or leave it out for the default")
        }
        for (field, time) in [("resolutionTimeout", resolutionTimeout), ("loginTimeout", loginTimeout ?? 10)]
        where !(0.01...3600).contains(time) {
            add(field, time, "must be between 0.01 and 3600 seconds", fix: "leave it out for the default")
        }
        if let maximumMTU, !(576...65_535).contains(maximumMTU) {
            add("maximumMTU", maximumMTU, "must be between 576 and 65535", fix: "leave it out for the server's MTU")
        }
        return problems + connectivity.validate()
    }

    /// The server's name or address.
    var serverHost: String { (try? EndpointAddress(server))?.host ?? server }

    /// Returns the tunnel settings for a server's assignment.
    ///
    /// - Parameters:
    ///   - assignment: The server's assignment to the client.
    ///   - leakPolicy: The minimum policy. The stricter of this policy and the configuration's policy is applied.
    public func settings(for assignment: Body.Assignment, leakPolicy: LeakPolicy = .routeBased) -> TunnelSettings {
        TunnelSettings(
            remoteAddress: serverHost, addresses: assignment.addresses,
            includedRoutes: assignment.routes, excludedRoutes: excludedRoutes, allowsLocalNetwork: allowsLocalNetwork,
            dns: assignment.dns.isEmpty || !usesNameServers ? nil : DNSSettings(servers: assignment.dns),
            mtu: mtu(for: assignment), leakPolicy: max(self.leakPolicy, leakPolicy), allowedNetworks: allowedNetworks)
    }

    private func mtu(for assignment: Body.Assignment) -> Int {
        guard let maximumMTU else { return assignment.mtu }
        let least = assignment.addresses.contains(where: \.isIPv6) ? 1280 : 576
        return min(assignment.mtu, max(maximumMTU, least))
    }
}

extension CredentialTunnelConfiguration: Codable {
    private enum CodingKeys: String, CodingKey {
        case server, serverKey, login, passwordName, presharedKeyName, excludedRoutes, allowsLocalNetwork, leakPolicy
        case allowedNetworks, usesNameServers, resolutionTimeout, maximumMTU, connectivity, loginTimeout
    }

    /// Decodes a configuration. Missing fields have their defaults.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            server: try container.decode(String.self, forKey: .server),
            serverKey: try container.decode(String.self, forKey: .serverKey),
            login: try container.decode(String.self, forKey: .login))
        func decode<Value: Decodable>(_ key: CodingKeys, into value: inout Value) throws {
            if let given = try container.decodeIfPresent(Value.self, forKey: key) { value = given }
        }
        try decode(.passwordName, into: &passwordName)
        try decode(.presharedKeyName, into: &presharedKeyName)
        try decode(.excludedRoutes, into: &excludedRoutes)
        try decode(.allowsLocalNetwork, into: &allowsLocalNetwork)
        try decode(.leakPolicy, into: &leakPolicy)
        try decode(.allowedNetworks, into: &allowedNetworks)
        try decode(.usesNameServers, into: &usesNameServers)
        try decode(.resolutionTimeout, into: &resolutionTimeout)
        maximumMTU = try container.decodeIfPresent(Int.self, forKey: .maximumMTU)
        try decode(.connectivity, into: &connectivity)
        loginTimeout = try container.decodeIfPresent(Double.self, forKey: .loginTimeout)
    }
}
