// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Provisioning
package import TunnelServer

/// A firewall rule for packets of a device or to it. Rules have an order: the first match applies, and the rules of a
/// device precede those of its user.
package struct Rule: Hashable, Sendable {
    package enum Owner: Hashable, Sendable {
        case user(UserID)
        case device(DeviceID)
    }

    package let id: RuleID
    package let owner: Owner
    package var access: AccessRule
    package var notes: String

    package init(id: RuleID, owner: Owner, access: AccessRule, notes: String = "") {
        self.id = id
        self.owner = owner
        self.access = access
        self.notes = notes
    }

    /// - Parameter draft: Checked members, including an action.
    init(id: RuleID, owner: Owner, _ draft: RuleDraft) {
        self.init(id: id, owner: owner, access: AccessRule(.deny))
        draft.apply(to: &self)
    }
}

/// A rule to make: the members of ``Rule/message`` that a creation can have. `action` is required.
package typealias RuleDraft = FieldValues<Rule>

extension FieldValues<Rule> {
    package init(_ access: AccessRule, notes: String = "") {
        self.init()
        self[dynamicMember: \.access.action] = access.action
        self[dynamicMember: \.access.direction] = access.direction
        self[dynamicMember: \.access.networks] = access.networks
        self[dynamicMember: \.access.transport] = access.transport
        self[dynamicMember: \.access.ports] = access.ports
        self.notes = notes
    }
}

extension Rule: Declared {
    package static let message = Message<Rule> {
        Field("id", \.id, .id, column: "id")
        Field("action", \.access.action, .choice, options: .required, column: "action")
        Field(
            "direction", \.access.direction, .choice, options: .create, column: "direction",
            "out: from the device; in: to the device")
        Field(
            "networks", \.access.networks, .list(of: .network, count: 0...64), options: .create, column: "networks",
            "The networks at the other end; empty for any")
        Field("transport", \.access.transport, .choice, options: .create, column: "transport")
        Field(
            "ports", \.access.ports, .list(of: .ports, count: 0...64), options: .create, column: "ports",
            "The destination ports; empty for any")
        Field("notes", \.notes, .line(0...500), options: .create, column: "notes")
    }

    /// The schema of a rule in a reply: the ID and all members of a request.
    static var schema: JSONSchema {
        let members = message.schemaMembers(.create)
        return .object(
            [.init("id", .id)] + members.map { .init($0.name, $0.schema, isRequired: true, note: $0.note) })
    }
}
