// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
public import PacketTunnel
import WireGuardCore
import WireGuardTunnel

/// A WireGuard profile as a person edits it. Keys are not shown: an empty field leaves the key that is kept.
public struct ProfileForm: Equatable, Sendable {
    /// The name of the profile.
    public var name = ""
    /// Where the first peer is, as `host:port`.
    public var endpoint = ""
    /// The networks that go through the tunnel, separated by commas.
    public var allowedIPs = ""
    /// Name servers in the tunnel, separated by commas; empty leaves the system's.
    public var nameServers = ""
    /// The most bytes of a packet; empty leaves it to the path.
    public var mtu = ""
    /// Seconds between keepalives; 0 is never.
    public var keepalive = "0"
    /// The detection of a dead tunnel.
    public var ping = PingSettings()
    /// Whether the tunnel starts by itself.
    public var isOnDemand = false
    /// The value of ``isOnDemand`` before the edit.
    var wasOnDemand = false
    /// A new private key.
    public var privateKey = ""

    /// The form of a profile.
    public init(_ profile: TunnelProfile) throws(TunnelError) {
        let configuration: WireGuardTunnelConfiguration = try profile.configuration.decode()
        let peer = configuration.peers.first
        name = profile.name
        endpoint = peer?.endpoint?.description ?? ""
        allowedIPs = (peer?.allowedIPs ?? []).map(\.description).joined(separator: ", ")
        nameServers = (configuration.dns?.servers ?? []).map(\.description).joined(separator: ", ")
        mtu = configuration.mtu.map(String.init) ?? ""
        keepalive = "\(peer?.persistentKeepalive ?? 0)"
        ping = PingSettings(configuration.connectivity)
        isOnDemand = profile.isOnDemandEnabled
        wasOnDemand = isOnDemand
    }

    private static func address(_ text: String) throws(TunnelError) -> EndpointAddress? {
        guard !text.isEmpty else { return nil }
        do throws(AddressTextError) {
            return try EndpointAddress(text)
        } catch {
            throw TunnelError(
                .configurationInvalid, "the endpoint cannot be read: \(error.reason)",
                fix: "write host:port or [v6]:port")
        }
    }

    /// The profile with the form's input, and the secrets that change.
    /// - Throws: `.configurationInvalid` with all errors that its provider finds.
    func applied(
        to profile: TunnelProfile
    ) throws(TunnelError) -> (profile: TunnelProfile, secrets: [String: SecretBytes?]) {
        var (profile, secrets) = (profile, [String: SecretBytes?]())
        var configuration: WireGuardTunnelConfiguration = try profile.configuration.decode()
        if !configuration.peers.isEmpty {
            configuration.peers[0].endpoint = try Self.address(endpoint)
            configuration.peers[0].allowedIPs = try Self.list(allowedIPs, "a network") { try? IPPrefix($0) }
            configuration.peers[0].persistentKeepalive = try PingSettings.number(keepalive, "the keepalive")
        }
        let servers = try Self.list(nameServers, "an address") { try? IPAddress($0) }
        var dns = configuration.dns ?? DNSSettings(servers: [])
        dns.servers = servers
        configuration.dns = servers.isEmpty && dns.searchDomains.isEmpty ? nil : dns
        configuration.mtu = mtu.isEmpty ? nil : try PingSettings.number(mtu, "the MTU")
        try ping.apply(to: &configuration.connectivity)
        let problems = configuration.validate()
        guard problems.isEmpty else {
            throw TunnelError(
                .configurationInvalid, "the profile cannot be used", fix: "correct the fields that are listed",
                problems: problems)
        }
        guard privateKey.isEmpty || PrivateKey(base64: privateKey) != nil else {
            throw TunnelError(
                .configurationInvalid, "the private key cannot be read", fix: "write its 44 characters of base64")
        }
        if !privateKey.isEmpty { secrets[configuration.privateKeyName] = SecretBytes(Array(privateKey.utf8)) }
        profile.name = name
        profile.serverAddress = endpoint
        profile.configuration = try JSONValue(encoding: configuration)
        if isOnDemand, profile.onDemand.rules.isEmpty { profile.onDemand = .always }
        // Else the value of the system's settings stays, which may be newer than the form.
        if isOnDemand != wasOnDemand { profile.isOnDemandEnabled = isOnDemand }
        return (profile, secrets)
    }

    private static func list<Value>(
        _ text: String, _ kind: String, _ parse: (String) -> Value?
    ) throws(TunnelError) -> [Value] {
        var values: [Value] = []
        for item in text.split(whereSeparator: { $0 == "," || $0 == " " }) {
            guard let value = parse(String(item)) else {
                throw TunnelError(.configurationInvalid, "'\(item)' is not \(kind)", fix: "correct it")
            }
            values.append(value)
        }
        return values
    }
}
