// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Provisioning
import Synchronization
import Testing

@testable import Gateway

/// A database whose transactions fail after some statements.
final class FailingDatabase: SQLDatabase {
    private let base: any SQLDatabase
    /// The number of statements of each transaction for writing that succeed.
    private let allowed = Mutex(Int.max)

    init(_ base: any SQLDatabase) { self.base = base }

    func fail(after count: Int) { allowed.withLock { $0 = count } }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any SQLSession) throws -> Result
    ) async throws(StoreError) -> Result {
        try await base.read(body)
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any SQLSession) throws -> Result
    ) async throws(StoreError) -> Result {
        let allowed = allowed.withLock { $0 }
        return try await base.write { try body(FailingSession($0, after: allowed)) }
    }

    func copy(to path: String) throws(StoreError) { try base.copy(to: path) }
    func check() async throws(StoreError) { try await base.check() }
    func close() throws(StoreError) { try base.close() }
}

private final class FailingSession: SQLSession {
    private let base: any SQLSession
    private var left: Int

    init(_ base: any SQLSession, after count: Int) { (self.base, left) = (base, count) }

    private func count() throws {
        guard left > 0 else { throw StoreError.unavailable("the test has had it fail") }
        left -= 1
    }

    func rows(_ sql: SQL) throws -> [SQLRow] {
        try count()
        return try base.rows(sql)
    }

    func execute(_ sql: SQL) throws -> Int {
        try count()
        return try base.execute(sql)
    }
}

@Suite struct StoreFaultTests {
    /// All rows of all tables.
    private func contents(_ store: GatewayStore) async throws -> [[SQLValue]] {
        try await store.database.read { db in
            try [
                "users", "devices", "addresses", "pools", "subnets", "tokens", "invitations", "rules", "changes",
                "audit", "creations", "totals",
            ].flatMap { try db.rows("SELECT * FROM \(sql: $0)").map(\.values) }
        }
    }

    /// Makes an operation fail at each of its statements in turn, until it succeeds.
    /// - Returns: The number of its statements.
    private func failEach(
        _ database: FailingDatabase, _ store: GatewayStore, _ operation: () async throws -> Void
    ) async throws -> Int {
        let before = try await contents(store)
        for count in 0..<100 {
            database.fail(after: count)
            do {
                try await operation()
                return count
            } catch StoreError.unavailable {
                #expect(try await contents(store) == before, "after \(count) statements")
            }
        }
        throw StoreFixture.Unexpected(what: "the operation never succeeds")
    }

    @Test("An operation that fails at any statement changes nothing, and succeeds afterwards")
    func atomicity() async throws {
        let database = FailingDatabase(try SQLiteDatabase(path: nil))
        let store = GatewayStore(database)
        let fixture = StoreFixture(store)
        let anna = try await fixture.user()
        let invitation = try await fixture.invitation(for: anna)
        let enrolment = try fixture.enrolment(.invitation(invitation.hash))
        let enrolling = try await failEach(database, store) { _ = try fixture.made(try await store.enrol(enrolment)) }
        #expect(enrolling > 10)
        let (limits, audit) = (try fixture.limits(), fixture.audit())
        var update = DeviceUpdate()
        update.subnets = [try IPPrefix("192.168.7.0/24")]
        let changing = try await failEach(database, store) {
            _ = try await store.change(device: enrolment.deviceID, .update(update, limits), audit)
        }
        #expect(changing > 5)
        let removing = try await failEach(database, store) { try await store.remove(user: anna.id, audit) }
        #expect(removing > 5)
        database.fail(after: .max)
        #expect(try await store.counts(at: fixture.start).users == 0)
        try await store.check()
        try store.close()
    }
}
