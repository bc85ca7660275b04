// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import NetworkAddresses
import Provisioning
import TunnelServer

extension SQLiteStore {
    package func changes(after sequence: Int64, limit: Int) async throws(StoreError) -> [Change] {
        try await read { db in
            try Row.fetchAll(
                db, literal: "SELECT * FROM changes WHERE sequence > \(sequence) ORDER BY sequence LIMIT \(limit)"
            ).map(Change.init)
        }
    }

    package func peers(after sequence: Int64?) async throws(StoreError) -> Feed<PeerRecord> {
        // One view of all tables.
        try await read { db in
            let (first, last) = try Self.span(db)
            guard let sequence, sequence >= first - 1, sequence <= last else {
                return Feed(
                    sequence: last, isComplete: true, changed: try Self.allPeers(db), serverKeysChanged: true)
            }
            return try Self.peers(db, after: sequence, until: last)
        }
    }

    /// The first change that is remembered, and the last that there was.
    private static func span(_ db: Database) throws -> (first: Int64, last: Int64) {
        let row = try Row.fetchOne(
            db, literal: "SELECT COALESCE(MIN(sequence), 1) AS first, COALESCE(MAX(sequence), 0) AS last FROM changes")
        guard let fields = row.map(Fields.init) else { return (1, 0) }
        return (try fields.value("first"), try fields.value("last"))
    }

    private static func peers(_ db: Database, after sequence: Int64, until last: Int64) throws -> Feed<PeerRecord> {
        var touched: Set<DeviceID> = []
        var serverKeysChanged = false
        for row in try Row.fetchAll(db, literal: "SELECT * FROM changes WHERE sequence > \(sequence)") {
            switch try Change(row).subject {
            case .device(let id), .rules(.device(let id)): touched.insert(id)
            case .user(let id), .rules(.user(let id)):
                for row in try Row.fetchAll(db, literal: "SELECT id FROM devices WHERE user_id = \(id.description)") {
                    touched.insert(try Fields(row).id("id"))
                }
            case .serverKeys: serverKeysChanged = true
            }
        }
        var feed = Feed<PeerRecord>(sequence: last, serverKeysChanged: serverKeysChanged)
        for id in touched {
            if let found = try device(db, "id = \(id.description)") {
                let rows = try Row.fetchAll(
                    db,
                    literal: """
                        SELECT * FROM rules
                        WHERE device_id = \(id.description) OR user_id = \(found.user.id.description)
                        ORDER BY device_id IS NULL, position
                        """)
                feed.changed.append(
                    PeerRecord(device: found.device, user: found.user, rules: try rows.map(AccessRule.init)))
            } else {
                feed.removed.append(id)
            }
        }
        return feed
    }

    private static func allPeers(_ db: Database) throws -> [PeerRecord] {
        var devices = try Row.fetchAll(db, literal: "SELECT * FROM devices").map { try Device($0) }
        try attach(db, to: &devices, areAll: true)
        let users = try Dictionary(users(db, "", areAll: true).map { ($0.id, $0) }) { first, _ in first }
        var rules: [RandomID: [AccessRule]] = [:]
        for row in try Row.fetchAll(db, literal: "SELECT * FROM rules ORDER BY position") {
            let fields = Fields(row)
            let owner = try fields.optionalID("user_id") ?? fields.id("device_id")
            rules[owner, default: []].append(try AccessRule(row))
        }
        return devices.compactMap { device in
            guard let user = users[device.userID] else { return nil }
            return PeerRecord(device: device, user: user, rules: (rules[device.id] ?? []) + (rules[user.id] ?? []))
        }
    }

    package func record(_ activity: [DeviceActivity]) async throws(StoreError) {
        try await write { db in
            for entry in activity {
                let received = Int64(clamping: entry.traffic.received)
                let sent = Int64(clamping: entry.traffic.sent)
                try db.execute(
                    literal: """
                        UPDATE devices SET received = received + \(received), sent = sent + \(sent),
                            last_seen_at = MAX(
                                COALESCE(last_seen_at, \(entry.lastSeenAt?.milliseconds)),
                                COALESCE(\(entry.lastSeenAt?.milliseconds), last_seen_at)),
                            last_endpoint = COALESCE(\(entry.endpoint?.description), last_endpoint)
                        WHERE id = \(entry.deviceID.description)
                        """)
                guard db.changesCount == 0 else { continue }
                try db.execute(
                    literal: "UPDATE totals SET value = value + \(received) WHERE name = 'received'")
                try db.execute(literal: "UPDATE totals SET value = value + \(sent) WHERE name = 'sent'")
            }
        }
    }
}
