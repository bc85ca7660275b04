// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning

/// The schemas that stand in the document under a name of their own. What is written beside them is in `ModelJSON.swift` and
/// `DraftReading.swift`; tests compare.
enum ModelSchemas {
    static let all: [(name: String, schema: JSONSchema)] = [
        ("Problem", problem), ("Grant", grant), ("User", User.message.schema(.reply)),
        ("UserDraft", User.message.schema(.create)), ("UserUpdate", User.message.schema(.patch)),
        ("Device", device), ("DeviceDraft", deviceDraft), ("DeviceUpdate", deviceUpdate), ("Token", token),
        ("TokenDraft", tokenDraft), ("Invitation", invitation), ("InvitationDraft", invitationDraft), ("Rule", rule),
        ("RuleDraft", ruleDraft), ("Cooldown", cooldown), ("AuditEntry", auditEntry), ("Status", status),
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

    static let device = JSONSchema.object([
        .init("id", .id), .init("user", .id), .init("kind", .choice(Device.Kind.allCases.map(\.rawValue))),
        .init("name", .text()), .init("notes", .text()), .init("platform", .text(), isRequired: false),
        .init("publicKey", .key, isRequired: false), .init("keyAt", .time, isRequired: false),
        .init("addresses", .list(of: .address)), .init("subnets", .list(of: .prefix)), .init("isEnabled", .flag),
        .init("expiresAt", .time, isRequired: false), .init("createdAt", .time),
        .init("lastSeenAt", .time, isRequired: false), .init("lastEndpoint", .text(), isRequired: false),
        .init("receivedBytes", .count), .init("sentBytes", .count), isSaved,
    ])

    static let deviceDraft = JSONSchema.object(
        [
            .init("user", .id), .init("name", .line(1...64)), .init("notes", .line(0...500), isRequired: false),
            .init("publicKey", .key, note: "Its private key stays where it was made"),
            .init("addresses", .list(of: .address, count: 0...2), isRequired: false),
            .init("subnets", .list(of: .prefix, count: 0...64), isRequired: false, note: "Networks behind it"),
            .init("expiresAt", .optional(.time), isRequired: false),
        ], isClosed: true)

    static let deviceUpdate = JSONSchema.object(
        [
            .init("name", .line(1...64), isRequired: false), .init("notes", .line(0...500), isRequired: false),
            .init("isEnabled", .flag, isRequired: false),
            .init("expiresAt", .optional(.time), isRequired: false, note: "null for never"),
            .init("subnets", .list(of: .prefix, count: 0...64), isRequired: false),
        ], isClosed: true)

    static let token = JSONSchema.object([
        .init("id", .id), .init("scope", scope), .init("user", .id, isRequired: false),
        .init("device", .id, isRequired: false), .init("name", .text()),
        .init("hint", .text(), note: "Its first characters"), .init("createdAt", .time),
        .init("expiresAt", .time, isRequired: false), .init("lastUsedAt", .time, isRequired: false),
        .init("revokedAt", .time, isRequired: false), isSaved,
    ])

    private static let scope = JSONSchema.choice(Token.Scope.allCases.map(\.rawValue))
    private static let lifetime = JSONSchema.integer(1...JSONSchema.longestLifetime)

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

    private static let ruleMembers: [JSONSchema.Member] = [
        .init("action", .choice(RuleContent.Action.allCases.map(\.rawValue))),
        .init(
            "direction", .choice(RuleContent.Direction.allCases.map(\.rawValue)), isRequired: false,
            note: "out: from the device; in: to the device"),
        .init("networks", .list(of: .prefix, count: 0...256), isRequired: false, note: "Empty for any"),
        .init("transport", .choice(RuleContent.Transport.allCases.map(\.rawValue)), isRequired: false),
        .init(
            "ports", .list(of: .text(note: "443, or 8000-8100"), count: 0...64), isRequired: false,
            note: "Of the destination; empty for any"), .init("notes", .line(0...500), isRequired: false),
    ]

    static let rule = JSONSchema.object(
        [.init("id", .id)]
            + ruleMembers.map { .init($0.name, $0.schema, isRequired: true, note: $0.note) })

    static let ruleDraft = JSONSchema.object(ruleMembers, isClosed: true)

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
                ]))), .init("serverKey", .key), .init("nextServerKey", .key, isRequired: false),
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
