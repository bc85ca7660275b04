// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Provisioning
import TunnelServer

extension GatewayStore {
    package func rules(of owner: Rule.Owner) async throws(StoreError) -> [Rule] {
        try await database.read { db in try Self.rules(db, owner) }
    }

    private static func condition(_ owner: Rule.Owner) -> SQL {
        switch owner {
        case .user(let id): "user_id = \(id)"
        case .device(let id): "device_id = \(id)"
        }
    }

    /// Replaces the rules of the owner with these.
    /// - Parameter versions: The versions of the list that may be replaced (``Rule/version(of:)``), or `nil` for any.
    /// - Throws: `.changed` if the list has another version.
    package func setRules(
        of owner: Rule.Owner, _ rules: [Rule], ifVersion versions: [String]? = nil, _ audit: AuditRecord
    ) async throws(StoreError) {
        try await database.write { db in
            try Self.checkOwner(db, owner)
            if let versions {
                let version = Rule.version(of: try Self.rules(db, owner))
                guard versions.contains(version) else { throw StoreError.changed }
            }
            try db.execute("DELETE FROM rules WHERE \(Self.condition(owner))")
            for (position, rule) in rules.enumerated() { try Self.insert(db, rule, at: Int64(position)) }
            try Self.recordChange(db, .rules(owner), at: audit.at)
            try Self.log(db, audit)
        }
    }

    /// Adds a rule to the rules of its owner.
    /// - Parameter limit: The largest number of rules that the owner may have afterwards.
    /// - Returns: All rules of the owner.
    /// - Throws: `.ruleLimit`, `.creationConflict`.
    package func add(
        _ rule: Rule, isFirst: Bool, limit: Int, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<[Rule]> {
        try await database.write { db in
            try Self.checkOwner(db, rule.owner)
            return try Self.made(db, creation, rule.id, at: audit.at) { _ in
                try Self.rules(db, rule.owner)
            } make: {
                let row = try db.figures(
                    """
                    SELECT COUNT(*) AS count, COALESCE(MIN(position), 0) AS first, COALESCE(MAX(position), 0) AS last
                    FROM rules WHERE \(Self.condition(rule.owner))
                    """)
                let (count, first, last): (Int, Int64, Int64) = try (row["count"], row["first"], row["last"])
                guard count < limit else { throw StoreError.ruleLimit(limit) }
                try Self.insert(db, rule, at: isFirst ? first - 1 : last + 1)
                var audit = audit
                audit.details["rules"] = "\(count + 1)"
                try Self.recordChange(db, .rules(rule.owner), at: audit.at)
                try Self.log(db, audit)
                return try Self.rules(db, rule.owner)
            }
        }
    }

    /// Removes one rule of its owner. The other rules keep their IDs.
    /// - Returns: The remaining rules.
    /// - Throws: `.notFound` if the owner has no such rule.
    package func remove(
        rule id: RuleID, of owner: Rule.Owner, _ audit: AuditRecord
    ) async throws(StoreError) -> [Rule] {
        try await database.write { db in
            let removed = try db.execute("DELETE FROM rules WHERE id = \(id) AND \(Self.condition(owner))")
            guard removed == 1 else { throw StoreError.notFound }
            let left = try Self.rules(db, owner)
            var audit = audit
            audit.details["rules"] = "\(left.count)"
            try Self.recordChange(db, .rules(owner), at: audit.at)
            try Self.log(db, audit)
            return left
        }
    }

    private static func rules(_ db: any SQLSession, _ owner: Rule.Owner) throws -> [Rule] {
        try db.rows("SELECT * FROM rules WHERE \(condition(owner)) ORDER BY position")
            .map(Rule.init)
    }

    /// - Throws: `.notFound` if the user or the device does not exist.
    private static func checkOwner(_ db: any SQLSession, _ owner: Rule.Owner) throws {
        let exists =
            switch owner {
            case .user(let id): try user(db, id) != nil
            case .device(let id): try device(db, "id = \(id)") != nil
            }
        guard exists else { throw StoreError.notFound }
    }

    private static func insert(_ db: any SQLSession, _ rule: Rule, at position: Int64) throws {
        var (user, device): (String?, String?)
        switch rule.owner {
        case .user(let id): user = id.description
        case .device(let id): device = id.description
        }
        let access = rule.access
        try db.execute(
            """
            INSERT INTO rules (
                id, user_id, device_id, position, action, direction, networks, transport, ports, notes
            ) VALUES (
                \(rule.id), \(user), \(device), \(position), \(access.action),
                \(access.direction), \(access.networksText), \(access.transport),
                \(access.portsText), \(rule.notes))
            """)
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
