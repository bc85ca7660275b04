// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import TunnelSystem
import WireGuardCore
import WireGuardTunnel

/// The settings of a tunnel whose gateway assigns its configuration, without secrets: the enrolment, or the initial
/// invitation, is in the profile's secret store.
///
/// In JSON, members with a default may be omitted.
public struct EnrolledTunnelConfiguration: Hashable, Sendable {
    /// The gateway, under each of its names and addresses, which are asked in turn. Each has pins or its own authorities:
    /// nothing is trusted on first use.
    public var gateways: [ProvisioningServer]
    /// The device, once it is enrolled; for people and other programs.
    public var deviceID: RandomID?
    /// The name of the secret that holds the ``DeviceEnrolment``, or the invitation's text before.
    public var secretName: String
    /// The device's display name.
    public var deviceName: String?
    /// The device's platform.
    public var platform: String?
    /// Name servers in place of the gateway's.
    public var customDNSServers: [IPAddress]
    /// Whether the system uses the tunnel's name servers.
    public var usesNameServers: Bool
    /// The networks that are routed into the tunnel; `nil` for the gateway's.
    public var routes: [IPPrefix]?
    /// Whether networks that are attached directly are reached directly.
    public var allowsLocalNetwork: Bool
    /// Networks that are reached outside the tunnel, regardless of routes and leak policy.
    public var allowedNetworks: [IPPrefix]
    /// The packets that may leave outside the tunnel.
    public var leakPolicy: LeakPolicy
    /// The detection of a dead server. `ConnectivityOptions.endWhenDead` concerns all servers: after a server the next one is
    /// used, after the last the gateway is asked again, and so on; by default without end.
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

    /// Returns all problems; empty if there are none.
    public func validate() -> [SettingsProblem] {
        var problems: [SettingsProblem] = []
        func problem(_ field: String, _ value: String, _ problem: String, fix: String) {
            problems.append(SettingsProblem(field: field, value: value, problem: problem, fix: fix))
        }
        if gateways.isEmpty { problem("gateways", "", "there is none", fix: "name one, with its pins") }
        for (index, gateway) in gateways.enumerated() {
            let field = "gateways[\(index)]"
            if (try? EndpointAddress(host: gateway.name, port: max(gateway.port, 1))) == nil {
                problem("\(field).name", gateway.name, "is not a host", fix: "give a name or an address")
            }
            if gateway.port == 0 { problem("\(field).port", "0", "nothing listens there", fix: "give its port") }
            switch gateway.trust {
            case .system:
                problem(
                    "\(field).trust", "system", "the gateway has neither pins nor its own authorities",
                    fix: "use the trust of the invitation")
            case .pins(let pins) where Set(pins).count < 2:
                problem("\(field).trust", "pins", "there are fewer than two", fix: "pin the backup key too")
            case .pins, .authorities: break
            }
        }
        if secretName.isEmpty { problem("secretName", "", "is empty", fix: "omit it") }
        for (field, seconds) in [("handshakeTimeout", handshakeTimeout), ("gatewayTimeout", gatewayTimeout)]
        where !(1...600).contains(seconds) {
            problem(field, "\(seconds)", "must be 1 to 600 seconds", fix: "omit it")
        }
        return problems
    }

    /// The settings as far as they are known before the gateway has answered: for a policy in effect until then, all packets
    /// count as routed into the tunnel, unless routes are given.
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

    /// Decodes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(gateways: try container.decode([ProvisioningServer].self, forKey: .gateways))
        deviceID = try container.decodeIfPresent(RandomID.self, forKey: .deviceID)
        try container.read(.secretName, into: &secretName)
        deviceName = try container.decodeIfPresent(String.self, forKey: .deviceName)
        platform = try container.decodeIfPresent(String.self, forKey: .platform)
        try container.read(.customDNSServers, into: &customDNSServers)
        try container.read(.usesNameServers, into: &usesNameServers)
        routes = try container.decodeIfPresent([IPPrefix].self, forKey: .routes)
        try container.read(.allowsLocalNetwork, into: &allowsLocalNetwork)
        try container.read(.allowedNetworks, into: &allowedNetworks)
        try container.read(.leakPolicy, into: &leakPolicy)
        try container.read(.connectivity, into: &connectivity)
        try container.read(.handshakeTimeout, into: &handshakeTimeout)
        try container.read(.gatewayTimeout, into: &gatewayTimeout)
    }
}

// MARK: - The tunnel that was given

/// One of the endpoints of a grant's servers.
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
    /// Returns the tunnel to one endpoint. If there are others, a dead one is abandoned immediately instead of healed.
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
            // At least the time of two handshakes.
            handshakeTimeout: max(handshakeTimeout / Double(max(grant.places.count, 1)), min(handshakeTimeout, 8)),
            allowedNetworks: allowedNetworks)
    }
}
