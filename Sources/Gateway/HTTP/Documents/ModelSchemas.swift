// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning

/// The schemas that the API document names.
enum ModelSchemas {
    static let all: [(name: String, schema: JSONSchema)] = [
        ("Problem", problem), ("Grant", grant), ("User", User.message.schema(.reply)),
        ("UserDraft", User.message.schema(.create)), ("UserUpdate", User.message.schema(.patch)),
        ("Device", Device.message.schema(.reply)), ("DeviceDraft", Device.message.schema(.create)),
        ("DeviceUpdate", Device.message.schema(.patch)), ("Token", Token.message.schema(.reply)),
        ("TokenDraft", TokenDraft.message.schema(.create)),
        ("Invitation", IssuedInvitation.message.schema(.reply)),
        ("InvitationDraft", InvitationDraft.message.schema(.create)), ("Rule", Rule.schema),
        ("RuleDraft", RuleContent.message.schema(.create)), ("Cooldown", CooldownEntry.message.schema(.reply)),
        ("AuditEntry", AuditEntry.message.schema(.reply)), ("Status", GatewayStatus.message.schema(.reply)),
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
}
