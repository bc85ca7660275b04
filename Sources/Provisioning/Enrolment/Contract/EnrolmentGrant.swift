// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
public import WireGuardCore

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// What a device is given, by enrolling, asking again, renewing or rotating.
public struct EnrolmentGrant: ContractMessage {
    /// The device that the gateway knows.
    public struct Device: Hashable, Sendable {
        /// Its id.
        public var id: RandomID
        /// What people call it.
        public var name: String
        /// Whose it is.
        public var user: String
        /// Its key.
        public var publicKey: PublicKey
        /// When it enrolled.
        public var createdAt: Date
        /// How long it may be used from now on, unless it renews; nil for ever.
        public var expiresInSeconds: Int64?

        /// A device.
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

    /// A WireGuard server that takes the device.
    public struct Server: Hashable, Sendable {
        /// Its key.
        public var publicKey: PublicKey
        /// Where it listens, the best first.
        public var endpoints: [EndpointAddress]
        /// How long the key is going to be in use; nil where no end is planned.
        public var notAfterSeconds: Int64?

        /// A server.
        public init(publicKey: PublicKey, endpoints: [EndpointAddress], notAfterSeconds: Int64? = nil) {
            self.publicKey = publicKey
            self.endpoints = endpoints
            self.notAfterSeconds = notAfterSeconds
        }
    }

    /// The device.
    public var device: Device
    /// Its addresses in the tunnel: at most one of each family.
    public var addresses: [IPAddress]
    /// The servers, the best first.
    public var servers: [Server]
    /// Name servers inside the tunnel.
    public var dns: [IPAddress]
    /// Names that are tried behind a short one.
    public var searchDomains: [String]
    /// What is routed into the tunnel.
    public var routes: [IPPrefix]
    /// The most bytes of one IP packet in the tunnel.
    public var mtu: Int
    /// Seconds between keepalives; 0 for none.
    public var keepaliveSeconds: UInt16
    /// Mixed into each handshake.
    public var presharedKey: PresharedKey?
    /// When to renew, from now on.
    public var renewAfterSeconds: Int64
    /// What time it is for the gateway.
    public var serverTime: Date

    /// A grant.
    public init(
        device: Device, addresses: [IPAddress], servers: [Server], dns: [IPAddress] = [], searchDomains: [String] = [],
        routes: [IPPrefix], mtu: Int = 1420, keepaliveSeconds: UInt16 = 25, presharedKey: PresharedKey? = nil,
        renewAfterSeconds: Int64, serverTime: Date
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
    }
}

// MARK: - JSON

extension EnrolmentGrant {
    /// Reads the grant.
    public init(json: JSONValue) throws(ContractError) {
        let fields = try ContractFields(json)
        device = try fields.value("device") { (value) throws(ContractError) in try Device(value) }
        addresses = try fields.value("addresses") { (value) throws(ContractError) in
            try value.list(1...2) { (value) throws(ContractError) in
                let address = try value.address()
                guard !address.isUnspecified, !address.isMulticast, !address.isLoopback, !address.isBroadcast else {
                    throw value.error("\(address) is no client's address")
                }
                return address
            }
        }
        guard addresses.count == 1 || addresses[0].isIPv6 != addresses[1].isIPv6 else {
            throw ContractError(field: "addresses", problem: "both are of one family")
        }
        servers = try fields.value("servers") { (value) throws(ContractError) in
            try value.list(1...64) { (value) throws(ContractError) in try Server(value) }
        }
        dns = try fields.value("dns") { (value) throws(ContractError) in
            try value.list(0...16) { (value) throws(ContractError) in try value.address() }
        }
        searchDomains = try fields.value("searchDomains") { (value) throws(ContractError) in
            try value.list(0...64) { (value) throws(ContractError) in try value.domain() }
        }
        routes = try fields.value("routes") { (value) throws(ContractError) in
            try value.list(0...1024) { (value) throws(ContractError) in try value.prefix() }
        }
        // An IPv6 link has at least 1280 bytes (RFC 8200 section 5).
        let least: Int64 = addresses.contains(where: \.isIPv6) ? 1280 : 576
        mtu = try fields.value("mtu") { (value) throws(ContractError) in Int(try value.integer(least...65_535)) }
        keepaliveSeconds = try fields.value("keepaliveSeconds") { (value) throws(ContractError) in
            UInt16(try value.integer(0...65_535))
        }
        presharedKey = try fields.optional("presharedKey") { (value) throws(ContractError) in
            try value.presharedKey()
        }
        renewAfterSeconds = try fields.value("renewAfterSeconds") { (value) throws(ContractError) in
            try value.seconds(from: 1)
        }
        serverTime = try fields.value("serverTime") { (value) throws(ContractError) in try value.time() }
    }

    /// The grant as JSON.
    public var json: JSONValue {
        .members([
            "device": device.json, "addresses": .texts(addresses), "servers": .array(servers.map(\.json)),
            "dns": .texts(dns), "searchDomains": .texts(searchDomains), "routes": .texts(routes),
            "mtu": .integer(Int64(mtu)), "keepaliveSeconds": .integer(Int64(keepaliveSeconds)),
            "presharedKey": presharedKey.map { .string($0.exportedBase64) },
            "renewAfterSeconds": .integer(renewAfterSeconds), "serverTime": .time(serverTime),
        ])
    }
}

extension EnrolmentGrant.Device {
    fileprivate init(_ value: ContractValue) throws(ContractError) {
        let fields = try ContractFields(value.json, path: value.field)
        id = try fields.value("id") { (value) throws(ContractError) in try value.id() }
        name = try fields.value("name") { (value) throws(ContractError) in try value.label(0...64) }
        user = try fields.value("user") { (value) throws(ContractError) in try value.label(0...64) }
        publicKey = try fields.value("publicKey") { (value) throws(ContractError) in try value.publicKey() }
        createdAt = try fields.value("createdAt") { (value) throws(ContractError) in try value.time() }
        expiresInSeconds = try fields.optional("expiresInSeconds") { (value) throws(ContractError) in
            try value.seconds()
        }
    }

    fileprivate var json: JSONValue {
        .members([
            "id": .string(id.description), "name": .string(name), "user": .string(user),
            "publicKey": .string(publicKey.base64), "createdAt": .time(createdAt),
            "expiresInSeconds": expiresInSeconds.map { .integer($0) },
        ])
    }
}

extension EnrolmentGrant.Server {
    fileprivate init(_ value: ContractValue) throws(ContractError) {
        let fields = try ContractFields(value.json, path: value.field)
        publicKey = try fields.value("publicKey") { (value) throws(ContractError) in try value.publicKey() }
        endpoints = try fields.value("endpoints") { (value) throws(ContractError) in
            try value.list(1...16) { (value) throws(ContractError) in try value.endpoint() }
        }
        notAfterSeconds = try fields.optional("notAfterSeconds") { (value) throws(ContractError) in
            try value.seconds()
        }
    }

    fileprivate var json: JSONValue {
        .members([
            "publicKey": .string(publicKey.base64), "endpoints": .texts(endpoints),
            "notAfterSeconds": notAfterSeconds.map { .integer($0) },
        ])
    }
}
