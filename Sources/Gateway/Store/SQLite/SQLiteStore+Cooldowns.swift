// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import GRDB
import NetworkAddresses
import Provisioning

extension SQLiteStore {
    package func cooldowns(
        _ filter: CooldownFilter, restSince: Date, _ page: PageRequest
    ) async throws(StoreError) -> Page<Cooldown> {
        let after = page.after.flatMap { try? IPAddress($0) }?.data ?? Data()
        return try await read { db in
            let rows = try Row.fetchAll(
                db,
                literal: """
                    SELECT addresses.*, users.login FROM addresses LEFT JOIN users ON users.id = addresses.user_id
                    WHERE address > \(after) AND \(Self.condition(filter, restSince))
                    ORDER BY address LIMIT \(page.limit + 1)
                    """)
            let items = try rows.prefix(page.limit).map { try Cooldown($0) }
            return Page(items: items, next: rows.count > page.limit ? items.last?.address.description : nil)
        }
    }

    package func clearCooldowns(
        _ filter: CooldownFilter, restSince: Date, _ audit: AuditRecord
    ) async throws(StoreError) -> Int {
        try await write { db in
            // The row stays: without it the address would never be given again.
            try db.execute(literal: "UPDATE addresses SET released_at = 0 WHERE \(Self.condition(filter, restSince))")
            let count = db.changesCount
            guard count > 0 else { return 0 }
            var audit = audit
            audit.details["count"] = "\(count)"
            try Self.log(db, audit)
            return count
        }
    }

    private static func condition(_ filter: CooldownFilter, _ restSince: Date) -> SQL {
        var condition: SQL = "device_id IS NULL AND owner_id IS NULL AND released_at > \(restSince.milliseconds)"
        if let user = filter.userID { condition = "\(condition) AND user_id = \(user.description)" }
        if let address = filter.address { condition = "\(condition) AND address = \(address.data)" }
        return condition
    }
}

extension Cooldown {
    init(_ row: Row) throws {
        let fields = Fields(row)
        guard let network = try fields.prefixes("network").first else { throw fields.damaged("network") }
        self.init(
            address: try fields.address("address"), network: network, userID: try fields.optionalID("user_id"),
            login: try fields.optional("login"), releasedAt: try fields.time("released_at"))
    }
}
