// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import FoundationEssentials
import GRDB
import NetworkAddresses
import PacketTunnelLinux
import Provisioning
import Testing
import TunnelSystem
import WireGuardCore

@testable import Gateway

@Suite struct SQLiteFileTests {
    private func pragma(_ store: GatewayStore, _ name: String) async throws -> String {
        try await store.connections.write { try String.fetchOne($0, sql: "PRAGMA \(name)") ?? "" }
    }

    @Test(
        "A commit is on disk when it returns, references are enforced, and only the owner can access the files"
    )
    func settings() async throws {
        try await TestFolder.use { folder in
            let store = try GatewayStore(path: "\(folder)/gateway.db")
            let fixture = StoreFixture(store)
            _ = try await fixture.user()
            #expect(try await pragma(store, "journal_mode") == "wal")
            #expect(try await pragma(store, "synchronous") == "2")
            #expect(try await pragma(store, "foreign_keys") == "1")
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                #expect(FileStatus(of: "\(folder)/\(name)")?.mode == 0o600, "\(name)")
            }
            try store.close()
        }
    }

    @Test("A file that other users may read, a link and a folder are refused")
    func foreignFiles() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            try GatewayStore(path: path).close()
            try TestFolder.setMode(path, 0o640)
            #expect(throws: StoreError.self) { _ = try GatewayStore(path: path) }
            try TestFolder.setMode(path, 0o600)
            try FileManager.default.createSymbolicLink(atPath: "\(folder)/link", withDestinationPath: path)
            #expect(throws: StoreError.self) { _ = try GatewayStore(path: "\(folder)/link") }
            #expect(throws: StoreError.self) { _ = try GatewayStore(path: folder) }
            #expect(throws: StoreError.self) { _ = try GatewayStore(path: "\(folder)/none/gateway.db") }
        }
    }

    @Test("While the file is removed or replaced, writes fail and reads continue; they succeed when it is back")
    func removedFile() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            let store = try GatewayStore(path: path)
            let fixture = StoreFixture(store)
            let user = try await fixture.user("anna")
            try FileManager.default.moveItem(atPath: path, toPath: "\(folder)/other")
            let missing = await #expect(throws: StoreError.self) { _ = try await fixture.user("ben") }
            guard case .unavailable(let reason) = missing else {
                Issue.record("\(String(describing: missing))")
                return
            }
            #expect(reason.contains("removed or replaced"))
            try FileManager.default.copyItem(atPath: "\(folder)/other", toPath: path)
            await #expect(throws: StoreError.self) { _ = try await fixture.user("ben") }
            #expect(try await store.user(user.id)?.login == "anna")
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.moveItem(atPath: "\(folder)/other", toPath: path)
            _ = try await fixture.user("ben")
            try store.close()
        }
    }

    @Test("On a read-only file system, the files of a killed process are read, and access ends without being saved")
    func readOnly() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            let store = try GatewayStore(path: path)
            let user = try await StoreFixture(store).user("anna")
            // A killed process leaves the database and its log, which has the user.
            let files = ["", "-wal"].map { "\(folder)/killed.db\($0)" }
            for (file, end) in zip(files, ["", "-wal"]) {
                try FileManager.default.copyItem(atPath: path + end, toPath: file)
            }
            try store.close()
            let contents = files.map { FileManager.default.contents(atPath: $0) }
            let found = try GatewayStore(path: files[0], isReadOnly: true)
            #expect(try await found.user(user.id)?.login == "anna")
            await #expect(throws: StoreError.readOnly) { _ = try await StoreFixture(found, seed: 2).user("ben") }
            let fixture = try ServiceFixture(store: found)
            fixture.service.reportReadOnly()
            func isReported() -> Bool { fixture.service.unsaved.contains { $0.what.contains("mount it writable") } }
            #expect(isReported())
            await #expect(throws: GatewayError.self) { try await fixture.service.sweep(.gateway) }
            #expect(isReported())
            var update = UserUpdate()
            update.isEnabled = false
            #expect(try await fixture.service.updateUser(user.id, update, fixture.admin).isSaved == false)
            #expect(fixture.service.denials.users == [user.id])
            try found.close()
            #expect(files.map { FileManager.default.contents(atPath: $0) } == contents)
            #expect(throws: StoreError.self) { _ = try GatewayStore(path: "\(folder)/none.db", isReadOnly: true) }
            #expect(FileStatus(of: "\(folder)/none.db") == nil)
        }
    }

    /// A change of the write-ahead log by another process.
    enum LogChange: CaseIterable, Sendable {
        case removed, replaced
    }

    @Test(
        "If the write-ahead log is removed or replaced, its changes move into the database, and writes fail with the remedy",
        arguments: LogChange.allCases)
    func changedLog(_ change: LogChange) async throws {
        try await TestFolder.use { folder in
            let (path, earlier) = ("\(folder)/gateway.db", "\(folder)/earlier")
            let log = path + "-wal"
            let store = try GatewayStore(path: path)
            let fixture = StoreFixture(store)
            // The log of an earlier time is valid: the next start would apply it.
            try FileManager.default.copyItem(atPath: log, toPath: earlier)
            let user = try await fixture.user("anna")
            try FileManager.default.removeItem(atPath: log)
            if change == .replaced { try FileManager.default.moveItem(atPath: earlier, toPath: log) }
            let remedy = change == .removed ? "restart the gateway" : "stop the gateway normally, or remove '\(log)'"
            for _ in 1...2 {
                let error = await #expect(throws: StoreError.self) { _ = try await fixture.user("ben") }
                guard case .unavailable(let reason) = error else { throw TestFailure("\(String(describing: error))") }
                #expect(reason.contains("gateway.db-wal' was removed or replaced"), "\(reason)")
                #expect(reason.contains("nothing is lost") == (change == .removed), "\(reason)")
                #expect(reason.contains(remedy), "\(reason)")
            }
            #expect(try await store.user(user.id)?.login == "anna")
            // A process that is killed now loses nothing: the database alone has the change.
            let copy = "\(folder)/copy.db"
            try FileManager.default.copyItem(atPath: path, toPath: copy)
            let next = try GatewayStore(path: copy)
            #expect(try await next.user(user.id)?.login == "anna")
            try next.close()
            // A normal end removes a new log, and the next start accepts writes again.
            try store.close()
            #expect(!FileManager.default.fileExists(atPath: log))
            let restarted = try GatewayStore(path: path)
            #expect(try await restarted.user(user.id)?.login == "anna")
            _ = try await StoreFixture(restarted, seed: 2).user("ben")
            try restarted.close()
        }
    }

    @Test("If the write-ahead log is removed during a write, the write succeeds, and the database alone has its change")
    func logRemovedDuringWrite() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            let store = try GatewayStore(path: path)
            try await store.database.write { db in
                try FileManager.default.removeItem(atPath: path + "-wal")
                try db.execute("UPDATE totals SET value = 7 WHERE name = 'sent'")
            }
            // A process that is killed now loses nothing.
            let copy = "\(folder)/copy.db"
            try FileManager.default.copyItem(atPath: path, toPath: copy)
            let next = try GatewayStore(path: copy)
            let sent = try await next.database.read { db -> Int in
                try db.figures("SELECT value FROM totals WHERE name = 'sent'")["value"]
            }
            #expect(sent == 7)
            try next.close()
            try store.close()
        }
    }

    @Test("A write after the database was closed fails, and so does a second one")
    func closed() async throws {
        try await TestFolder.use { folder in
            let store = try GatewayStore(path: "\(folder)/gateway.db")
            let fixture = StoreFixture(store)
            try store.close()
            for _ in 1...2 {
                let error = await #expect(throws: StoreError.self) { _ = try await fixture.user("ben") }
                guard case .unavailable(let reason) = error else { throw TestFailure("\(String(describing: error))") }
                #expect(reason.contains("closed"), "\(reason)")
            }
        }
    }

    @Test("The error of a copy on a full disk names the cause")
    func fullDisk() {
        let error = DatabaseError(resultCode: .SQLITE_FULL, message: "not an error")
        #expect("\(SQLiteDatabase.problem(error))".contains("full"))
    }

    @Test("The file is copied before a migration, and its content is kept")
    func migration() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            let first = try GatewayStore(path: path)
            let user = try await StoreFixture(first).user()
            try first.close()
            var migrator = Schema.migrator
            migrator.registerMigration("next") { try $0.execute(sql: "ALTER TABLE users ADD COLUMN colour TEXT") }
            let second = try GatewayStore(SQLiteDatabase(path: path, migrator: migrator))
            #expect(try await second.user(user.id) == user)
            try second.close()
            let copy = "\(folder)/gateway.db.version-\(try #require(Schema.migrator.migrations.last))"
            #expect(FileStatus(of: copy)?.mode == 0o600)
            let old = try GatewayStore(path: copy)
            #expect(try await old.user(user.id) == user)
            try old.close()
        }
    }

    @Test("A copy that fails leaves no file")
    func failedCopy() async throws {
        try await TestFolder.use { folder in
            let store = try GatewayStore(path: "\(folder)/gateway.db")
            _ = try await StoreFixture(store).user()
            let copy = "\(folder)/copy.db"
            // SQLite cannot make the journal of the copy.
            try FileManager.default.createDirectory(atPath: "\(copy)-journal", withIntermediateDirectories: false)
            #expect(throws: StoreError.self) { try store.copy(to: copy) }
            #expect(FileStatus(of: copy) == nil)
            try FileManager.default.removeItem(atPath: "\(copy)-journal")
            try store.copy(to: copy)
            #expect(FileStatus(of: copy) != nil)
            try store.close()
        }
    }

    @Test(
        "A migration that fails half-way and is repeated leaves a copy of the earlier file; each version is copied once"
    )
    func copies() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            try GatewayStore(path: path).close()
            func copies() throws -> [String] {
                try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasPrefix("gateway.db.") }
                    .filter { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") }.sorted()
            }
            var migrator = Schema.migrator
            migrator.registerMigration("next") { try $0.execute(sql: "ALTER TABLE users ADD COLUMN colour TEXT") }
            var failing = migrator
            failing.registerMigration("last") { try $0.execute(sql: "SELECT * FROM nowhere") }
            #expect(throws: StoreError.self) { _ = try GatewayStore(SQLiteDatabase(path: path, migrator: failing)) }
            let first = "gateway.db.version-\(try #require(Schema.migrator.migrations.last))"
            #expect(try copies() == [first])
            for _ in 0..<2 {
                #expect(throws: StoreError.self) { _ = try GatewayStore(SQLiteDatabase(path: path, migrator: failing)) }
                #expect(try copies() == [first, "gateway.db.version-next"])
            }
            // The program from before the migration reads the first copy.
            let old = try GatewayStore(path: "\(folder)/\(first)")
            _ = try await StoreFixture(old).user("anna")
            try old.close()
            // A file that was restored and changed is copied to another name.
            let bytes = try Data(contentsOf: URL(filePath: "\(folder)/\(first)"))
            for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
            try bytes.write(to: URL(filePath: path))
            try TestFolder.setMode(path, 0o600)
            let restored = try GatewayStore(path: path)
            _ = try await StoreFixture(restored, seed: 2).user("ben")
            try restored.close()
            try GatewayStore(SQLiteDatabase(path: path, migrator: migrator)).close()
            #expect(try copies() == [first, "\(first).2", "gateway.db.version-next"])
            #expect(try Data(contentsOf: URL(filePath: "\(folder)/\(first)")) == bytes)
        }
    }

    @Test("A database of a later version is refused with an explanation, and is unchanged")
    func newerVersion() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            var migrator = Schema.migrator
            migrator.registerMigration("next") { try $0.execute(sql: "CREATE TABLE later (x INTEGER)") }
            try GatewayStore(SQLiteDatabase(path: path, migrator: migrator)).close()
            do {
                _ = try GatewayStore(path: path)
                Issue.record("a newer database was opened")
            } catch {
                guard case StoreError.newerVersion(let words) = error else { throw error }
                #expect(words.contains("later version") && words.contains("next"))
            }
            try GatewayStore(SQLiteDatabase(path: path, migrator: migrator)).close()
        }
    }

    @Test("A migration that fails changes nothing")
    func failedMigration() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            let first = try GatewayStore(path: path)
            let user = try await StoreFixture(first).user()
            try first.close()
            var migrator = Schema.migrator
            migrator.registerMigration("next") {
                try $0.execute(sql: "DELETE FROM users")
                try $0.execute(sql: "SELECT * FROM nowhere")
            }
            #expect(throws: StoreError.self) { _ = try GatewayStore(SQLiteDatabase(path: path, migrator: migrator)) }
            let again = try GatewayStore(path: path)
            #expect(try await again.user(user.id) == user)
            try again.close()
        }
    }

    @Test("A file that is not a database, and rows that were damaged, are errors without a crash")
    func damage() async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            let file = SystemCall.open(path, O_WRONLY | O_CREAT)
            SystemCall.writeAll(file, Array(repeating: 0x55, count: 8192))
            SystemCall.close(file)
            #expect(throws: StoreError.self) { _ = try GatewayStore(path: path) }

            let store = try GatewayStore(path: "\(folder)/other.db")
            let fixture = StoreFixture(store)
            let user = try await fixture.user()
            let device = try await fixture.device(of: user)
            for change in [
                "UPDATE devices SET public_key = x'00'", "UPDATE devices SET public_key = NULL, kind = 'other'",
                "UPDATE devices SET kind = 'exported', id = 'short'",
            ] {
                try await store.connections.write { db in
                    try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
                    try db.execute(sql: "UPDATE addresses SET device_id = NULL, released_at = 0")
                    try db.execute(sql: change)
                }
                await #expect(throws: StoreError.self) { _ = try await store.devices(of: nil, PageRequest()) }
                await #expect(throws: StoreError.self) { _ = try await store.peers(after: nil) }
            }
            #expect(try await store.device(device.id) == nil)
            try store.close()
        }
    }

    @Test("Files and copies of the database contain no secret: tokens, credentials, pre-shared and server keys")
    func secrets() async throws {
        try await TestFolder.use { folder in
            let store = try GatewayStore(path: "\(folder)/gateway.db")
            let fixture = try ServiceFixture(store: store)
            let anna = try await fixture.user()
            let device = try await fixture.enrolled(anna)
            let invitation = try await fixture.service.addInvitation(InvitationDraft(userID: anna.id), fixture.admin)
            let token = try await fixture.token(.admin)
            _ = try await fixture.service.announceServerKey(fixture.admin)
            try store.copy(to: "\(folder)/copy.db")
            let secrets = [
                invitation.secret.exportedText, token.secret.exportedText, device.credential.exportedText,
                device.key.exportedBase64, try #require(device.grant.presharedKey).exportedBase64,
                fixture.service.serverKeys.current.exportedBase64,
                try #require(fixture.service.serverKeys.next).key.exportedBase64,
            ]
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                let bytes = try Data(contentsOf: URL(filePath: "\(folder)/\(name)"))
                for secret in secrets {
                    #expect(bytes.firstRange(of: Data(secret.dropFirst(12).utf8)) == nil, "\(name)")
                    let raw = Data(base64Encoded: String(secret.suffix(44)))
                    if let raw { #expect(bytes.firstRange(of: raw) == nil, "\(name)") }
                }
            }
            try store.close()
        }
    }
}
