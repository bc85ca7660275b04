// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning

/// The named schemas of the API document. A declared type's schema comes from its declaration. The other types are encoded in
/// `ModelJSON.swift` and decoded in `DraftReading.swift`; tests compare the three.
enum ModelSchemas {
    static let all: [(name: String, schema: JSONSchema)] = [
        ("Problem", problem), ("Grant", grant), ("User", User.message.schema(.reply)),
        ("UserDraft", User.message.schema(.create)), ("UserUpdate", User.message.schema(.patch)),
        ("Device", Device.message.schema(.reply)), ("DeviceDraft", Device.message.schema(.create)),
        ("DeviceUpdate", Device.message.schema(.patch)), ("Token", token),
        ("TokenDraft", tokenDraft), ("Invitation", invitation), ("InvitationDraft", invitationDraft),
        ("Rule", Rule.schema),
        ("RuleDraft", Rule.message.schema(.create)), ("Cooldown", cooldown), ("AuditEntry", auditEntry),
        ("Status", status),
    ]

    static let problem = problemSchema(with: [])

    /// A problem with further members.
    static func problemSchema(with members: [JSONSchema.Member]) -> JSONSchema {
        .object(
            [
                .init("type", .text()), .init("title", .text()), .init("status", .integer(100...599)),
                .init("detail", .text(), isRequired: false),
                .init("code", .text(), isRequired: false, note: "For programs"),
            ] + members)
    }

    static let grant = JSONSchema.object([
        .init(
            "device",
            .object([
                .init("id", .id), .init("name", .text()), .init("user", .text()), .init("publicKey", .key),
                .init("createdAt", .time), .init("expiresInSeconds", .seconds, isRequired: false),
            ])), .init("addresses", .list(of: .address, count: 1...2)),
        .init(
            "servers",
            .list(
                of: .object([
                    .init("publicKey", .key), .init("endpoints", .list(of: .endpoint)),
                    .init("notAfterSeconds", .seconds, isRequired: false),
                ]))), .init("dns", .list(of: .address)), .init("searchDomains", .list(of: .text())),
        .init("routes", .list(of: .prefix)), .init("mtu", .integer(576...65_535)),
        .init("keepaliveSeconds", .integer(0...65_535)), .init("presharedKey", .key, isRequired: false),
        .init("renewAfterSeconds", .seconds), .init("serverTime", .time),
    ])

    private static let isSaved = JSONSchema.Member(
        "isSaved", .flag, isRequired: false,
        note: "false while the end of access is in effect and not written to the database")

    static let token = JSONSchema.object([
        .init("id", .id), .init("scope", scope), .init("user", .id, isRequired: false),
        .init("device", .id, isRequired: false), .init("name", .text()),
        .init("hint", .text(), note: "Its first characters"), .init("createdAt", .time),
        .init("expiresAt", .time, isRequired: false), .init("lastUsedAt", .time, isRequired: false),
        .init("revokedAt", .time, isRequired: false), isSaved,
    ])

    private static let scope = JSONSchema.choice(Token.Scope.allCases.map(\.rawValue))
    private static let lifetime = JSONSchema.integer(1...Int64(Check.longestLifetime))

    static let tokenDraft = JSONSchema.object(
        [
            .init("scope", scope), .init("user", .id, isRequired: false, note: "For enrol and addKey"),
            .init("name", .line(1...64)), .init("lifetimeSeconds", .optional(lifetime), isRequired: false),
        ], isClosed: true)

    static let invitation = JSONSchema.object([
        .init("id", .id), .init("user", .id), .init("deviceName", .text()), .init("hint", .text()),
        .init("createdAt", .time), .init("expiresAt", .time), .init("usedAt", .time, isRequired: false),
        .init("device", .id, isRequired: false), .init("revokedAt", .time, isRequired: false),
        .init("misuses", .count, note: "Attempts to use it again with something else"), isSaved,
    ])

    static let invitationDraft = JSONSchema.object(
        [
            .init("user", .id), .init("deviceName", .line(0...64), isRequired: false),
            .init("lifetimeSeconds", .optional(lifetime), isRequired: false),
        ], isClosed: true)

    static let auditEntry = JSONSchema.object([
        .init("number", .count), .init("at", .time), .init("actor", .text()),
        .init("source", .address, isRequired: false),
        .init("action", .choice(AuditRecord.Action.allCases.map(\.rawValue))), .init("subject", .text()),
        .init("details", .texts),
        .init("count", .count, note: "The number of equal events within a minute of the first, whose time is `at`"),
    ])

    static let cooldown = JSONSchema.object([
        .init("address", .address), .init("network", .prefix),
        .init("user", .id, isRequired: false, note: "The user whose device had the address"),
        .init("login", .text(), isRequired: false, note: "The login of this user, unless the user was removed"),
        .init("releasedAt", .time), .init("endsAt", .time),
    ])

    static let status = JSONSchema.object([
        .init("users", .count), .init("devices", .count), .init("activeDevices", .count),
        .init("logins", .count, note: "Devices that logins have, or have had lately"),
        .init("openInvitations", .count), .init("tokens", .count), .init("sequence", .count),
        .init("receivedBytes", .count), .init("sentBytes", .count),
        .init(
            "pools",
            .list(
                of: .object([
                    .init("network", .prefix), .init("capacity", .count), .init("inUse", .count),
                    .init("resting", .count),
                ]))), .init("servesWireGuard", .flag), .init("serverKey", .key),
        .init("nextServerKey", .key, isRequired: false),
        .init("nextServerKeyAt", .time, isRequired: false), .init("now", .time),
    ])

    /// A part of a list.
    static func page(_ name: String) -> JSONSchema {
        .object([
            .init("items", .list(of: .named(name))),
            .init("next", .text(), isRequired: false, note: "What `after` is for the next page"),
        ])
    }
}
