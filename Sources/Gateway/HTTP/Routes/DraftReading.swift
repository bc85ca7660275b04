// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Provisioning
import TunnelSystem

// What the administrators' API reads: strictly, and with the field that is wrong in the error.

extension DeviceDraft {
    init(json: JSON) throws(ContractError) {
        let fields = try ContractFields(
            JSONValue(json), known: ["user", "name", "notes", "publicKey", "addresses", "subnets", "expiresAt"])
        self.init(
            userID: try fields.value("user") { (value) throws(ContractError) in try value.id() },
            name: try fields.value("name") { (value) throws(ContractError) in try value.label(1...64) },
            notes: try fields.present("notes") { (value) throws(ContractError) in try value.label(0...500) } ?? "",
            publicKey: try fields.value("publicKey") { (value) throws(ContractError) in try value.publicKey() },
            addresses: try fields.present("addresses") { (value) throws(ContractError) in
                try value.list(0...2) { (value) throws(ContractError) in try value.address() }
            } ?? [],
            subnets: try fields.present("subnets") { (value) throws(ContractError) in try value.networks(64) } ?? [],
            expiresAt: try fields.optional("expiresAt") { (value) throws(ContractError) in try value.time() })
    }
}

extension DeviceUpdate {
    init(json: JSON) throws(ContractError) {
        let fields = try ContractFields(JSONValue(json), known: ["name", "notes", "isEnabled", "expiresAt", "subnets"])
        self.init()
        name = try fields.present("name") { (value) throws(ContractError) in try value.label(1...64) }
        notes = try fields.present("notes") { (value) throws(ContractError) in try value.label(0...500) }
        isEnabled = try fields.present("isEnabled") { (value) throws(ContractError) in try value.flag() }
        expiresAt = try fields.change("expiresAt") { (value) throws(ContractError) in try value.time() }
        subnets = try fields.present("subnets") { (value) throws(ContractError) in try value.networks(64) }
    }
}

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

extension RuleContent {
    /// All rules of somebody: `{"rules": […]}`.
    static func list(json: JSON) throws(ContractError) -> [RuleContent] {
        try ContractFields(JSONValue(json), known: ["rules"]).value("rules") { (value) throws(ContractError) in
            try value.list(0...Rule.most) { (value) throws(ContractError) in try RuleContent(value) }
        }
    }

    fileprivate init(_ value: ContractValue) throws(ContractError) {
        let fields = try ContractFields(
            value.json, path: value.field, known: ["action", "direction", "networks", "transport", "ports", "notes"])
        self.init(
            try fields.value("action") { (value) throws(ContractError) in try value.choice(Action.self) },
            direction: try fields.present("direction") { (value) throws(ContractError) in
                try value.choice(Direction.self)
            } ?? .out,
            networks: try fields.present("networks") { (value) throws(ContractError) in try value.networks(256) } ?? [],
            transport: try fields.present("transport") { (value) throws(ContractError) in
                try value.choice(Transport.self)
            } ?? .any,
            ports: try fields.present("ports") { (value) throws(ContractError) in
                try value.list(0...64) { (value) throws(ContractError) in try value.ports() }
            } ?? [],
            notes: try fields.present("notes") { (value) throws(ContractError) in try value.label(0...500) } ?? "")
    }
}

extension RuleAddition {
    init(json: JSON) throws(ContractError) {
        let fields = try ContractFields(JSONValue(json), known: ["rule", "isFirst"])
        self.init(
            try fields.value("rule") { (value) throws(ContractError) in try RuleContent(value) },
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
            Int(try value.integer(1...JSONSchema.longestLifetime))
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

    fileprivate func networks(_ most: Int) throws(ContractError) -> [IPPrefix] {
        try list(0...most) { (value) throws(ContractError) in try value.prefix() }
    }

    /// `443` or `8000-8100`.
    fileprivate func ports() throws(ContractError) -> ClosedRange<UInt16> {
        let parts = try text().split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count <= 2, let first = parts.first.flatMap({ UInt16($0) }), first > 0,
            let last = parts.last.flatMap({ UInt16($0) }), first <= last,
            parts.allSatisfy({ part in part.utf8.allSatisfy { (48...57).contains($0) } && !part.hasPrefix("0") })
        else { throw error("it is no port such as 443, and no range such as 8000-8100") }
        return first...last
    }
}

extension JSONSchema {
    /// A hundred years.
    static let longestLifetime: Int64 = 3_153_600_000
}
