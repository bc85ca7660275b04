// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import NetworkAddresses
import Provisioning
import TunnelServer
import WireGuardCore

// How values are written, and what is in a row. Reading never traps: a file that somebody has changed is an error.

extension Date {
    /// Milliseconds since 1970, rounded down; the ends of what fits for what does not.
    package var milliseconds: Int64 {
        let value = (timeIntervalSince1970 * 1000).rounded(.down)
        return Int64(exactly: value) ?? (value < 0 ? .min : .max)
    }

    package init(milliseconds: Int64) { self.init(timeIntervalSince1970: Double(milliseconds) / 1000) }
}

struct Fields {
    let row: Row

    init(_ row: Row) { self.row = row }

    func optional<Value: DatabaseValueConvertible>(_ name: String, as _: Value.Type = Value.self) throws -> Value? {
        let value = row[name] as DatabaseValue
        guard !value.isNull else { return nil }
        guard let value = Value.fromDatabaseValue(value) else { throw damaged(name) }
        return value
    }

    func value<Value: DatabaseValueConvertible>(_ name: String, as type: Value.Type = Value.self) throws -> Value {
        guard let value = try optional(name, as: type) else { throw damaged(name) }
        return value
    }

    func damaged(_ name: String) -> StoreError {
        .unavailable("the database is damaged: '\(name)' has a value that it cannot have")
    }

    func text(_ name: String) throws -> String { try value(name) }
    func flag(_ name: String) throws -> Bool { try value(name, as: Int64.self) != 0 }
    func time(_ name: String) throws -> Date { Date(milliseconds: try value(name)) }
    func optionalTime(_ name: String) throws -> Date? {
        try optional(name, as: Int64.self).map(Date.init(milliseconds:))
    }
    func count(_ name: String) throws -> UInt64 { UInt64(clamping: try value(name, as: Int64.self)) }
    func optionalInt(_ name: String) throws -> Int? { try optional(name, as: Int64.self).map { Int(clamping: $0) } }

    func id(_ name: String) throws -> RandomID {
        guard let id = RandomID(try text(name)) else { throw damaged(name) }
        return id
    }

    func optionalID(_ name: String) throws -> RandomID? {
        guard let text = try optional(name, as: String.self) else { return nil }
        guard let id = RandomID(text) else { throw damaged(name) }
        return id
    }

    func hash(_ name: String) throws -> SecretHash {
        guard let hash = try optionalHash(name) else { throw damaged(name) }
        return hash
    }

    func optionalHash(_ name: String) throws -> SecretHash? {
        guard let bytes = try optional(name, as: Data.self) else { return nil }
        guard let hash = SecretHash(bytes: Array(bytes)) else { throw damaged(name) }
        return hash
    }

    func optionalKey(_ name: String) throws -> PublicKey? {
        guard let bytes = try optional(name, as: Data.self) else { return nil }
        guard let key = PublicKey(bytes: Array(bytes)) else { throw damaged(name) }
        return key
    }

    func address(_ name: String) throws -> IPAddress {
        guard let address = IPAddress(bytes: try value(name, as: Data.self)) else { throw damaged(name) }
        return address
    }

    func choice<Value: RawRepresentable>(_ name: String, as _: Value.Type = Value.self) throws -> Value
    where Value.RawValue == String {
        guard let value = Value(rawValue: try text(name)) else { throw damaged(name) }
        return value
    }

    func prefixes(_ name: String) throws -> [IPPrefix] {
        try text(name).split(separator: " ").map { text in
            guard let prefix = try? IPPrefix(text) else { throw damaged(name) }
            return prefix
        }
    }
}

extension IPAddress {
    var data: Data { Data(bytes) }
}

extension PublicKey {
    var data: Data { Data(bytes) }
}

extension SecretHash {
    var data: Data { Data(bytes) }
}

// MARK: - Rows

extension User {
    init(_ row: Row) throws {
        let fields = Fields(row)
        self.init(
            id: try fields.id("id"), login: try fields.text("login"), name: try fields.text("name"),
            notes: try fields.text("notes"), isEnabled: try fields.flag("enabled"),
            expiresAt: try fields.optionalTime("expires_at"), deviceLimit: try fields.optionalInt("device_limit"),
            password: try fields.optional("password", as: String.self).map(StoredPassword.init(text:)),
            createdAt: try fields.time("created_at"))
        hasExpired = try fields.flag("expiry_noted")
    }
}

