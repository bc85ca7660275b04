// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PasswordHashing
package import TunnelServer
package import TunnelSystem

/// The settings of a gateway: `gateway.json`. A setting that the file does not contain has the value here.
package struct GatewaySettings: Hashable, Sendable {
    package static let fileName = "gateway.json"

    /// The name of the gateway for people.
    package var label = ""
    /// The name or address that devices reach the gateway at; in the certificate of the device API and in invitations.
    package var host = ""

    // MARK: Listeners

    /// The addresses and the port of the device API.
    package var api = Listener(addresses: [.v4(0), .v6(0, 0)], port: 8443)
    /// Where the page, the whole API and the metrics listen.
    package var admin = Listener(addresses: [.v4(127, 0, 0, 1)], port: 8080)
    /// The administrators' own certificate and key for that listener, as paths of PEM files; nil: plain HTTP.
    package var adminTLS: CertificateFiles?
    /// The command line's socket.
    package var socket = "/run/culvert-gateway/admin.sock"
    /// PIA's `addKey`.
    package var addKey = AddKey()
    /// The login tunnel, with or without WireGuard.
    package var loginTunnel = LoginTunnel()

    // MARK: The tunnel

    /// Whether WireGuard is served. Without it there is the login tunnel alone: no device enrols, and nothing listens for devices.
    package var servesWireGuard = true
    package var interface = "culvert-gw0"
    /// The UDP port of WireGuard.
    package var wireGuardPort: UInt16 = 51_820
    /// The gateway's own addresses in the tunnel, at most one of each family. Their networks are the devices'.
    package var addresses: [InterfaceAddress] = []
    /// The endpoints of WireGuard for devices. If it is empty, the endpoint is ``host`` and ``wireGuardPort``.
    package var endpoints: [EndpointAddress] = []
    package var dns: [IPAddress] = []
    /// The most name servers that a device gets.
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
    /// Networks that devices reach though they are private.
    package var allowedNetworks: [IPPrefix] = []
    /// Interfaces between which packets are forwarded as well, where the host forwarded nothing before.
    package var otherInterfaces: [String] = []

    // MARK: Lifetimes and limits

    /// How long an enrolled device lasts without renewal; 0: for as long as it is not removed.
    package var deviceLifetimeSeconds = 0
    /// The time after which a device renews.
    package var renewAfterSeconds = 86_400
    package var invitationLifetimeSeconds = 259_200
    /// The lifetime of tokens that are made without one; 0 for no limit.
    package var tokenLifetimeSeconds = 31_536_000
    /// The time for which no device gets a released address.
    package var addressRestSeconds = 86_400
    /// How long devices have to follow to a new server key.
    package var serverKeyOverlapSeconds = 604_800
    /// How long entries of the audit log are kept; 0: for ever.
    package var auditLifetimeSeconds = 31_536_000
    package var devicesPerUser = 10
    /// All devices.
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
        /// How long a key may be silent before it is forgotten.
        package var idleKeySeconds = 10_800

        package init() {}
    }

    package struct LoginTunnel: Hashable, Sendable {
        package var isEnabled = false
        package var port: UInt16 = 51_840
        /// The tunnel's interface, behind the same firewall as WireGuard's if there is that.
        package var interface = "culvert-login0"
        /// Sessions that a user has at the same time; one more ends the oldest.
        package var sessionsPerUser = 5
        static let mostSessionsPerUser = 1000
        /// The time after a session for which the next login of its user gets its addresses. Then they begin to rest.
        package var leaseSeconds = 3600
        /// How long a session lasts before its client has to log in again; 0: as long as it likes.
        package var sessionLifetimeSeconds = 0
        /// The cost of the hash of a new password.
        package var passwordCost = PasswordHash.Cost()

        package init() {}
    }
}

extension GatewaySettings {
    /// The endpoints of WireGuard for devices.
    /// - Throws: ``AddressTextError`` if ``endpoints`` is empty and ``host`` cannot be an endpoint's host.
    package func effectiveEndpoints() throws(AddressTextError) -> [EndpointAddress] {
        endpoints.isEmpty ? [try EndpointAddress(host: host, port: wireGuardPort)] : endpoints
    }

    /// The networks that devices have their addresses from.
    package var networks: [IPPrefix] { addresses.map(\.network) }
}
