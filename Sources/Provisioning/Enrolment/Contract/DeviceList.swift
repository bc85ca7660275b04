// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import WireGuardCore

#if canImport(FoundationEssentials)
    public import FoundationEssentials
#else
    public import Foundation
#endif

/// A device of the user in the reply to `GET /v1/devices`.
public struct DeviceListEntry: ContractMessage, Hashable {
    /// The device's ID.
    public var id: RandomID
    /// The display name.
    public var name: String
    /// The device's platform.
    public var platform: String?
    /// The device's key.
    public var publicKey: PublicKey
    /// The time of its enrolment.
    public var createdAt: Date
    /// The time until the device expires unless it renews; `nil` for no expiry.
    public var expiresInSeconds: Int64?
    /// The time since the device was last seen; `nil` if it was never seen.
    public var lastSeenSecondsAgo: Int64?
    /// Whether this device sent the request.
    public var isCurrent: Bool

    /// Makes an entry.
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

    /// The time of the enrolment in UTC (RFC 3339).
    package var createdAtText: String { createdAt.formatted(.iso8601) }

    /// The members.
    public static let message = CompleteMessage<DeviceListEntry>(
        DeviceListEntry.init(id:name:platform:publicKey:createdAt:expiresInSeconds:lastSeenSecondsAgo:isCurrent:),
        TypedField("id", \.id, .id),
        TypedField("name", \.name, .line(0...64)),
        TypedField("platform", \.platform, .optional(.line(0...32))),
        TypedField("publicKey", \.publicKey, .key),
        TypedField("createdAt", \.createdAt, .time),
        TypedField("expiresInSeconds", \.expiresInSeconds, .optional(.seconds())),
        TypedField("lastSeenSecondsAgo", \.lastSeenSecondsAgo, .optional(.seconds())),
        TypedField("isCurrent", \.isCurrent, .flag))
}

/// The reply to `GET /v1/devices`.
public struct DeviceList: ContractMessage, Hashable {
    /// The devices.
    public var devices: [DeviceListEntry]

    /// Makes a list.
    public init(devices: [DeviceListEntry]) { self.devices = devices }

    /// The members.
    public static let message = CompleteMessage<DeviceList>(
        DeviceList.init(devices:),
        TypedField("devices", \.devices, .list(of: .object(DeviceListEntry.message, .reply), count: 0...10_000)))
}
