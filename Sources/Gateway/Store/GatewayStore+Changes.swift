// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import TunnelServer

extension GatewayStore {
    /// Returns the devices that have changed, with the data for their peers.
    /// - Parameter sequence: The last change that the caller knows. If it is `nil` or too old, the feed has all
    ///   devices.
    package func peers(after sequence: Int64?) async throws(StoreError) -> Feed<PeerRecord> {
        // Read everything in one transaction, so that all tables are from the same moment.
        try await database.read { db in
            let (first, last) = try Self.span(db)
            guard let sequence, sequence >= first - 1, sequence <= last else {
                return Feed(
                    sequence: last, isComplete: true, changed: try Self.allPeers(db), serverKeysChanged: true)
            }
            return try Self.peers(db, after: sequence, until: last)
        }
    }

    /// The numbers of the first stored change and of the latest change.
    private static func span(_ db: any SQLSession) throws -> (first: Int64, last: Int64) {
        // SQLite searches the index for a minimum or maximum only if the query has no other one. Otherwise it reads all rows.
        let row = try db.figures(
            """
            SELECT COALESCE((SELECT MIN(sequence) FROM changes), 1) AS first,
                COALESCE((SELECT MAX(sequence) FROM changes), 0) AS last
            """)
        return try (row["first"], row["last"])
    }

    private static func peers(_ db: any SQLSession, after sequence: Int64, until last: Int64) throws -> Feed<PeerRecord>
    {
        var touched: Set<DeviceID> = []
        var serverKeysChanged = false
        for row in try db.rows("SELECT * FROM changes WHERE sequence > \(sequence)") {
            switch try Change(row).subject {
            case .device(let id), .rules(.device(let id)): touched.insert(id)
            case .user(let id), .rules(.user(let id)):
                for row in try db.rows("SELECT id FROM devices WHERE user_id = \(id)") {
                    touched.insert(try row["id"])
                }
            case .serverKeys: serverKeysChanged = true
            }
        }
        var feed = Feed<PeerRecord>(sequence: last, serverKeysChanged: serverKeysChanged)
        for id in touched {
            if let found = try device(db, "id = \(id)") {
                let rows = try db.rows(
                    """
                    SELECT * FROM rules
                    WHERE device_id = \(id) OR user_id = \(found.user.id)
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

    private static func allPeers(_ db: any SQLSession) throws -> [PeerRecord] {
        var devices = try db.rows("SELECT * FROM devices").map { try Device($0) }
        try attach(db, to: &devices, areAll: true)
        let users = try Dictionary(users(db, "", areAll: true).map { ($0.id, $0) }) { first, _ in first }
        var rules: [RandomID: [AccessRule]] = [:]
        for row in try db.rows("SELECT * FROM rules ORDER BY position") {
            let owner: RandomID = try (row["user_id"] as UserID?) ?? row["device_id"]
            rules[owner, default: []].append(try AccessRule(row))
        }
        return devices.compactMap { device in
            guard let user = users[device.userID] else { return nil }
            return PeerRecord(device: device, user: user, rules: (rules[device.id] ?? []) + (rules[user.id] ?? []))
        }
    }

    /// Adds to the counters of devices. Traffic of removed devices is added to the totals.
    package func record(_ activity: [DeviceActivity]) async throws(StoreError) {
        try await database.write { db in
            for entry in activity {
                let (received, sent) = (entry.traffic.received, entry.traffic.sent)
                let count = try db.execute(
                    """
                    UPDATE devices SET received = received + \(received), sent = sent + \(sent),
                        last_seen_at = CASE
                            WHEN last_seen_at IS NULL OR last_seen_at < \(entry.lastSeenAt) THEN \(entry.lastSeenAt)
                            ELSE last_seen_at END,
                        last_endpoint = COALESCE(\(entry.endpoint?.description), last_endpoint)
                    WHERE id = \(entry.deviceID)
                    """)
                guard count == 0 else { continue }
                try db.execute("UPDATE totals SET value = value + \(received) WHERE name = 'received'")
                try db.execute("UPDATE totals SET value = value + \(sent) WHERE name = 'sent'")
            }
        }
    }
}

extension Change.Subject {
    /// The kind and the ID.
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
