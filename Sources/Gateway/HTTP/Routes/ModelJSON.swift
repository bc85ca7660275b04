// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import PacketTunnel
import Provisioning
import WireGuardCore

// What the administrators' API writes. No secret is among it, and no hash of one.

extension JSONValue {
    static func id(_ id: RandomID) -> JSONValue { .string(id.description) }
    static func id(_ id: RandomID?) -> JSONValue? { id.map { .string($0.description) } }
    static func time(_ date: Date?) -> JSONValue? { date.map { .time($0) } }
    static func count(_ value: some BinaryInteger) -> JSONValue { .integer(Int64(clamping: value)) }

    static func page<Item>(_ page: Page<Item>, _ json: (Item) -> JSONValue) -> JSONValue {
        .members(["items": .array(page.items.map(json)), "next": page.next.map { .string($0) }])
    }
}

extension User {
    var json: JSONValue {
        .members([
            "id": .id(id), "login": .string(login), "name": .string(name), "notes": .string(notes),
            "isEnabled": .bool(isEnabled), "expiresAt": .time(expiresAt), "deviceLimit": deviceLimit.map { .count($0) },
            "hasPassword": .bool(password != nil), "createdAt": .time(createdAt),
            "isSaved": isSaved ? nil : .bool(false),
        ])
    }
}

extension Device {
    var json: JSONValue {
        .members([
            "id": .id(id), "user": .id(userID), "kind": .string(kind.rawValue), "name": .string(name),
            "notes": .string(notes), "platform": platform.map { .string($0) },
            "publicKey": publicKey.map { .string($0.base64) }, "keyAt": .time(keyAt), "addresses": .texts(addresses),
            "subnets": .texts(subnets), "isEnabled": .bool(isEnabled), "expiresAt": .time(expiresAt),
            "createdAt": .time(createdAt), "lastSeenAt": .time(lastSeenAt),
            "lastEndpoint": lastEndpoint.map { .string("\($0)") }, "receivedBytes": .count(traffic.received),
            "sentBytes": .count(traffic.sent), "isSaved": isSaved ? nil : .bool(false),
        ])
    }
}

extension Token {
    var json: JSONValue {
        .members([
            "id": .id(id), "scope": .string(scope.rawValue), "user": .id(userID), "device": .id(deviceID),
            "name": .string(name), "hint": .string(hint), "createdAt": .time(createdAt), "expiresAt": .time(expiresAt),
            "lastUsedAt": .time(lastUsedAt), "revokedAt": .time(revokedAt), "isSaved": isSaved ? nil : .bool(false),
        ])
    }
}

extension IssuedInvitation {
    var json: JSONValue {
        .members([
            "id": .id(id), "user": .id(userID), "deviceName": .string(deviceName), "hint": .string(hint),
            "createdAt": .time(createdAt), "expiresAt": .time(expiresAt), "usedAt": .time(usedAt),
            "device": .id(deviceID), "revokedAt": .time(revokedAt), "misuses": .count(misuses),
            "isSaved": isSaved ? nil : .bool(false),
        ])
    }
}

extension Rule {
    var json: JSONValue {
        .members([
            "id": .id(id), "action": .string(content.action.rawValue),
            "direction": .string(content.direction.rawValue), "networks": .texts(content.networks),
            "transport": .string(content.transport.rawValue),
            "ports": .array(
                content.ports.map { ports in
                    .string(ports.count == 1 ? "\(ports.lowerBound)" : "\(ports.lowerBound)-\(ports.upperBound)")
                }), "notes": .string(content.notes),
        ])
    }
}

extension AuditEntry {
    var json: JSONValue {
        .members([
            "number": .integer(number), "at": .time(record.at), "actor": .string(record.actor),
            "source": record.source.map { .string("\($0)") }, "action": .string(record.action.rawValue),
            "subject": .string(record.subject), "details": .object(record.details.mapValues { .string($0) }),
            "count": .count(count),
        ])
    }
}

extension GatewayStatus {
    var json: JSONValue {
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
            "serverKey": .string(serverKey.base64), "nextServerKey": nextServerKey.map { .string($0.base64) },
            "nextServerKeyAt": .time(nextServerKeyAt), "now": .time(now),
        ])
    }
}
