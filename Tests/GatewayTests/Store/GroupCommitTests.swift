// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import GRDB
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import TunnelIO

@testable import Gateway

@Suite("Writes that wait at the same time", .timeLimit(.minutes(2)))
struct GroupCommitTests {
    private typealias Operation = @Sendable () async throws -> UserID

    /// Starts operations while the database is in use, each when the one before it waits, and returns their results.
    /// - Parameters:
    ///   - cancelled: The position of the operation whose task is cancelled while it waits.
    ///   - sql: A statement that runs immediately before the writes.
    private func together(
        _ store: GatewayStore, _ operations: [Operation], cancelled: Int? = nil, after sql: String = "SELECT 1"
    ) async throws -> [Result<UserID, any Error>] {
        let writes = try #require(store.database as? SQLiteDatabase).writes
        let (gate, changes) = (Monitor((isHeld: false, isOpen: false)), Changes())
        try store.connections.asyncWriteWithoutTransaction { db in
            gate.update { gate in
                gate.isHeld = true
                return true
            }
            changes.notify()
            _ = gate.wait(until: LaneClock.now() + 60 * LaneClock.nanosecondsPerSecond) { $0.isOpen ? true : nil }
            try? db.execute(sql: sql)
        }
        #expect(await changes.wait { gate.withValue { $0.isHeld } })
        var tasks: [Task<UserID, any Error>] = []
        let end = ContinuousClock.now + .seconds(20)
        for operation in operations {
            tasks.append(Task { try await operation() })
            while writes.waitingCount < tasks.count, ContinuousClock.now < end { await Task.yield() }
        }
        #expect(writes.waitingCount == operations.count)
        if let cancelled { tasks[cancelled].cancel() }
        gate.update { gate in
            gate.isOpen = true
            return true
        }
        var results: [Result<UserID, any Error>] = []
        for task in tasks { results.append(await task.result) }
        return results
    }

    /// Counts the statements that begin with this word, from now on, even if they fail.
    private func countStatements(_ word: String, _ store: GatewayStore) async throws -> @Sendable () -> Int {
        let counter = Counter()
        try await store.connections.writeWithoutTransaction { db in
            db.trace { event in if "\(event)".hasPrefix(word) { counter.increment() } }
        }
        return { counter.count }
    }

    private final class Counter: Sendable {
        private let value = Mutex(0)
        var count: Int { value.withLock { $0 } }
        func increment() { value.withLock { $0 += 1 } }
    }

    private func adding(_ login: String, _ fixture: StoreFixture) -> (id: UserID, operation: Operation) {
        let user = User(id: fixture.id(), login: login, createdAt: fixture.start)
        return (user.id, { try await fixture.store.add(user, nil, fixture.audit()).item.id })
    }

    /// An operation that changes the database and then fails.
    private func failing(_ fixture: StoreFixture, _ sql: Gateway.SQL) -> Operation {
        {
            try await fixture.store.database.write { db -> UserID in
                try db.execute("UPDATE totals SET value = 7 WHERE name = 'sent'")
                try db.execute(sql)
                throw StoreError.changed
            }
        }
    }

    private func error(_ result: Result<UserID, any Error>) -> StoreError? {
        if case .failure(let error) = result { error as? StoreError } else { nil }
    }

    private func sent(_ store: GatewayStore) async throws -> Int {
        try await store.database.read { db -> Int in
            try db.figures("SELECT value FROM totals WHERE name = 'sent'")["value"]
        }
    }

    @Test("Writes that wait together share a commit, up to 64 of them, and take effect in their order")
    func order() async throws {
        try await StoreKind.file.run { fixture in
            let (store, count) = (fixture.store, GroupCommit.mostWrites + 6)
            let before = try await store.counts(at: fixture.start).sequence
            let users = (0..<count).map { adding("user\($0)", fixture) }
            let commits = try await countStatements("COMMIT", store)
            let results = try await together(store, users.map(\.operation))
            #expect(try results.map { try $0.get() } == users.map(\.id))
            #expect(commits() == 2)
            let changes = try await store.changes(after: before, limit: count)
            #expect(changes.map(\.subject) == users.map { .user($0.id) })
        }
    }

