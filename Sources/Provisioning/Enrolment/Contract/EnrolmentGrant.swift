// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import WireGuardCore

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// The gateway's assignment to a device: the reply to an enrolment, a request for the grant, a renewal or a rotation.
public struct EnrolmentGrant: ContractMessage {
    /// The device in the gateway's records.
    public struct Device: Hashable, Sendable {
        /// The device's ID.
        public var id: RandomID
        /// The display name.
        public var name: String
        /// The user of the device.
        public var user: String
        /// The device's key.
        public var publicKey: PublicKey
        /// The time of its enrolment.
        public var createdAt: Date
        /// The time until the device expires unless it renews; `nil` for no expiry.
        public var expiresInSeconds: Int64?

        /// Makes a device.
        public init(
            id: RandomID, name: String, user: String, publicKey: PublicKey, createdAt: Date,
            expiresInSeconds: Int64? = nil
        ) {
            self.id = id
            self.name = name
            self.user = user
            self.publicKey = publicKey
            self.createdAt = createdAt
            self.expiresInSeconds = expiresInSeconds
        }
    }

    /// A WireGuard server that accepts the device.
    public struct Server: Hashable, Sendable {
        /// The server's key.
        public var publicKey: PublicKey
        /// The server's endpoints, the preferred one first.
        public var endpoints: [EndpointAddress]
        /// The remaining lifetime of the key, or `nil` if no end is planned.
        public var notAfterSeconds: Int64?

        /// Makes a server.
        public init(publicKey: PublicKey, endpoints: [EndpointAddress], notAfterSeconds: Int64? = nil) {
            self.publicKey = publicKey
            self.endpoints = endpoints
            self.notAfterSeconds = notAfterSeconds
        }
    }

    /// The device.
    public var device: Device
    /// The device's addresses in the tunnel, at most one of each family.
    public var addresses: [IPAddress]
    /// The servers, the preferred one first.
    public var servers: [Server]
    /// Name servers inside the tunnel.
    public var dns: [IPAddress]
    /// The search domains for short names.
    public var searchDomains: [String]
    /// The networks that are routed into the tunnel.
    public var routes: [IPPrefix]
    /// The largest size of an IP packet in the tunnel, in bytes.
    public var mtu: Int
    /// The interval of keepalives in seconds; 0 disables them.
    public var keepaliveSeconds: UInt16
    /// The pre-shared key of the handshakes; `nil` if there is none.
    public var presharedKey: PresharedKey?
    /// The time until the device should renew, in seconds.
    public var renewAfterSeconds: Int64
    /// The gateway's time.
    public var serverTime: Date
    /// The pins of the gateway's present keys, active and backup, which replace the device's earlier pins; `nil` if the
    /// gateway does not announce them.
    public var pins: [ServerKeyPin]?

    /// Makes a grant.
    public init(
        device: Device, addresses: [IPAddress], servers: [Server], dns: [IPAddress] = [], searchDomains: [String] = [],
        routes: [IPPrefix], mtu: Int = 1420, keepaliveSeconds: UInt16 = 25, presharedKey: PresharedKey? = nil,
        renewAfterSeconds: Int64, serverTime: Date, pins: [ServerKeyPin]? = nil
    ) {
        self.device = device
        self.addresses = addresses
        self.servers = servers
        self.dns = dns
        self.searchDomains = searchDomains
        self.routes = routes
        self.mtu = mtu
        self.keepaliveSeconds = keepaliveSeconds
        self.presharedKey = presharedKey
        self.renewAfterSeconds = renewAfterSeconds
        self.serverTime = serverTime
        self.pins = pins
    }
}

// MARK: - JSON

extension EnrolmentGrant {
    /// The members.
    public static let message = CompleteMessage<EnrolmentGrant>(
        EnrolmentGrant.init(
            device:addresses:servers:dns:searchDomains:routes:mtu:keepaliveSeconds:presharedKey:renewAfterSeconds:
            serverTime:pins:
        ),
        TypedField("device", \.device, .object(Device.message, .reply)),
        TypedField("addresses", \.addresses, .list(of: .clientAddress, count: 1...2).withLengthsInReplies),
        TypedField("servers", \.servers, .list(of: .object(Server.message, .reply), count: 1...64)),
        TypedField("dns", \.dns, .list(of: .address, count: 0...16)),
        TypedField("searchDomains", \.searchDomains, .searchDomains),
        TypedField("routes", \.routes, .list(of: .network, count: 0...1024)),
        TypedField("mtu", \.mtu, .integer(576...65_535)),
        TypedField("keepaliveSeconds", \.keepaliveSeconds, .integer(0...65_535)),
        TypedField("presharedKey", \.presharedKey, .optional(.presharedKey)),
        TypedField("renewAfterSeconds", \.renewAfterSeconds, .seconds(from: 1)),
        TypedField("serverTime", \.serverTime, .time),
        TypedField(
            "pins", \.pins, .optional(.list(of: .pin, count: 2...16)),
            "The pins of the gateway's keys, active and backup, which replace the device's earlier pins"),
        check: { (grant) throws(ContractError) in try grant.checkTogether() })

    private func checkTogether() throws(ContractError) {
        // With one key, a device could not follow the gateway to its next one.
        guard pins.map({ Set($0).count == $0.count }) ?? true else {
            throw ContractError(field: "pins", problem: "must be different keys")
        }
        guard addresses.count == 1 || addresses[0].isIPv6 != addresses[1].isIPv6 else {
            throw ContractError(field: "addresses", problem: "must not both be of one family")
        }
        // An IPv6 link has at least 1280 bytes (RFC 8200 section 5).
        guard mtu >= 1280 || !addresses.contains(where: \.isIPv6) else {
            throw ContractError(field: "mtu", problem: "must be 1280 to 65535 with an IPv6 address, not \(mtu)")
        }
    }
}

extension EnrolmentGrant.Device {
    fileprivate static let message = CompleteMessage<EnrolmentGrant.Device>(
        EnrolmentGrant.Device.init(id:name:user:publicKey:createdAt:expiresInSeconds:),
        TypedField("id", \.id, .id),
        TypedField("name", \.name, .line(0...64)),
        // A login may have up to 128 characters, because the import of a credential server's users permits longer
        // logins than the API.
        TypedField("user", \.user, .line(0...128)),
        TypedField("publicKey", \.publicKey, .key),
        TypedField("createdAt", \.createdAt, .time),
        TypedField("expiresInSeconds", \.expiresInSeconds, .optional(.seconds())))
}

extension EnrolmentGrant.Server {
    fileprivate static let message = CompleteMessage<EnrolmentGrant.Server>(
        EnrolmentGrant.Server.init(publicKey:endpoints:notAfterSeconds:),
        TypedField("publicKey", \.publicKey, .key),
        TypedField("endpoints", \.endpoints, .list(of: .endpoint, count: 1...16)),
        TypedField("notAfterSeconds", \.notAfterSeconds, .optional(.seconds())))
}

extension ValueFormat where Value == IPAddress {
    /// An address that a device can have in the tunnel.
    fileprivate static var clientAddress: ValueFormat<IPAddress> {
        address.refusing { address in
            let isPossible =
                !address.isUnspecified && !address.isMulticast && !address.isLoopback && !address.isBroadcast
            return isPossible ? nil : "must be an address that a client can have, not \(address)"
        }
    }
}
