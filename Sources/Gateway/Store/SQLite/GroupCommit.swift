// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import GRDB
import Synchronization

/// The queue of a database's writes. Writes that wait at the same time share one transaction, because each commit waits for
/// the disk.
///
/// The writes run in the order of the requests. Each has a savepoint, so that a write that fails undoes only its own
/// changes, and each gets its result after the commit.
final class GroupCommit: Sendable {
    private struct Write: Sendable {
        /// Runs the write, and returns a function that reports its success.
        let run: @Sendable (any SQLSession) throws -> @Sendable () -> Void
        let fail: @Sendable (any Error) -> Void
    }

    /// The maximum number of writes in a transaction. It limits the time for which the first one waits for the others.
    static let mostWrites = 64

    private let waiting = Mutex<[Write]>([])

    /// The number of writes that wait.
    var waitingCount: Int { waiting.withLock { $0.count } }

    /// Runs `body`, and returns its result when its changes are durable. If `body` throws, it changes nothing. It may run
    /// twice: in a group, and alone if the whole group has failed. If the task is cancelled before that, it does not run.
    func write<Result: Sendable>(
        to connections: any DatabaseWriter, _ body: @escaping @Sendable (any SQLSession) throws -> Result
    ) async throws -> Result {
        let cancellation = Cancellation()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let write = Write { session in
                    if cancellation.isRequested { throw CancellationError() }
                    let result = try body(session)
                    return { continuation.resume(returning: result) }
                } fail: {
                    continuation.resume(throwing: $0)
                }
                waiting.withLock { $0.append(write) }
                // An earlier call may run this write too. This call then runs later writes, or none.
                connections.asyncWriteWithoutTransaction { self.commitNext(on: $0) }
            }
        } onCancel: {
            cancellation.request()
        }
    }

    private func commitNext(on db: Database) {
        let group = waiting.withLock { waiting in
            let group = Array(waiting.prefix(Self.mostWrites))
            waiting.removeFirst(group.count)
            return group
        }
        guard group.count > 1 else {
            for write in group { commit(write, on: db) }
            return
        }
        var hasBegun = false
        do {
            for report in try commit(group, on: db, begun: { hasBegun = true }) { report() }
        } catch  where hasBegun {
            // The group has had no effect. A single write may be the cause.
            for write in group { commit(write, on: db) }
        } catch {
            // Another process may have locked the database: separate attempts would wait for it one after another.
            for write in group { write.fail(error) }
        }
    }

    /// Runs a write in its own transaction, and reports the result.
    private func commit(_ write: Write, on db: Database) {
        var report: (@Sendable () -> Void)?
        do {
            try db.inTransaction {
                report = try write.run(SQLiteSession(connection: db))
                return .commit
            }
            report?()
        } catch {
            write.fail(error)
        }
    }

    /// Runs writes in one transaction.
    /// - Parameter begun: Called when the transaction has begun.
    /// - Returns: The functions that report the results.
    /// - Throws: An error of the whole transaction, which has no effect then.
    private func commit(
        _ group: [Write], on db: Database, begun: () -> Void
    ) throws -> [@Sendable () -> Void] {
        var reports: [@Sendable () -> Void] = []
        try db.inTransaction {
            begun()
            for write in group {
                try db.execute(sql: "SAVEPOINT of_write")
                do {
                    let report = try write.run(SQLiteSession(connection: db))
                    try db.execute(sql: "RELEASE SAVEPOINT of_write")
                    reports.append(report)
                } catch {
                    // This throws if SQLite has undone the whole transaction, as after some errors of the disk.
                    try db.execute(sql: "ROLLBACK TO SAVEPOINT of_write; RELEASE SAVEPOINT of_write")
                    reports.append { write.fail(error) }
                }
            }
            return .commit
        }
        return reports
    }
}

/// Whether the task of a write was cancelled.
private final class Cancellation: Sendable {
    private let flag = Atomic(false)
    var isRequested: Bool { flag.load(ordering: .relaxed) }
    func request() { flag.store(true, ordering: .relaxed) }
}
