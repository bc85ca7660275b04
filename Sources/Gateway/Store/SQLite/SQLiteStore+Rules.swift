// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import GRDB
import Provisioning

extension SQLiteStore {
    package func rules(of owner: Rule.Owner) async throws(StoreError) -> [Rule] {
        try await read { db in
            try Row.fetchAll(
                db, literal: "SELECT * FROM rules WHERE \(Self.condition(owner)) ORDER BY position"
            ).map(Rule.init)
        }
    }

    private static func condition(_ owner: Rule.Owner) -> SQL {
        switch owner {
        case .user(let id): "user_id = \(id.description)"
        case .device(let id): "device_id = \(id.description)"
        }
    }

    package func setRules(
        of owner: Rule.Owner, _ rules: [Rule], _ audit: AuditRecord
    ) async throws(StoreError) {
        try await write { db in
            var (user, device): (String?, String?)
            switch owner {
            case .user(let id):
                guard try Self.user(db, id) != nil else { throw StoreError.notFound }
                user = id.description
            case .device(let id):
                guard try Self.device(db, "id = \(id.description)") != nil else { throw StoreError.notFound }
                device = id.description
            }
            try db.execute(literal: "DELETE FROM rules WHERE \(Self.condition(owner))")
            for (position, rule) in rules.enumerated() {
                let content = rule.content
                try db.execute(
                    literal: """
                        INSERT INTO rules (
                            id, user_id, device_id, position, action, direction, networks, transport, ports, notes
                        ) VALUES (
                            \(rule.id.description), \(user), \(device), \(position), \(content.action.rawValue),
                            \(content.direction.rawValue), \(content.networksText), \(content.transport.rawValue),
                            \(content.portsText), \(content.notes))
                        """)
            }
            try Self.note(db, .rules(owner), at: audit.at)
            try Self.log(db, audit)
        }
    }
}
