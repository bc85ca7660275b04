// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import TunnelServer

extension GatewayStore {
    /// The logins of users with fixed addresses.
    func loginsWithAddresses() async throws(StoreError) -> Set<String> {
        try await database.read { db in
            let rows = try db.rows(
                "SELECT login FROM users WHERE id IN (SELECT owner_id FROM addresses WHERE owner_id IS NOT NULL)")
            return Set(try rows.map { try $0["login"] as String })
        }
    }

    /// Adds the users of a credential server with their passwords and addresses. On an error, no user is added.
    /// - Parameter resting: Addresses whose cooldown starts now, with the users who had them, or `nil` for an unknown
    ///   user. Addresses that the store already has, or that are outside the networks, are ignored.
    /// - Returns: The number of addresses in cooldown.
    /// - Throws: `.exists(.login)`, `.exists(.address)`.
    func add(
        _ users: [User], resting: [IPAddress: UserID?], _ limits: DeviceLimits, at now: Date
    ) async throws(StoreError) -> Int {
        try await database.write { db in
            for user in users {
                let audit = AuditRecord(
                    at: now, actor: "local", source: nil, action: .userAdded, subject: "user:\(user.id)",
                    details: ["login": user.login, "from": "credential server"])
                try Self.insert(db, user, limits, audit)
            }
            let ranges = limits.servers.compactMap { try? AddressRange(server: $0) }
            var count = 0
            for (address, user) in resting {
                guard let range = ranges.first(where: { $0.contains(address) }) else { continue }
                count += try db.execute(
                    """
                    INSERT INTO addresses (address, network, family, released_at, user_id) VALUES (
                        \(address), \(range.network), \(address.isIPv6 ? 6 : 4),
                        \(now), \(user))
                    ON CONFLICT (address) DO NOTHING
                    """)
            }
            return count
        }
    }
}
