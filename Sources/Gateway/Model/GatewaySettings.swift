// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PasswordHashing
package import TunnelServer
package import TunnelSystem

/// The settings of a gateway: `gateway.json`. A setting that the file does not contain has the default below.
package struct GatewaySettings: Hashable, Sendable {
    package static let fileName = "gateway.json"

    /// The display name of the gateway.
    package var label = ""
    /// The name or address at which devices reach the gateway. It is in invitations and in the certificate of the
    /// device API.
    package var host = ""

    // MARK: Listeners

    /// The addresses and the port of the device API.
    package var api = Listener(addresses: [.v4(0), .v6(0, 0)], port: 8443)
    /// The addresses and the port of the administrators' page, the whole API and the metrics.
    package var admin = Listener(addresses: [.v4(127, 0, 0, 1)], port: 8080)
    /// The administrators' own certificate and key for the `admin` listener, as paths of PEM files; `nil` for plain
    /// HTTP.
    package var adminTLS: CertificateFiles?
    /// Whether `/metrics` of the `admin` listener always needs a token. If it does not, processes of this host read the metrics
    /// without one, and so do the clients of a reverse proxy on this host.
    package var metricsNeedToken = true
    /// The path of the Unix socket for the command line.
    package var socket = "/run/culvert-gateway/admin.sock"
    /// The `addKey` listener for PIA's clients.
    package var addKey = AddKey()
    /// The login tunnel, with or without WireGuard.
    package var loginTunnel = LoginTunnel()

    // MARK: The tunnel

    /// Whether the gateway serves WireGuard. If not, it serves only the login tunnel: devices cannot enrol, and the
    /// device API does not listen.
    package var servesWireGuard = true
    package var interface = "culvert-gw0"
    /// The UDP port of WireGuard.
    package var wireGuardPort: UInt16 = 51_820
    /// The gateway's own addresses in the tunnel, at most one of each family. Devices get addresses of their networks.
    package var addresses: [InterfaceAddress] = []
    /// The endpoints of WireGuard for devices. If it is empty, the endpoint is ``host`` and ``wireGuardPort``.
    package var endpoints: [EndpointAddress] = []
    package var dns: [IPAddress] = []
    /// The largest number of name servers that a device gets.
    package static let mostNameServers = 4
    package var searchDomains: [String] = []
    /// The networks that devices reach through the tunnel.
    package var routes: [IPPrefix] = [.allIPv4, .allIPv6]
    package var mtu = 1420
    package var keepaliveSeconds: UInt16 = 25
    /// Whether each device gets a separate pre-shared key.
    package var usesPresharedKeys = true

    // MARK: The network

    package var ipv4 = ServerNetworkSettings.Way.masqueraded
    package var ipv6 = ServerNetworkSettings.Way.masqueraded
    /// The services of the gateway's host that devices may reach: `tcp/PORT`, `udp/PORT`.
    package var services: [String] = []
    package var answersPings = true
    /// Private networks that devices may reach.
    package var allowedNetworks: [IPPrefix] = []
    /// Other interfaces between which packets are forwarded, if the host did not forward before.
    package var otherInterfaces: [String] = []

    /// The flows that each source address of devices can have at a time; 0 for no limit.
    package var flowsPerSource = 4_096

    // MARK: Lifetimes and limits

    /// The lifetime of an enrolled device without renewal; 0 for no limit.
    package var deviceLifetimeSeconds = 0
    /// The time after which a device renews.
    package var renewAfterSeconds = 86_400
    package var invitationLifetimeSeconds = 259_200
    /// The lifetime of tokens that are made without one; 0 for no limit.
    package var tokenLifetimeSeconds = 31_536_000
    /// The cooldown of a released address, during which no device gets it.
    package var addressRestSeconds = 86_400
    /// The time that devices have to switch to a new server key.
    package var serverKeyOverlapSeconds = 604_800
    /// The time for which audit entries are kept; 0 for no limit.
    package var auditLifetimeSeconds = 31_536_000
    package var devicesPerUser = 10
    /// The largest number of devices of all users together.
    package var devices = 10_000
    package var failures = LoginLimiter.Limits()

    package init() {}

    package struct Listener: Hashable, Sendable {
        package var addresses: [IPAddress]
        package var port: UInt16

        package init(addresses: [IPAddress], port: UInt16) {
            self.addresses = addresses
            self.port = port
        }
    }

    package struct CertificateFiles: Hashable, Sendable {
        package var certificate: String
        package var key: String

        package init(certificate: String, key: String) {
            self.certificate = certificate
            self.key = key
        }
    }

    package struct AddKey: Hashable, Sendable {
        package var isEnabled = false
        package var listener = Listener(addresses: [.v4(0), .v6(0, 0)], port: 1337)
        /// The time without traffic after which a key is removed.
        package var idleKeySeconds = 10_800

        package init() {}
    }

    package struct LoginTunnel: Hashable, Sendable {
        package var isEnabled = false
        package var port: UInt16 = 51_840
        /// The tunnel's interface. It has the same firewall as the interface of WireGuard.
        package var interface = "culvert-login0"
        /// The largest number of concurrent sessions of a user. A further login ends the oldest session.
        package var sessionsPerUser = 5
        static let mostSessionsPerUser = 1000
        /// The time after the end of a session during which the next login of its user gets the same addresses. The
        /// cooldown of the addresses starts afterwards.
        package var leaseSeconds = 3600
        /// The lifetime of a session, after which its client must log in again; 0 for no limit.
        package var sessionLifetimeSeconds = 0
        /// The cost of the hash of a new password.
        package var passwordCost = PasswordHash.Cost()

        package init() {}
    }
}

extension GatewaySettings {
    /// Returns the WireGuard endpoints for devices: ``endpoints``, or ``host`` with ``wireGuardPort`` if there are
    /// none.
    ///
    /// - Throws: ``AddressTextError`` if ``endpoints`` is empty and ``host`` cannot be an endpoint's host.
    package func effectiveEndpoints() throws(AddressTextError) -> [EndpointAddress] {
        endpoints.isEmpty ? [try EndpointAddress(host: host, port: wireGuardPort)] : endpoints
    }

    /// The networks from which devices get their addresses.
    package var networks: [IPPrefix] { addresses.map(\.network) }
}
