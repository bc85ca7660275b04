// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import Provisioning
import TunnelSystem

/// What a device may reach, or who may reach it. Rules have an order; the first that fits counts, those of the device before
/// those of its user.
package struct Rule: Hashable, Sendable {
    package enum Owner: Hashable, Sendable {
        case user(UserID)
        case device(DeviceID)
    }

    package let id: RuleID
    package let owner: Owner
    package var content: RuleContent

    package init(id: RuleID, owner: Owner, content: RuleContent) {
        self.id = id
        self.owner = owner
        self.content = content
    }
}

/// What a rule says.
package struct RuleContent: Hashable, Sendable {
    package enum Action: String, Hashable, Sendable, CaseIterable { case allow, deny }
    package enum Transport: String, Hashable, Sendable, CaseIterable { case any, tcp, udp, icmp }
    package enum Direction: String, Hashable, Sendable, CaseIterable {
        /// From the device to these networks.
        case out
        /// From these networks to the device.
        case `in`
    }

    package var action: Action
    package var direction: Direction
    /// Empty: any.
    package var networks: [IPPrefix]
    package var transport: Transport
    /// Of the destination; empty: any. For `tcp` and `udp` alone.
    package var ports: [ClosedRange<UInt16>]
    package var notes: String

    package init(
        _ action: Action, direction: Direction = .out, networks: [IPPrefix] = [], transport: Transport = .any,
        ports: [ClosedRange<UInt16>] = [], notes: String = ""
    ) {
        self.action = action
        self.direction = direction
        self.networks = networks
        self.transport = transport
        self.ports = ports
        self.notes = notes
    }
}

extension RuleContent: Declared {
    package static let message = Message<RuleContent> {
        Field("action", \.action, .choice, options: .required, column: "action")
        Field(
            "direction", \.direction, .choice, options: .create, column: "direction",
            "out: from the device; in: to the device")
        Field(
            "networks", \.networks, .list(of: .network, count: 0...64), options: .create, column: "networks",
            "Empty for any")
        Field("transport", \.transport, .choice, options: .create, column: "transport")
        Field(
            "ports", \.ports, .list(of: .ports, count: 0...64), options: .create, column: "ports",
            "Of the destination; empty for any")
        Field("notes", \.notes, .line(0...500), options: .create, column: "notes")
    }

    /// Reads a rule of a request.
    /// - Parameter path: The path of the rule in the body, for errors.
    init(json: JSON, at path: String) throws(ContractError) {
        let values = try Self.message.decode(json, .create, at: path)
        self.init(.deny)
        // The action is a required member.
        values.apply(to: &self)
    }
}

extension Rule {
    /// The columns of the command line's tables.
    package static var columns: [(title: String, member: String)] { [("id", "id")] + RuleContent.message.columns() }

    /// The schema of a rule in a reply: the ID, and all members of a request.
    static var schema: JSONSchema {
        let members = RuleContent.message.schemaMembers(.create)
        return .object(
            [.init("id", .id)] + members.map { .init($0.name, $0.schema, isRequired: true, note: $0.note) })
    }

    /// The rule as replies show it.
    var json: JSON {
        .object([JSON.Member(name: "id", value: .string(id.description))] + RuleContent.message.members(content))
    }
}
