// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import FoundationEssentials
import NetworkAddresses
import Provisioning

extension GatewayStore {
    /// Returns a page of the addresses that were released after `restSince`, ordered by address.
    package func cooldowns(
        _ filter: CooldownFilter, restSince: Date, _ page: PageRequest
    ) async throws(StoreError) -> Page<Cooldown> {
        let after = page.after.flatMap { try? IPAddress($0) }.map { Data($0.bytes) } ?? Data()
        return try await database.read { db in
            let rows = try db.rows(
                """
                SELECT addresses.*, users.login FROM addresses LEFT JOIN users ON users.id = addresses.user_id
                WHERE address > \(after) AND \(Self.condition(filter, restSince))
                ORDER BY address LIMIT \(page.limit + 1)
                """)
            let cooldowns = try rows.map { try Cooldown($0) }
            return Page(cooldowns, page) { cooldowns[$0].address.description }
        }
    }

    /// Ends the cooldown of addresses that were released after `restSince`, so that devices can get them.
    /// - Returns: The number of these addresses. If it is 0, nothing is written.
    package func clearCooldowns(
        _ filter: CooldownFilter, restSince: Date, _ audit: AuditRecord
    ) async throws(StoreError) -> Int {
        try await database.write { db in
            // Keep the row: without it, the address would never be assigned again.
            let count = try db.execute(
                "UPDATE addresses SET released_at = 0 WHERE \(Self.condition(filter, restSince))")
            guard count > 0 else { return 0 }
            var audit = audit
            audit.details["count"] = "\(count)"
            try Self.log(db, audit)
            return count
        }
    }

    private static func condition(_ filter: CooldownFilter, _ restSince: Date) -> SQL {
        var condition: SQL = "device_id IS NULL AND owner_id IS NULL AND released_at > \(restSince)"
        if let user = filter.userID { condition = "\(condition) AND user_id = \(user)" }
        if let address = filter.address { condition = "\(condition) AND address = \(address)" }
        return condition
    }
}

extension Cooldown {
    init(_ row: SQLRow) throws {
        try self.init(
            address: row["address"], network: row["network"], userID: row["user_id"], login: row["login"],
            releasedAt: row["released_at"])
    }
}
