// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import GRDB
import Provisioning
import TunnelServer

extension SQLiteStore {
    package func rules(of owner: Rule.Owner) async throws(StoreError) -> [Rule] {
        try await read { db in try Self.rules(db, owner) }
    }

    private static func condition(_ owner: Rule.Owner) -> SQL {
        switch owner {
        case .user(let id): "user_id = \(id.description)"
        case .device(let id): "device_id = \(id.description)"
        }
    }

    package func setRules(
        of owner: Rule.Owner, _ rules: [Rule], ifVersion versions: [String]?, _ audit: AuditRecord
    ) async throws(StoreError) {
        try await write { db in
            try Self.checkOwner(db, owner)
            if let versions {
                let version = Rule.version(of: try Self.rules(db, owner))
                guard versions.contains(version) else { throw StoreError.changed }
            }
            try db.execute(literal: "DELETE FROM rules WHERE \(Self.condition(owner))")
            for (position, rule) in rules.enumerated() { try Self.insert(db, rule, at: Int64(position)) }
            try Self.note(db, .rules(owner), at: audit.at)
            try Self.log(db, audit)
        }
    }

    package func add(
        _ rule: Rule, isFirst: Bool, limit: Int, _ creation: Creation?, _ audit: AuditRecord
    ) async throws(StoreError) -> Created<[Rule]> {
        try await write { db in
            try Self.checkOwner(db, rule.owner)
            if try Self.repeated(db, creation, rule.id, at: audit.at) != nil {
                return Created(item: try Self.rules(db, rule.owner), isRepetition: true)
            }
            let row = try Row.fetchOne(
                db,
                literal: """
                    SELECT COUNT(*) AS count, COALESCE(MIN(position), 0) AS first, COALESCE(MAX(position), 0) AS last
                    FROM rules WHERE \(Self.condition(rule.owner))
                    """)
            let fields = row.map(Fields.init)
            let count = try fields?.value("count", as: Int64.self) ?? 0
            guard count < Int64(limit) else { throw StoreError.ruleLimit(limit) }
            let (first, last) = (try fields?.value("first", as: Int64.self), try fields?.value("last", as: Int64.self))
            let position = isFirst ? (first ?? 0) - 1 : (last ?? 0) + 1
            try Self.insert(db, rule, at: position)
            var audit = audit
            audit.details["rules"] = "\(count + 1)"
            try Self.note(db, .rules(rule.owner), at: audit.at)
            try Self.log(db, audit)
            return Created(item: try Self.rules(db, rule.owner), isRepetition: false)
        }
    }

    package func remove(
        rule id: RuleID, of owner: Rule.Owner, _ audit: AuditRecord
    ) async throws(StoreError) -> [Rule] {
        try await write { db in
            try db.execute(
                literal: "DELETE FROM rules WHERE id = \(id.description) AND \(Self.condition(owner))")
            guard db.changesCount == 1 else { throw StoreError.notFound }
            let left = try Self.rules(db, owner)
            var audit = audit
            audit.details["rules"] = "\(left.count)"
            try Self.note(db, .rules(owner), at: audit.at)
            try Self.log(db, audit)
            return left
        }
    }

    private static func rules(_ db: Database, _ owner: Rule.Owner) throws -> [Rule] {
        try Row.fetchAll(db, literal: "SELECT * FROM rules WHERE \(condition(owner)) ORDER BY position")
            .map(Rule.init)
    }

    /// - Throws: `.notFound` if the user or the device does not exist.
    private static func checkOwner(_ db: Database, _ owner: Rule.Owner) throws {
        let exists =
            switch owner {
            case .user(let id): try user(db, id) != nil
            case .device(let id): try device(db, "id = \(id.description)") != nil
            }
        guard exists else { throw StoreError.notFound }
    }

    private static func insert(_ db: Database, _ rule: Rule, at position: Int64) throws {
        var (user, device): (String?, String?)
        switch rule.owner {
        case .user(let id): user = id.description
        case .device(let id): device = id.description
        }
        let access = rule.access
        try db.execute(
            literal: """
                INSERT INTO rules (
                    id, user_id, device_id, position, action, direction, networks, transport, ports, notes
                ) VALUES (
                    \(rule.id.description), \(user), \(device), \(position), \(access.action.rawValue),
                    \(access.direction.rawValue), \(access.networksText), \(access.transport.rawValue),
                    \(access.portsText), \(rule.notes))
                """)
    }
}
