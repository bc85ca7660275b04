// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Provisioning
import TunnelSystem
import WireGuardCore

// What the administrators' API writes. No secret is among it, and no hash of one.

extension JSON {
    static func id(_ id: RandomID) -> JSON { .string(id.description) }
    static func id(_ id: RandomID?) -> JSON? { id.map { .string($0.description) } }
    static func time(_ date: Date) -> JSON { .string(date.formatted(.iso8601)) }
    static func time(_ date: Date?) -> JSON? { date.map { .time($0) } }
    static func count(_ value: some BinaryInteger) -> JSON { .integer(Int64(clamping: value)) }
    static func texts(_ values: [some CustomStringConvertible]) -> JSON {
        .array(values.map { .string($0.description) })
    }

    /// An object without the members that are `nil`.
    static func members(_ members: [String: JSON?]) -> JSON { .object(members.compactMapValues { $0 }) }

    static func page<Item>(_ page: Page<Item>, _ json: (Item) -> JSON) -> JSON {
        .members(["items": .array(page.items.map(json)), "next": page.next.map { .string($0) }])
    }
}

extension Declared {
    /// The resource as replies show it.
    var json: JSON { Self.message.encode(self) }
}

extension Token {
    var json: JSON {
        .members([
            "id": .id(id), "scope": .string(scope.rawValue), "user": .id(userID), "device": .id(deviceID),
            "name": .string(name), "hint": .string(hint), "createdAt": .time(createdAt), "expiresAt": .time(expiresAt),
            "lastUsedAt": .time(lastUsedAt), "revokedAt": .time(revokedAt), "isSaved": isSaved ? nil : .bool(false),
        ])
    }
}

extension IssuedInvitation {
    var json: JSON {
        .members([
            "id": .id(id), "user": .id(userID), "deviceName": .string(deviceName), "hint": .string(hint),
            "createdAt": .time(createdAt), "expiresAt": .time(expiresAt), "usedAt": .time(usedAt),
            "device": .id(deviceID), "revokedAt": .time(revokedAt), "misuses": .count(misuses),
            "isSaved": isSaved ? nil : .bool(false),
        ])
    }
}

extension AuditEntry {
    var json: JSON {
        .members([
            "number": .integer(number), "at": .time(record.at), "actor": .string(record.actor),
            "source": record.source.map { .string("\($0)") }, "action": .string(record.action.rawValue),
            "subject": .string(record.subject), "details": .object(record.details.mapValues { JSON.string($0) }),
            "count": .count(count),
        ])
    }
}

extension GatewayStatus {
    var json: JSON {
        .members([
            "users": .count(counts.users), "devices": .count(counts.devices),
            "activeDevices": .count(counts.activeDevices), "logins": .count(counts.logins),
            "openInvitations": .count(counts.openInvitations),
            "tokens": .count(counts.tokens), "sequence": .integer(counts.sequence),
            "receivedBytes": .count(counts.traffic.received), "sentBytes": .count(counts.traffic.sent),
            "pools": .array(
                pools.map { pool in
                    .members([
                        "network": .string("\(pool.network)"), "capacity": .count(pool.capacity),
                        "inUse": .count(pool.inUse), "resting": .count(pool.resting),
                    ])
                }),
            "servesWireGuard": .bool(servesWireGuard), "serverKey": .string(serverKey.base64),
            "nextServerKey": nextServerKey.map { .string($0.base64) },
            "nextServerKeyAt": .time(nextServerKeyAt), "now": .time(now),
        ])
    }
}
