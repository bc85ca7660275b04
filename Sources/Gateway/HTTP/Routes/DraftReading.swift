// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Provisioning
import TunnelSystem

// What the administrators' API reads: strictly, and with the field that is wrong in the error.

extension TokenDraft {
    init(json: JSON) throws(ContractError) {
        let fields = try ContractFields(JSONValue(json), known: ["scope", "user", "name", "lifetimeSeconds"])
        self.init(
            scope: try fields.value("scope") { (value) throws(ContractError) in try value.choice(Token.Scope.self) },
            userID: try fields.present("user") { (value) throws(ContractError) in try value.id() },
            name: try fields.value("name") { (value) throws(ContractError) in try value.label(1...64) },
            lifetimeSeconds: try fields.lifetime())
    }
}

extension InvitationDraft {
    init(json: JSON) throws(ContractError) {
        let fields = try ContractFields(JSONValue(json), known: ["user", "deviceName", "lifetimeSeconds"])
        self.init(
            userID: try fields.value("user") { (value) throws(ContractError) in try value.id() },
            deviceName: try fields.present("deviceName") { (value) throws(ContractError) in try value.label(0...64) }
                ?? "",
            lifetimeSeconds: try fields.lifetime())
    }
}

extension RuleDraft {
    /// All rules of a user or a device: `{"rules": […]}`.
    static func list(json: JSON) throws(ContractError) -> [RuleDraft] {
        try ContractFields(JSONValue(json), known: ["rules"]).value("rules") { (value) throws(ContractError) in
            try value.list(0...Rule.most) { (value) throws(ContractError) in try RuleDraft(value) }
        }
    }

    fileprivate init(_ value: ContractValue) throws(ContractError) {
        self = try Rule.message.decode(value.json.ordered, .create, at: value.field)
    }
}

extension RuleAddition {
    init(json: JSON) throws(ContractError) {
        let fields = try ContractFields(JSONValue(json), known: ["rule", "isFirst"])
        self.init(
            try fields.value("rule") { (value) throws(ContractError) in try RuleDraft(value) },
            isFirst: try fields.present("isFirst") { (value) throws(ContractError) in try value.flag() } ?? false)
    }
}

extension ContractFields {
    /// A member that may be missing, and not `null`.
    fileprivate func present<Value>(
        _ name: String, _ read: (ContractValue) throws(ContractError) -> Value
    ) throws(ContractError) -> Value? {
        guard let change = try change(name, read) else { return nil }
        guard let value = change else { throw ContractError(field: field(name), problem: "it cannot be null") }
        return value
    }

    fileprivate func lifetime() throws(ContractError) -> Int? {
        try optional("lifetimeSeconds") { (value) throws(ContractError) in
            Int(try value.integer(1...Int64(Check.longestLifetime)))
        }
    }
}

extension ContractValue {
    fileprivate func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _: Choice.Type
    ) throws(ContractError) -> Choice {
        guard let choice = Choice(rawValue: try text()) else {
            throw error("it has to be one of \(Choice.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return choice
    }
}
