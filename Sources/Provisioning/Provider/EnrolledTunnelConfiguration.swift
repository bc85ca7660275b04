// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import TunnelSystem
import WireGuardCore
import WireGuardTunnel

/// The settings of a tunnel whose configuration a gateway assigns. They contain no secrets: the enrolment, or at first
/// the invitation, is in the profile's secret store.
///
/// In JSON, members with a default may be omitted.
public struct EnrolledTunnelConfiguration: Hashable, Sendable {
    /// The gateway, with each of its names and addresses, which are asked in turn. Each entry has pins or its own
    /// authorities, so no server is trusted on first use.
    public var gateways: [ProvisioningServer]
    /// The ID of the device once it is enrolled, for users and other programs. The tunnel does not use it.
    public var deviceID: RandomID?
    /// The name of the secret with the ``DeviceEnrolment``, or with the invitation's text before the enrolment.
    public var secretName: String
    /// The device's display name.
    public var deviceName: String?
    /// The device's platform.
    public var platform: String?
    /// Name servers that replace those of the gateway.
    public var customDNSServers: [IPAddress]
    /// Whether the system uses the tunnel's name servers.
    public var usesNameServers: Bool
    /// The networks that are routed into the tunnel; `nil` for the gateway's.
    public var routes: [IPPrefix]?
    /// Whether packets to directly attached networks bypass the tunnel.
    public var allowsLocalNetwork: Bool
    /// Networks that are reached outside the tunnel, regardless of routes and leak policy.
    public var allowedNetworks: [IPPrefix]
    /// The packets that may leave outside the tunnel.
    public var leakPolicy: LeakPolicy
    /// The detection of a dead server. `ConnectivityOptions.endWhenDead` applies to all servers together: after each
    /// lost server, the tunnel uses the next one; after the last, it asks the gateway again, and so on. By default, it
    /// does so without a limit.
    public var connectivity: ConnectivityOptions
    /// The maximum time to wait for a server's answer at a start, in seconds, for all servers together.
    public var handshakeTimeout: Double
    /// The maximum time to wait for the gateway's answer, in seconds.
    public var gatewayTimeout: Double

    /// The name of this kind of provider in profiles of `culvert`.
    package static let provider = "enrolled"

    /// The default name of the secret.
    public static let defaultSecretName = "enrolment"

    /// Creates a configuration.
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

    /// Creates a configuration for an invitation's gateway. The invitation itself must be stored as the secret
    /// ``secretName``, until a start or `culvert enroll` has used it.
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
                problem("\(field).name", gateway.name, "is not a host", fix: "is not a host")
            }
            if gateway.port == 0 { problem("\(field).port", "0", "nothing listens there", fix: "must not be 0") }
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

    /// The settings that are known before the gateway has answered. A leak policy that applies until then treats all
    /// packets as routed into the tunnel, unless ``routes`` is set.
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

    /// Decodes a configuration. Missing members have their defaults.
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
    /// All endpoints of the grant's servers: first the preferred endpoint of each server, then each server's second
    /// one, and so on.
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
    /// Returns the configuration of the tunnel to one endpoint. If there are other endpoints, the tunnel reports a dead
    /// endpoint immediately, without attempts to repair the connection.
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
            // At least the time of two handshake attempts.
            handshakeTimeout: max(handshakeTimeout / Double(max(grant.places.count, 1)), min(handshakeTimeout, 8)),
            allowedNetworks: allowedNetworks)
    }
}
