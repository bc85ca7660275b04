// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import TunnelServer
import WireGuardCore

// The conversions of values and rows.

extension Date {
    /// Milliseconds since 1970, rounded down. A time outside of the range becomes its lower or upper bound.
    ///
    /// A whole number of milliseconds stays itself, although a floating-point number may be less than it by a few ten-thousandths.
    package var milliseconds: Int64 {
        let value = (timeIntervalSince1970 * 1000 + 0.001).rounded(.down)
        return Int64(exactly: value) ?? (value < 0 ? .min : .max)
    }

    package init(milliseconds: Int64) { self.init(timeIntervalSince1970: Double(milliseconds) / 1000) }
}

extension Optional: SQLConvertible where Wrapped: SQLConvertible {
    init?(sql value: SQLValue) {
        guard value != .null else {
            self = .none
            return
        }
        guard let wrapped = Wrapped(sql: value) else { return nil }
        self = .some(wrapped)
    }
    var sqlValue: SQLValue { map(\.sqlValue) ?? .null }
}

extension String: SQLConvertible {
    init?(sql value: SQLValue) {
        guard case .text(let text) = value else { return nil }
        self = text
    }
    var sqlValue: SQLValue { .text(self) }
}

extension Int64: SQLConvertible {
    init?(sql value: SQLValue) {
        guard case .integer(let number) = value else { return nil }
        self = number
    }
    var sqlValue: SQLValue { .integer(self) }
}

extension Data: SQLConvertible {
    init?(sql value: SQLValue) {
        guard case .bytes(let bytes) = value else { return nil }
        self = bytes
    }
    var sqlValue: SQLValue { .bytes(self) }
}

extension SQLConvertible {
    /// For a type whose values are written like those of another type.
    fileprivate init?<Written: SQLConvertible>(_ value: SQLValue, _ read: (Written) -> Self?) {
        guard let written = Written(sql: value), let result = read(written) else { return nil }
        self = result
    }
}

// Numbers that do not fit become the nearest one that does.

extension Int: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (number: Int64) in Int(clamping: number) } }
    var sqlValue: SQLValue { .integer(Int64(self)) }
}

extension UInt64: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (number: Int64) in UInt64(clamping: number) } }
    var sqlValue: SQLValue { .integer(Int64(clamping: self)) }
}

extension Bool: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (number: Int64) in number != 0 } }
    var sqlValue: SQLValue { .integer(self ? 1 : 0) }
}

extension Date: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { Date(milliseconds: $0) } }
    var sqlValue: SQLValue { .integer(milliseconds) }
}

extension RandomID: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (text: String) in RandomID(text) } }
    var sqlValue: SQLValue { .text(description) }
}

extension IPPrefix: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (text: String) in try? IPPrefix(text) } }
    var sqlValue: SQLValue { .text(description) }
}

extension IPAddress: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (bytes: Data) in IPAddress(bytes: bytes) } }
    var sqlValue: SQLValue { .bytes(Data(bytes)) }
}

extension PublicKey: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (bytes: Data) in PublicKey(bytes: Array(bytes)) } }
    var sqlValue: SQLValue { .bytes(Data(bytes)) }
}

extension SecretHash: SQLConvertible {
    init?(sql value: SQLValue) { self.init(value) { (bytes: Data) in SecretHash(bytes: Array(bytes)) } }
    var sqlValue: SQLValue { .bytes(Data(bytes)) }
}

extension SQLConvertible where Self: RawRepresentable<String> {
    init?(sql value: SQLValue) { self.init(value) { (text: String) in Self(rawValue: text) } }
    var sqlValue: SQLValue { .text(rawValue) }
}

extension Device.Kind: SQLConvertible {}
extension Token.Scope: SQLConvertible {}
extension AuditRecord.Action: SQLConvertible {}
extension AccessRule.Action: SQLConvertible {}
extension AccessRule.Direction: SQLConvertible {}
extension AccessRule.Transport: SQLConvertible {}

// MARK: - Rows

