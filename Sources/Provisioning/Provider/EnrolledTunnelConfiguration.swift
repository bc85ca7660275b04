// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import WireGuardCore
public import WireGuardTunnel

/// What a tunnel needs whose gateway gives out its settings, without secrets: the enrolment, or the invitation that it begins
/// with, is in the profile's secret store.
///
/// In JSON, whatever has a default may be left out.
public struct EnrolledTunnelConfiguration: Hashable, Sendable {
    /// The gateway, under each of its names and addresses, which are asked in turn. Each has pins or authorities of its own:
    /// nothing is trusted on first use.
    public var gateways: [ProvisioningServer]
    /// The device, once it is enrolled; for people and other programs.
    public var deviceID: RandomID?
    /// The name of the secret that holds the ``DeviceEnrolment``, or the invitation's text before.
    public var secretName: String
    /// What people are to call the device.
    public var deviceName: String?
    /// What the device runs on.
    public var platform: String?
    /// Name servers in place of the gateway's.
    public var customDNSServers: [IPAddress]
    /// Whether the system uses the tunnel's name servers.
    public var usesNameServers: Bool
    /// What is routed into the tunnel; nil leaves it to the gateway.
    public var routes: [IPPrefix]?
    /// Whether networks that are attached directly are reached directly.
    public var allowsLocalNetwork: Bool
    /// Networks that are reached beside the tunnel, whatever routes and leak policy say.
    public var allowedNetworks: [IPPrefix]
    /// What may leave outside of the tunnel.
    public var leakPolicy: LeakPolicy
    /// How a dead server is noticed. `ConnectivityOptions.endWhenDead` is about the whole: after a server comes the next one,
    /// after the last the gateway is asked again, and so on; by default for ever.
    public var connectivity: ConnectivityOptions
    /// How long a start may wait for a server's answer, in seconds, all servers together.
    public var handshakeTimeout: Double
    /// How long the gateway may take, in seconds.
    public var gatewayTimeout: Double

    /// The word for such tunnels' provider in profiles of `culvert`.
    package static let provider = "enrolled"

    /// The name of the secret unless stated.
    public static let defaultSecretName = "enrolment"

    /// A configuration.
    public init(
        gateways: [ProvisioningServer], deviceID: RandomID? = nil, secretName: String = defaultSecretName,
        deviceName: String? = nil, platform: String? = nil, customDNSServers: [IPAddress] = [],
        usesNameServers: Bool = true, routes: [IPPrefix]? = nil, allowsLocalNetwork: Bool = false,
        allowedNetworks: [IPPrefix] = [], leakPolicy: LeakPolicy = .routeBased,
        connectivity: ConnectivityOptions = ConnectivityOptions(), handshakeTimeout: Double = 30,
        gatewayTimeout: Double = 30
    ) {
        self.gateways = gateways
        self.deviceID = deviceID
        self.secretName = secretName
        self.deviceName = deviceName
        self.platform = platform
        self.customDNSServers = customDNSServers
        self.usesNameServers = usesNameServers
        self.routes = routes
        self.allowsLocalNetwork = allowsLocalNetwork
        self.allowedNetworks = allowedNetworks
        self.leakPolicy = leakPolicy
        self.connectivity = connectivity
        self.handshakeTimeout = handshakeTimeout
        self.gatewayTimeout = gatewayTimeout
    }

    /// A configuration for an invitation's gateway. The invitation itself is the secret ``secretName``, until a start or
    /// `culvert enroll` has used it.
    public init(_ invitation: Invitation, deviceName: String? = nil, platform: String? = nil) {
        self.init(
            gateways: [
                ProvisioningServer(name: invitation.host, port: invitation.port, trust: .pins(invitation.pins))
            ], deviceName: deviceName, platform: platform)
    }

    /// What is wrong with it; empty when nothing is.
    public func validate() -> [SettingsProblem] {
        var problems: [SettingsProblem] = []
        func problem(_ field: String, _ value: String, _ problem: String, fix: String) {
            problems.append(SettingsProblem(field: field, value: value, problem: problem, fix: fix))
        }
        if gateways.isEmpty { problem("gateways", "", "there is none", fix: "name one, with its pins") }
        for (index, gateway) in gateways.enumerated() {
            let field = "gateways[\(index)]"
            if (try? EndpointAddress(host: gateway.name, port: max(gateway.port, 1))) == nil {
                problem("\(field).name", gateway.name, "it is no host", fix: "give a name or an address")
            }
            if gateway.port == 0 { problem("\(field).port", "0", "nothing listens there", fix: "give its port") }
            switch gateway.trust {
            case .system:
                problem(
                    "\(field).trust", "system", "the gateway has neither pins nor authorities of its own",
                    fix: "use what the invitation says")
            case .pins(let pins) where Set(pins).count < 2:
                problem("\(field).trust", "pins", "there are fewer than two", fix: "pin the backup key too")
            case .pins, .authorities: break
            }
        }
        if secretName.isEmpty { problem("secretName", "", "it is empty", fix: "leave it out") }
        for (field, seconds) in [("handshakeTimeout", handshakeTimeout), ("gatewayTimeout", gatewayTimeout)]
        where !(1...600).contains(seconds) {
            problem(field, "\(seconds)", "it is not from 1 to 600 seconds", fix: "leave it out")
        }
        return problems
    }

