// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import GRDB

@testable import Gateway

extension SQLiteStore {
    /// Has the database refuse writes, as on a full disk. Transactions that change nothing succeed, and so do reads.
    /// - Note: The store must be a file: a store in memory reads and writes with the same connection.
    func refuseWrites(_ refuses: Bool) async throws {
        try await database.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA query_only = \(refuses ? "ON" : "OFF")")
        }
    }
}