extension User {
    init(_ row: SQLRow) throws {
        try self.init(
            id: row["id"], login: row["login"], name: row["name"], notes: row["notes"], isEnabled: row["enabled"],
            expiresAt: row["expires_at"], deviceLimit: row["device_limit"],
            password: (row["password"] as String?).map(StoredPassword.init(text:)), createdAt: row["created_at"])
        hasExpired = try row["expiry_noted"]
    }
}

extension Device {
    /// Reads a device without addresses and subnets, which have other tables.
    init(_ row: SQLRow) throws {
        try self.init(
            id: row["id"], userID: row["user_id"], kind: row["kind"], name: row["name"], notes: row["notes"],
            platform: row["platform"], publicKey: row["public_key"], keyAt: row["key_at"],
            credentialHash: row["credential_hash"], isEnabled: row["enabled"], expiresAt: row["expires_at"],
            createdAt: row["created_at"], lastSeenAt: row["last_seen_at"],
            lastEndpoint: (row["last_endpoint"] as String?).flatMap { try? Endpoint($0) },
            traffic: Traffic(received: row["received"], sent: row["sent"]))
        rotationHash = try row["rotation_hash"]
        expiryLimit = try row["expiry_limit"]
        hasExpired = try row["expiry_noted"]
    }
}

extension Token {
    init(_ row: SQLRow) throws {
        try self.init(
            id: row["id"], scope: row["scope"], userID: row["user_id"], deviceID: row["device_id"], name: row["name"],
            hash: row["hash"], hint: row["hint"], createdAt: row["created_at"], expiresAt: row["expires_at"],
            lastUsedAt: row["last_used_at"], revokedAt: row["revoked_at"])
    }
}

extension IssuedInvitation {
    init(_ row: SQLRow) throws {
        try self.init(
            id: row["id"], userID: row["user_id"], deviceName: row["device_name"], hash: row["hash"], hint: row["hint"],
            createdAt: row["created_at"], expiresAt: row["expires_at"], usedAt: row["used_at"],
            deviceID: row["device_id"], revokedAt: row["revoked_at"], misuses: row["misuses"])
    }
}

extension AccessRule {
    init(_ row: SQLRow) throws {
        let ports = try (row["ports"] as String).split(separator: " ").map { text in
            let ends = text.split(separator: "-").compactMap { UInt16($0) }
            guard let low = ends.first, let high = ends.last, low <= high else { throw row.damaged("ports") }
            return low...high
        }
        let networks = try (row["networks"] as String).split(separator: " ").map { text in
            guard let prefix = try? IPPrefix(text) else { throw row.damaged("networks") }
            return prefix
        }
        try self.init(
            row["action"], direction: row["direction"], networks: networks, transport: row["transport"], ports: ports)
    }

    var networksText: String { networks.map(\.description).joined(separator: " ") }
    var portsText: String { ports.map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: " ") }
}

extension Rule {
    init(_ row: SQLRow) throws {
        let user: UserID? = try row["user_id"]
        try self.init(
            id: row["id"], owner: user.map(Owner.user) ?? .device(row["device_id"]), access: AccessRule(row),
            notes: row["notes"])
    }
}

extension AuditEntry {
    init(_ row: SQLRow) throws {
        let details = try? JSONDecoder().decode([String: String].self, from: Data((row["details"] as String).utf8))
        try self.init(
            number: row["number"],
            record: AuditRecord(
                at: row["at"], actor: row["actor"],
                source: (row["source"] as String?).flatMap { try? IPAddress($0) }, action: row["action"],
                subject: row["subject"], details: details ?? [:]),
            count: row["count"])
    }
}

extension Cooldown {
    init(_ row: SQLRow) throws {
        try self.init(
            address: row["address"], network: row["network"], userID: row["user_id"], login: row["login"],
            releasedAt: row["released_at"])
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
    init(_ row: SQLRow) throws {
        let subject: Subject
        switch try row["kind"] as String {
        case "user": subject = try .user(row["subject"])
        case "device": subject = try .device(row["subject"])
        case "rulesOfUser": subject = try .rules(.user(row["subject"]))
        case "rulesOfDevice": subject = try .rules(.device(row["subject"]))
        case "serverKeys": subject = .serverKeys
        default: throw row.damaged("kind")
        }
        try self.init(sequence: row["sequence"], at: row["at"], subject: subject)
    }
}