    @Test("In a group, a write that fails undoes its own changes only", arguments: StoreKind.allCases)
    func failure(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let (one, two, twoAgain) = (adding("one", fixture), adding("two", fixture), adding("two", fixture))
            let commits = try await countStatements("COMMIT", store)
            let results = try await together(
                store, [one.operation, failing(fixture, "SELECT 1"), two.operation, twoAgain.operation])
            #expect(try results[0].get() == one.id && results[2].get() == two.id)
            #expect(error(results[1]) == .changed && error(results[3]) == .exists(.login))
            #expect(commits() == 1)
            #expect(try await sent(store) == 0)
            for id in [one.id, two.id] { #expect(try await store.user(id) != nil) }
        }
    }

    @Test("If a write undoes the transaction of its group, the other writes succeed", arguments: StoreKind.allCases)
    func abortedGroup(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let (one, two) = (adding("one", fixture), adding("two", fixture))
            let results = try await together(
                fixture.store, [one.operation, failing(fixture, "ROLLBACK"), two.operation])
            #expect(try results[0].get() == one.id && results[2].get() == two.id)
            #expect(error(results[1]) == .changed)
            #expect(try await sent(fixture.store) == 0)
            for id in [one.id, two.id] { #expect(try await fixture.store.user(id) != nil) }
        }
    }

    @Test("If COMMIT fails because of one write, that write fails, and the other writes of the group succeed")
    func failedCommit() async throws {
        try await StoreKind.file.run { fixture in
            let store = fixture.store
            try await store.connections.write { db in
                try db.execute(
                    sql: "CREATE TABLE notes (user_id TEXT REFERENCES users (id) DEFERRABLE INITIALLY DEFERRED)")
            }
            let (one, two) = (adding("one", fixture), adding("two", fixture))
            let commits = try await countStatements("COMMIT", store)
            let violating: Operation = {
                try await store.database.write { db -> UserID in
                    try db.execute("INSERT INTO notes VALUES ('missing')")
                    return one.id
                }
            }
            let results = try await together(store, [one.operation, violating, two.operation])
            #expect(try results[0].get() == one.id && results[2].get() == two.id)
            #expect(error(results[1]) == .notFound)
            // The commits of the group, and of each write.
            #expect(commits() == 4)
            for id in [one.id, two.id] { #expect(try await store.user(id) != nil) }
        }
    }

    @Test(
        "If the database refuses the transaction of a group, each write fails after one attempt; later writes succeed")
    func refusedGroup() async throws {
        try await StoreKind.file.run { fixture in
            let users = (0..<3).map { adding("user\($0)", fixture) }
            let begins = try await countStatements("BEGIN", fixture.store)
            let results = try await together(
                fixture.store, users.map(\.operation), after: "PRAGMA query_only = ON")
            #expect(begins() == 1)
            expectUnavailable(results)
            try await fixture.store.refuseWrites(false)
            #expect(try await users[0].operation() == users[0].id)
        }
    }

    @Test("While another connection locks the database, a group waits once, and all of its writes fail")
    func lockedDatabase() async throws {
        try await StoreKind.file.run { fixture in
            let users = (0..<3).map { adding("user\($0)", fixture) }
            var configuration = Configuration()
            configuration.allowsUnsafeTransactions = true
            let other = try DatabaseQueue(path: fixture.store.connections.path, configuration: configuration)
            try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN EXCLUSIVE") }
            let begins = try await countStatements("BEGIN", fixture.store)
            let results = try await together(
                fixture.store, users.map(\.operation), after: "PRAGMA busy_timeout = 100")
            #expect(begins() == 1)
            expectUnavailable(results)
            try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
            try other.close()
            #expect(try await users[0].operation() == users[0].id)
        }
    }

    private func expectUnavailable(_ results: [Result<UserID, any Error>]) {
        for result in results {
            guard case .unavailable = error(result) else {
                Issue.record("\(result)")
                continue
            }
        }
    }

    @Test("A write whose task is cancelled while it waits does not run")
    func cancellation() async throws {
        try await StoreKind.file.run { fixture in
            let users = (0..<3).map { adding("user\($0)", fixture) }
            let results = try await together(fixture.store, users.map(\.operation), cancelled: 1)
            #expect(try results[0].get() == users[0].id && results[2].get() == users[2].id)
            #expect(error(results[1]) != nil)
            #expect(try await fixture.store.user(users[1].id) == nil)
        }
    }
}
