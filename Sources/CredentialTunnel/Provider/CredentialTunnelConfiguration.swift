// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import WireGuardCore

/// The configuration of the login tunnel's provider, without secrets: password and pre-shared key are named, and stored in
/// the profile's secret store. The server assigns addresses, routes, name servers and MTU.
///
/// In JSON, members with a default may be omitted. ``validate()`` reports all errors together.
public struct CredentialTunnelConfiguration: Hashable, Sendable {
    /// Where the server is, as `host:port`, `1.2.3.4:port` or `[v6]:port`.
    public var server: String
    /// The server's public key, by which it is known: 44 characters of base64.
    public var serverKey: String
    /// The user's name.
    public var login: String
    /// The name of the secret that holds the password.
    public var passwordName: String
    /// The name of the secret that holds the pre-shared key: 32 bytes, or their base64.
    public var presharedKeyName: String
    /// Networks that are not reached through the tunnel, although the server routes them into it.
    public var excludedRoutes: [IPPrefix]
    /// Whether networks that are attached directly are reached directly.
    public var allowsLocalNetwork: Bool
    /// The packets that may leave outside the tunnel.
    public var leakPolicy: LeakPolicy
    /// Networks that are reached outside the tunnel, regardless of routes and leak policy.
    public var allowedNetworks: [IPPrefix]
    /// Whether the server's name servers are used.
    public var usesNameServers: Bool
    /// How long the server's name may take to resolve, in seconds.
    public var resolutionTimeout: Double

    /// A configuration.
    public init(
        server: String, serverKey: String, login: String, passwordName: String = defaultPasswordName,
        presharedKeyName: String = defaultPresharedKeyName, excludedRoutes: [IPPrefix] = [],
        allowsLocalNetwork: Bool = false, leakPolicy: LeakPolicy = .routeBased,
        allowedNetworks: [IPPrefix] = [], usesNameServers: Bool = true, resolutionTimeout: Double = 10
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
    }

    /// The name that the password's secret has unless stated.
    public static let defaultPasswordName = "password"
    /// The name that the pre-shared key's secret has unless stated.
    public static let defaultPresharedKeyName = "preshared-key"

    /// Everything that is wrong with the configuration, in the order of its fields; empty when it can be used.
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
        // An invalid public key may be a private one, so the error does not repeat it.
        if PublicKey(base64: serverKey).map(\.isZero) ?? true {
            add(
                "serverKey", "(\(serverKey.utf8.count) bytes)", "is not a valid public key",
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
        if !(0.01...3600).contains(resolutionTimeout) {
            add(
                "resolutionTimeout", resolutionTimeout, "is not within 0.01 to 3600 seconds",
                fix: "leave it out for the default")
        }
        return problems
    }

    /// The server's name or address.
    var serverHost: String { (try? EndpointAddress(server))?.host ?? server }

    /// Returns the settings of the tunnel for a server's assignment.
    ///
    /// - Parameters:
    ///   - assignment: The server's assignment to the client.
    ///   - leakPolicy: The minimum; the stricter of it and the configuration's is used.
    public func settings(for assignment: Body.Assignment, leakPolicy: LeakPolicy = .routeBased) -> TunnelSettings {
        TunnelSettings(
            remoteAddress: serverHost, addresses: assignment.addresses,
            includedRoutes: assignment.routes, excludedRoutes: excludedRoutes, allowsLocalNetwork: allowsLocalNetwork,
            dns: assignment.dns.isEmpty || !usesNameServers ? nil : DNSSettings(servers: assignment.dns),
            mtu: assignment.mtu, leakPolicy: max(self.leakPolicy, leakPolicy), allowedNetworks: allowedNetworks)
    }
}

extension CredentialTunnelConfiguration: Codable {
    private enum CodingKeys: String, CodingKey {
        case server, serverKey, login, passwordName, presharedKeyName, excludedRoutes, allowsLocalNetwork, leakPolicy
        case allowedNetworks, usesNameServers, resolutionTimeout
    }

    /// Decodes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            server: try container.decode(String.self, forKey: .server),
            serverKey: try container.decode(String.self, forKey: .serverKey),
            login: try container.decode(String.self, forKey: .login))
        func take<Value: Decodable>(_ key: CodingKeys, into value: inout Value) throws {
            if let given = try container.decodeIfPresent(Value.self, forKey: key) { value = given }
        }
        try take(.passwordName, into: &passwordName)
        try take(.presharedKeyName, into: &presharedKeyName)
        try take(.excludedRoutes, into: &excludedRoutes)
        try take(.allowsLocalNetwork, into: &allowsLocalNetwork)
        try take(.leakPolicy, into: &leakPolicy)
        try take(.allowedNetworks, into: &allowedNetworks)
        try take(.usesNameServers, into: &usesNameServers)
        try take(.resolutionTimeout, into: &resolutionTimeout)
    }
}