extension Device {
    /// Without addresses and subnets, which are rows of their own.
    init(_ row: Row) throws {
        let fields = Fields(row)
        self.init(
            id: try fields.id("id"), userID: try fields.id("user_id"), kind: try fields.choice("kind"),
            name: try fields.text("name"), notes: try fields.text("notes"), platform: try fields.optional("platform"),
            publicKey: try fields.optionalKey("public_key"), keyAt: try fields.optionalTime("key_at"),
            credentialHash: try fields.optionalHash("credential_hash"), isEnabled: try fields.flag("enabled"),
            expiresAt: try fields.optionalTime("expires_at"), createdAt: try fields.time("created_at"),
            lastSeenAt: try fields.optionalTime("last_seen_at"),
            lastEndpoint: try fields.optional("last_endpoint", as: String.self).flatMap { try? Endpoint($0) },
            traffic: Traffic(received: try fields.count("received"), sent: try fields.count("sent")))
        rotationHash = try fields.optionalHash("rotation_hash")
        expiryLimit = try fields.optionalTime("expiry_limit")
        hasExpired = try fields.flag("expiry_noted")
    }
}

extension Token {
    init(_ row: Row) throws {
        let fields = Fields(row)
        self.init(
            id: try fields.id("id"), scope: try fields.choice("scope"), userID: try fields.optionalID("user_id"),
            deviceID: try fields.optionalID("device_id"), name: try fields.text("name"), hash: try fields.hash("hash"),
            hint: try fields.text("hint"), createdAt: try fields.time("created_at"),
            expiresAt: try fields.optionalTime("expires_at"), lastUsedAt: try fields.optionalTime("last_used_at"),
            revokedAt: try fields.optionalTime("revoked_at"))
    }
}

extension IssuedInvitation {
    init(_ row: Row) throws {
        let fields = Fields(row)
        self.init(
            id: try fields.id("id"), userID: try fields.id("user_id"), deviceName: try fields.text("device_name"),
            hash: try fields.hash("hash"), hint: try fields.text("hint"), createdAt: try fields.time("created_at"),
            expiresAt: try fields.time("expires_at"), usedAt: try fields.optionalTime("used_at"),
            deviceID: try fields.optionalID("device_id"), revokedAt: try fields.optionalTime("revoked_at"),
            misuses: Int(clamping: try fields.value("misuses", as: Int64.self)))
    }
}

extension AccessRule {
    init(_ row: Row) throws {
        let fields = Fields(row)
        let ports = try fields.text("ports").split(separator: " ").map { text in
            let ends = text.split(separator: "-").compactMap { UInt16($0) }
            guard let low = ends.first, let high = ends.last, low <= high else { throw fields.damaged("ports") }
            return low...high
        }
        self.init(
            try fields.choice("action"), direction: try fields.choice("direction"),
            networks: try fields.prefixes("networks"), transport: try fields.choice("transport"), ports: ports)
    }

    var networksText: String { networks.map(\.description).joined(separator: " ") }
    var portsText: String { ports.map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: " ") }
}

extension Rule {
    init(_ row: Row) throws {
        let fields = Fields(row)
        let owner: Owner
        if let user = try fields.optionalID("user_id") {
            owner = .user(user)
        } else {
            owner = .device(try fields.id("device_id"))
        }
        self.init(
            id: try fields.id("id"), owner: owner, access: try AccessRule(row), notes: try fields.text("notes"))
    }
}

extension AuditEntry {
    init(_ row: Row) throws {
        let fields = Fields(row)
        let details = try? JSONDecoder().decode([String: String].self, from: Data(try fields.text("details").utf8))
        self.init(
            number: try fields.value("number"),
            record: AuditRecord(
                at: try fields.time("at"), actor: try fields.text("actor"),
                source: try fields.optional("source", as: String.self).flatMap { try? IPAddress($0) },
                action: try fields.choice("action"), subject: try fields.text("subject"), details: details ?? [:]),
            count: Int(clamping: try fields.count("count")))
    }
}

// MARK: - Changes

extension Change.Subject {
    /// Kind and id.
    var text: (kind: String, subject: String) {
        switch self {
        case .user(let id): ("user", id.description)
        case .device(let id): ("device", id.description)
        case .rules(.user(let id)): ("rulesOfUser", id.description)
        case .rules(.device(let id)): ("rulesOfDevice", id.description)
        case .serverKeys: ("serverKeys", "")
        }
    }
}

extension Change {
    init(_ row: Row) throws {
        let fields = Fields(row)
        let subject: Subject
        switch try fields.text("kind") {
        case "user": subject = .user(try fields.id("subject"))
        case "device": subject = .device(try fields.id("subject"))
        case "rulesOfUser": subject = .rules(.user(try fields.id("subject")))
        case "rulesOfDevice": subject = .rules(.device(try fields.id("subject")))
        case "serverKeys": subject = .serverKeys
        default: throw fields.damaged("kind")
        }
        self.init(sequence: try fields.value("sequence"), at: try fields.time("at"), subject: subject)
    }
}
