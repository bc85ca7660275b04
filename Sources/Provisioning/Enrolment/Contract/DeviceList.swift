// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
public import WireGuardCore

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// One of the user's devices, as `GET /v1/devices` lists them.
public struct DeviceListEntry: ContractMessage, Hashable {
    /// Its id.
    public var id: RandomID
    /// What people call it.
    public var name: String
    /// What it runs on.
    public var platform: String?
    /// Its key.
    public var publicKey: PublicKey
    /// When it enrolled.
    public var createdAt: Date
    /// How long it may be used from now on, unless it renews; nil for ever.
    public var expiresInSeconds: Int64?
    /// How long ago it was last there; nil for never.
    public var lastSeenSecondsAgo: Int64?
    /// Whether the list was asked for by this one.
    public var isCurrent: Bool

    /// A device.
    public init(
        id: RandomID, name: String, platform: String? = nil, publicKey: PublicKey, createdAt: Date,
        expiresInSeconds: Int64? = nil, lastSeenSecondsAgo: Int64? = nil, isCurrent: Bool
    ) {
        self.id = id
        self.name = name
        self.platform = platform
        self.publicKey = publicKey
        self.createdAt = createdAt
        self.expiresInSeconds = expiresInSeconds
        self.lastSeenSecondsAgo = lastSeenSecondsAgo
        self.isCurrent = isCurrent
    }

    /// When it enrolled, in UTC (RFC 3339).
    package var createdAtText: String { createdAt.formatted(.iso8601) }

    /// Reads the device.
    public init(json: JSONValue) throws(ContractError) { try self.init(ContractValue(json: json, field: "")) }

    fileprivate init(_ value: ContractValue) throws(ContractError) {
        let fields = try ContractFields(value.json, path: value.field)
        id = try fields.value("id") { (value) throws(ContractError) in try value.id() }
        name = try fields.value("name") { (value) throws(ContractError) in try value.label(0...64) }
        platform = try fields.optional("platform") { (value) throws(ContractError) in try value.label(0...32) }
        publicKey = try fields.value("publicKey") { (value) throws(ContractError) in try value.publicKey() }
        createdAt = try fields.value("createdAt") { (value) throws(ContractError) in try value.time() }
        expiresInSeconds = try fields.optional("expiresInSeconds") { (value) throws(ContractError) in
            try value.seconds()
        }
        lastSeenSecondsAgo = try fields.optional("lastSeenSecondsAgo") { (value) throws(ContractError) in
            try value.seconds()
        }
        isCurrent = try fields.value("isCurrent") { (value) throws(ContractError) in try value.flag() }
    }

    /// The device as JSON.
    public var json: JSONValue {
        .members([
            "id": .string(id.description), "name": .string(name), "platform": platform.map { .string($0) },
            "publicKey": .string(publicKey.base64), "createdAt": .time(createdAt),
            "expiresInSeconds": expiresInSeconds.map { .integer($0) },
            "lastSeenSecondsAgo": lastSeenSecondsAgo.map { .integer($0) }, "isCurrent": .bool(isCurrent),
        ])
    }
}

/// The reply to `GET /v1/devices`.
public struct DeviceList: ContractMessage, Hashable {
    /// The devices.
    public var devices: [DeviceListEntry]

    /// A list.
    public init(devices: [DeviceListEntry]) { self.devices = devices }

    /// Reads the list.
    public init(json: JSONValue) throws(ContractError) {
        devices = try ContractFields(json).value("devices") { (value) throws(ContractError) in
            try value.list(0...10_000) { (value) throws(ContractError) in try DeviceListEntry(value) }
        }
    }

    /// The list as JSON.
    public var json: JSONValue { .members(["devices": .array(devices.map(\.json))]) }
}
