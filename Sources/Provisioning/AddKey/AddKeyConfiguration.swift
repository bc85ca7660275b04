// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import WireGuardCore
import WireGuardTunnel

/// The settings of a tunnel that a server assigns at each start, by `addKey`. They contain no secrets: the token is in
/// the profile's secret store.
public struct AddKeyConfiguration: Codable, Hashable, Sendable {
    /// The servers to ask, in turn.
    public var servers: [ProvisioningServer]
    /// The name of the secret with the token.
    public var tokenName: String
    /// Name servers that replace the server's.
    public var customDNSServers: [IPAddress]
    /// The largest size of an IP packet in the tunnel, in bytes.
    public var packetSize: Int
    /// Seconds between keepalives.
    public var keepalive: UInt16
    /// The networks that are routed into the tunnel.
    public var routes: [IPPrefix]
    /// Whether packets to directly attached networks bypass the tunnel.
    public var allowsLocalNetwork: Bool
    /// The packets that may leave outside the tunnel.
    public var leakPolicy: LeakPolicy
    /// The detection of a dead server. If it would end the tunnel (`ConnectivityOptions.endWhenDead`), the provider
    /// first asks the next server.
    public var connectivity: ConnectivityOptions

    /// The port of PIA's API.
    public static let defaultPort: UInt16 = 1337

    /// Makes a configuration with PIA's default values.
    public init(
        servers: [ProvisioningServer], tokenName: String = "token", customDNSServers: [IPAddress] = [],
        packetSize: Int = 1280, keepalive: UInt16 = 25, routes: [IPPrefix] = [.allIPv4, .allIPv6],
        allowsLocalNetwork: Bool = false, leakPolicy: LeakPolicy = .routeBased,
        connectivity: ConnectivityOptions = ConnectivityOptions(endWhenDead: .atOnce)
    ) {
        self.servers = servers
        self.tokenName = tokenName
        self.customDNSServers = customDNSServers
        self.packetSize = packetSize
        self.keepalive = keepalive
        self.routes = routes
        self.allowsLocalNetwork = allowsLocalNetwork
        self.leakPolicy = leakPolicy
        self.connectivity = connectivity
    }

    /// Reads the keys of PIA's provider configuration, and the token that is among them. Store the token in the secret
    /// store, under ``tokenName``.
    ///
    /// If `use_ip` is set, the provider connects to the address in `serverAddress` and verifies the name in `cn`.
    /// `serial` and `activationAttemptId` are ignored.
    /// - Parameters:
    ///   - values: The provider configuration.
    ///   - serverAddress: The `serverAddress` of the same profile.
    ///   - trust: The verification of the server. The certificates of PIA's servers are issued by PIA's own authority
    ///     and contain only a common name: use `.authorities(pem, acceptsCommonName: true)`.
    /// - Throws: `.configurationInvalid`, with each invalid key.
    public static func fromProviderConfiguration(
        _ values: [String: JSONValue], serverAddress: String, trust: ServerTrust = .system
    ) throws(TunnelError) -> (configuration: AddKeyConfiguration, token: SecretBytes) {
        var problems: [SettingsProblem] = []
        func problem(_ field: String, _ value: String, _ problem: String, fix: String) {
            problems.append(SettingsProblem(field: field, value: value, problem: problem, fix: fix))
        }
        func value<Value>(_ key: String, _ kind: String, _ read: (JSONValue) -> Value?) -> Value? {
            guard let found = values[key], found != .null else { return nil }
            guard let value = read(found) else {
                // Do not include the value in the problem, because it may be the token.
                problem(key, "", "is not \(kind)", fix: "enter \(kind)")
                return nil
            }
            return value
        }
        func text(_ key: String) -> String? {
            value(key, "a text") { if case .string(let text) = $0 { text } else { nil } }
        }
        let token = text("token")
        if token?.isEmpty ?? true { problem("token", "", "is missing", fix: "enter the account's token") }
        let usesAddress =
            value("use_ip", "true or false") { if case .bool(let flag) = $0 { flag } else { nil } } ?? false
        let (name, address) = (text("cn"), try? IPAddress(serverAddress))
        if usesAddress {
            if address == nil {
                problem(
                    "serverAddress", serverAddress, "is not an IP address", fix: "enter an IP address, or omit 'use_ip'"
                )
            }
            if name?.isEmpty ?? true {
                problem("cn", "", "is missing", fix: "enter the name in the server's certificate")
            }
        } else if serverAddress.isEmpty || address != nil {
            problem(
                "serverAddress", serverAddress, "is not a host name", fix: "enter a host name, or set 'use_ip' and 'cn'"
            )
        }
        let servers = value("customDNSServers", "a list of IP addresses") { list -> [IPAddress]? in
            guard case .array(let items) = list else { return nil }
            let addresses = items.compactMap { item in
                if case .string(let text) = item { try? IPAddress(text) } else { nil }
            }
            return addresses.count == items.count ? addresses : nil
        }
        let size = value("packetSize", "a number of bytes") {
            if case .integer(let size) = $0 { Int(size) } else { nil }
        }
        guard problems.isEmpty, let token else {
            throw TunnelError(
                .configurationInvalid, "the provider configuration is not valid",
                fix: "correct the listed keys", problems: problems)
        }
        var configuration = AddKeyConfiguration(
            servers: [
                ProvisioningServer(
                    name: usesAddress ? name ?? "" : serverAddress, address: usesAddress ? address : nil,
                    port: defaultPort, trust: trust)
            ],
            customDNSServers: servers ?? [], packetSize: size ?? 1280)
        configuration.connectivity.pingAddress = text("ping")
        return (configuration, SecretBytes(Array(token.utf8)))
    }

    /// Reads a provider configuration as Apple's platforms return it (`NETunnelProviderProtocol.providerConfiguration`).
    /// Values that JSON does not have, such as dates, are not valid for any key.
    ///
    /// The other parameters, the result and the errors are those of the method with JSON values.
    public static func fromProviderConfiguration(
        _ values: [String: Any], serverAddress: String, trust: ServerTrust = .system
    ) throws(TunnelError) -> (configuration: AddKeyConfiguration, token: SecretBytes) {
        try fromProviderConfiguration(
            values.mapValues(Self.jsonValue), serverAddress: serverAddress, trust: trust)
    }

    private static func jsonValue(_ value: Any) -> JSONValue {
        switch value {
        // Apple's platforms return numbers and flags as one class. Of these, only 0 and 1 convert to a flag.
        case let flag as Bool: .bool(flag)
        case let number as Int: .integer(Int64(number))
        case let text as String: .string(text)
        case let items as [Any]: .array(items.map(jsonValue))
        // No key has a value of this kind.
        default: .object([:])
        }
    }

    /// Returns the tunnel of a server's reply.
    func tunnel(_ reply: AddKeyReply) -> WireGuardTunnelConfiguration {
        let servers = customDNSServers.isEmpty ? reply.nameServers : customDNSServers
        return WireGuardTunnelConfiguration(
            addresses: [reply.address], dns: servers.isEmpty ? nil : DNSSettings(servers: servers), mtu: packetSize,
            allowsLocalNetwork: allowsLocalNetwork, leakPolicy: leakPolicy,
            peers: [
                PeerConfiguration(
                    publicKey: reply.serverKey, allowedIPs: routes, endpoint: reply.endpoint,
                    persistentKeepalive: keepalive)
            ],
            connectivity: connectivity,
            // If there are other servers, wait only for the time of two handshake attempts.
            handshakeTimeout: self.servers.count > 1 ? 10 : 30)
    }
}