    /// The settings as far as they are known before the gateway has answered: a policy that holds meanwhile takes it that
    /// everything is routed into the tunnel, unless it is said what.
    public func settings() -> TunnelSettings {
        var settings = TunnelSettings(
            remoteAddress: gateways.first?.name ?? "no gateway", addresses: [],
            includedRoutes: routes ?? [.allIPv4, .allIPv6], allowsLocalNetwork: allowsLocalNetwork,
            leakPolicy: leakPolicy)
        settings.allowedNetworks = allowedNetworks
        return settings
    }
}

extension EnrolledTunnelConfiguration: Codable {
    private enum CodingKeys: String, CodingKey {
        case gateways, deviceID, secretName, deviceName, platform, customDNSServers, usesNameServers, routes
        case allowsLocalNetwork, allowedNetworks, leakPolicy, connectivity, handshakeTimeout, gatewayTimeout
    }

    /// Decodes; what is left out has its default.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(gateways: try container.decode([ProvisioningServer].self, forKey: .gateways))
        func take<Value: Decodable>(_ key: CodingKeys, into value: inout Value) throws {
            if let given = try container.decodeIfPresent(Value.self, forKey: key) { value = given }
        }
        deviceID = try container.decodeIfPresent(RandomID.self, forKey: .deviceID)
        try take(.secretName, into: &secretName)
        deviceName = try container.decodeIfPresent(String.self, forKey: .deviceName)
        platform = try container.decodeIfPresent(String.self, forKey: .platform)
        try take(.customDNSServers, into: &customDNSServers)
        try take(.usesNameServers, into: &usesNameServers)
        routes = try container.decodeIfPresent([IPPrefix].self, forKey: .routes)
        try take(.allowsLocalNetwork, into: &allowsLocalNetwork)
        try take(.allowedNetworks, into: &allowedNetworks)
        try take(.leakPolicy, into: &leakPolicy)
        try take(.connectivity, into: &connectivity)
        try take(.handshakeTimeout, into: &handshakeTimeout)
        try take(.gatewayTimeout, into: &gatewayTimeout)
    }
}

// MARK: - The tunnel that was given

/// One of the places where a grant's servers are.
struct GrantedPlace: Hashable, Sendable {
    var server: PublicKey
    var endpoint: EndpointAddress
}

extension EnrolmentGrant {
    /// Every place to go to: the best of each server first, then the others.
    var places: [GrantedPlace] {
        let most = servers.map(\.endpoints.count).max() ?? 0
        return (0..<most).flatMap { index in
            servers.compactMap { server in
                guard index < server.endpoints.count else { return nil }
                return GrantedPlace(server: server.publicKey, endpoint: server.endpoints[index])
            }
        }
    }
}

extension EnrolledTunnelConfiguration {
    /// The tunnel to one place. Where there are others, a dead one is left at once, not healed.
    func tunnel(
        _ grant: EnrolmentGrant, to place: GrantedPlace, isOnly: Bool
    ) -> WireGuardTunnelConfiguration {
        let servers = customDNSServers.isEmpty ? grant.dns : customDNSServers
        var connectivity = connectivity
        connectivity.endWhenDead = isOnly ? .afterHealing : .atOnce
        return WireGuardTunnelConfiguration(
            addresses: grant.addresses.map { InterfaceAddress(host: $0) },
            dns: usesNameServers && !servers.isEmpty
                ? DNSSettings(servers: servers, searchDomains: grant.searchDomains) : nil,
            mtu: grant.mtu, allowsLocalNetwork: allowsLocalNetwork, leakPolicy: leakPolicy,
            peers: [
                PeerConfiguration(
                    publicKey: place.server, allowedIPs: routes ?? grant.routes, endpoint: place.endpoint,
                    persistentKeepalive: grant.keepaliveSeconds)
            ],
            presharedKeyNames: grant.presharedKey == nil ? [:] : [place.server: HeldKeys.presharedKeyName],
            connectivity: connectivity,
            // Two handshakes' time at the least.
            handshakeTimeout: max(handshakeTimeout / Double(max(grant.places.count, 1)), min(handshakeTimeout, 8)),
            allowedNetworks: allowedNetworks)
    }
}
