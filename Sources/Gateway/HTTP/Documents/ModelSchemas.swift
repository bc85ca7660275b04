// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning

/// The named schemas of the API document.
enum ModelSchemas {
    static let all: [(name: String, schema: JSONSchema)] = [
        ("Problem", problem), ("Grant", grant), ("User", User.message.schema(.reply)),
        ("UserDraft", User.message.schema(.create)), ("UserUpdate", User.message.schema(.patch)),
        ("Device", Device.message.schema(.reply)), ("DeviceDraft", Device.message.schema(.create)),
        ("DeviceUpdate", Device.message.schema(.patch)), ("Token", Token.message.schema(.reply)),
        ("TokenDraft", TokenDraft.message.schema(.create)),
        ("Invitation", IssuedInvitation.message.schema(.reply)),
        ("InvitationDraft", InvitationDraft.message.schema(.create)), ("Rule", Rule.schema),
        ("RuleDraft", Rule.message.schema(.create)), ("Cooldown", CooldownEntry.message.schema(.reply)),
        ("AuditEntry", AuditEntry.message.schema(.reply)), ("Status", GatewayStatus.message.schema(.reply)),
    ]

    static let problem = ProblemDetails.schema

    /// The schema of a problem with additional members.
    static func problemSchema(with members: [JSONSchema.Member]) -> JSONSchema {
        .object(ProblemDetails.message.schemaMembers(.reply) + members)
    }

    static let grant = EnrolmentGrant.schema
}
