// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import NetworkAddresses
import PacketTunnelTesting
import Provisioning
import Testing
import TunnelSystem
import WireGuardCore

@testable import Gateway

@Suite("Restores that end later access again")
struct GatewayRestoreTests {
    /// A gateway with a backup.
    private struct Scene {
        let folder: String
        let directory: GatewayDirectory
        let store: GatewayStore
        let fixture: StoreFixture
        let restored: String

        init(_ folder: String, _ name: String = "gateway") throws {
            self.folder = folder
            let path = "\(folder)/\(name)"
            _ = try GatewayDirectory.make(
                path, try GatewayDirectoryTests.settings(), backupKey: "\(folder)/\(name).pem")
            // Unlike the value of a new folder, this one does not lock it.
            directory = try GatewayDirectory(existing: path)
            store = try directory.openStore()
            fixture = StoreFixture(store)
            restored = "\(folder)/restored"
        }

        func backup() async throws -> [UInt8] {
            try await GatewayBackup.file(directory, store, at: fixture.start)
        }

        func restore(_ file: [UInt8], since old: String? = nil) async throws -> RestoredGateway {
            try await GatewayBackup.restore(
                file, to: restored, revokingSince: old ?? directory.path, now: fixture.start.addingTimeInterval(10))
        }

        func token(_ name: String) async throws -> Token {
            let token = Token(
                id: fixture.id(), scope: .admin, userID: nil, name: name, hash: fixture.hash(), hint: "ct_abcdef",
                createdAt: fixture.start, expiresAt: nil)
            return try await store.add(
                token, slot: nil, fixture.limits(), nil, fixture.audit(.tokenAdded, "token:\(token.id)")
            ).item
        }

        func change(_ user: User, _ change: (inout UserUpdate) -> Void) async throws {
            var update = UserUpdate()
            change(&update)
            _ = try await store.update(user: user.id, update, fixture.audit(.userChanged, "user:\(user.id)", after: 1))
        }
    }

    @Test("Access that ended after the backup is ended again, and other access is unchanged")
    func revokes() async throws {
        try await TestFolder.use { folder in
            let scene = try Scene(folder)
            let (store, fixture) = (scene.store, scene.fixture)
            let (anna, ben, carl) = (
                try await fixture.user("anna"), try await fixture.user("ben"), try await fixture.user("carl")
            )
            let (dora, emil) = (try await fixture.user("dora"), try await fixture.user("emil"))
            try await scene.change(emil) { $0.password = .some(StoredPassword(text: "old")) }
            let (kept, lost, moved) = (
                try await fixture.device(of: anna), try await fixture.device(of: anna),
                try await fixture.device(of: anna)
            )
            let (off, onAgain) = (try await fixture.device(of: anna), try await fixture.device(of: anna))
            let late = try await fixture.device(of: anna)
            let (used, revoked, open) = (
                try await fixture.invitation(for: anna), try await fixture.invitation(for: anna),
                try await fixture.invitation(for: anna)
            )
            let (robot, monitor) = (try await scene.token("robot"), try await scene.token("monitor"))
            let file = try await scene.backup()

            func audit(_ action: AuditRecord.Action, _ subject: String) -> AuditRecord {
                fixture.audit(action, subject, after: 1)
            }
            try await store.remove(user: ben.id, audit(.userRemoved, "user:\(ben.id)"))
            try await scene.change(carl) { $0.isEnabled = false }
            let end = fixture.start.addingTimeInterval(3600)
            try await scene.change(dora) { $0.expiresAt = .some(end) }
            try await scene.change(emil) { $0.password = .some(StoredPassword(text: "new")) }
            try await store.remove(device: lost.id, of: nil, audit(.deviceRemoved, "device:\(lost.id)"))
            let key = fixture.key()
            _ = try await store.change(
                device: moved.id, .rotation(from: try #require(moved.publicKey), to: key, by: fixture.hash()),
                audit(.deviceKeyRotated, "device:\(moved.id)"))
            for (device, states) in [(off, [false]), (onAgain, [false, true])] {
                for state in states {
                    var update = DeviceUpdate()
                    update.isEnabled = state
                    _ = try await store.change(
                        device: device.id, .update(update, fixture.limits()),
                        audit(.deviceChanged, "device:\(device.id)"))
                }
            }
            var shorter = DeviceUpdate()
            shorter.expiresAt = .some(end)
            _ = try await store.change(
                device: late.id, .update(shorter, fixture.limits()), audit(.deviceChanged, "device:\(late.id)"))
            _ = try await store.enrol(fixture.enrolment(.invitation(used.hash), at: 1))
            _ = try await store.revoke(invitation: revoked.id, audit(.invitationRevoked, "invitation:\(revoked.id)"))
            _ = try await store.revoke(token: robot.id, audit(.tokenRevoked, "token:\(robot.id)"))
            // As after a crash, some of it is only in the write-ahead log.
            let before = try Data(contentsOf: URL(filePath: scene.directory.database))

            let result = try await scene.restore(file)
            #expect(try Data(contentsOf: URL(filePath: scene.directory.database)) == before)
            let later = try #require(result.later)
            #expect(
                Set(later.revocations.map { "\($0.subject) \($0.effect.rawValue)" }) == [
                    "user:\(ben.id) removed", "user:\(carl.id) disabled", "user:\(dora.id) expires earlier",
                    "user:\(emil.id) old password ended", "device:\(lost.id) removed",
                    "device:\(moved.id) old key ended", "device:\(off.id) disabled",
                    "device:\(late.id) expires earlier", "invitation:\(used.id) revoked",
                    "invitation:\(revoked.id) revoked", "token:\(robot.id) revoked",
                ])
            #expect(later.begins == nil && later.latest == fixture.start.addingTimeInterval(1))
            #expect(later.entries[.deviceEnrolled] == 1 && later.entries[.userChanged] == 3)

            #expect(FileStatus(of: "\(scene.restored)/earlier") == nil)
            let again = try GatewayDirectory(existing: scene.restored).openStore()
            #expect(try await again.user(ben.id) == nil)
            #expect(try await again.user(carl.id)?.isEnabled == false)
            #expect(try await again.user(dora.id)?.expiresAt == end)
            #expect(try await again.user(emil.id)?.password == StoredPassword(text: "new"))
            #expect(try await again.device(lost.id) == nil)
            #expect(try await again.device(moved.id)?.device.publicKey == key)
            #expect(try await again.device(off.id)?.device.isEnabled == false)
            #expect(try await again.device(late.id)?.device.expiresAt == end)
            for device in [kept, onAgain] { #expect(try await again.device(device.id)?.device == device) }
            #expect(try await again.invitation(used.id)?.revokedAt != nil)
            #expect(try await again.invitation(revoked.id)?.revokedAt != nil)
            #expect(try await again.invitation(open.id) == open)
            #expect(try await again.token(robot.id)?.revokedAt != nil)
            #expect(try await again.token(monitor.id) == monitor)
            #expect(
                try await again.audit(AuditFilter(subject: "device:\(lost.id)"), PageRequest()).items.first?
                    .record.action == .deviceRemoved)
            try again.close()
            try store.close()
        }
    }

    @Test("A restore without the earlier folder brings back a revoked device")
    func without() async throws {
        try await TestFolder.use { folder in
            let scene = try Scene(folder)
            let device = try await scene.fixture.device(of: try await scene.fixture.user())
            let file = try await scene.backup()
            try await scene.store.remove(
                device: device.id, of: nil, scene.fixture.audit(.deviceRemoved, "device:\(device.id)"))
            try scene.store.close()
            let result = try await GatewayBackup.restore(file, to: scene.restored)
            #expect(result.later == nil && result.counts.devices == 1)
        }
    }

    @Test(
        "The audit log of another gateway, a used folder and a folder without a database are refused, and nothing is left"
    )
    func refused() async throws {
        try await TestFolder.use { folder in
            let scene = try Scene(folder)
            let user = try await scene.fixture.user()
            let file = try await scene.backup()
            let other = try Scene(folder, "other")
            var later = other.fixture
            later.start.addTimeInterval(1)
            for name in ["x", "y", "z"] { _ = try await later.user(name) }
            try other.store.close()
            for name in ["empty", "new"] {
                try FileManager.default.createDirectory(atPath: "\(folder)/\(name)", withIntermediateDirectories: false)
            }
            try Data().write(to: URL(filePath: "\(folder)/new/gateway.db"))
            try scene.directory.lock()
            for (old, kind) in [
                (other.directory.path, GatewayDirectoryError.Kind.unusable), (scene.directory.path, .inUse),
                ("\(folder)/empty", .missing), ("\(folder)/none", .missing), ("\(folder)/new", .unusable),
            ] {
                do {
                    _ = try await scene.restore(file, since: old)
                    Issue.record("\(old) was accepted")
                } catch let error as GatewayDirectoryError {
                    #expect(error.kind == kind, "\(old): \(error)")
                }
                #expect(FileStatus(of: scene.restored) == nil)
            }
            #expect(try await scene.store.user(user.id) != nil)
            try scene.store.close()
        }
    }

    @Test("An audit log that was deleted up to a time after the backup is reported with this time")
    func gap() async throws {
        try await TestFolder.use { folder in
            let scene = try Scene(folder)
            let user = try await scene.fixture.user()
            let file = try await scene.backup()
            _ = try await scene.fixture.user("ben")
            try await scene.change(user) { $0.isEnabled = false }
            try await scene.store.connections.write {
                try $0.execute(
                    sql: "DELETE FROM audit WHERE at <= ?",
                    arguments: [scene.fixture.start.milliseconds])
            }
            try scene.store.close()
            let later = try #require(try await scene.restore(file).later)
            #expect(later.begins == scene.fixture.start.addingTimeInterval(1))
            #expect(later.revocations.map(\.effect) == [.disabled])
        }
    }

    @Test("The log of a gateway that was itself restored from the backup continues that of the backup")
    func restoredTwice() async throws {
        try await TestFolder.use { folder in
            let scene = try Scene(folder)
            let user = try await scene.fixture.user()
            let file = try await scene.backup()
            try scene.store.close()
            let path = try await GatewayBackup.restore(
                file, to: "\(folder)/first", now: scene.fixture.start
            ).directory.path
            let store = try GatewayDirectory(existing: path).openStore()
            var update = UserUpdate()
            update.isEnabled = false
            _ = try await store.update(
                user: user.id, update, scene.fixture.audit(.userChanged, "user:\(user.id)", after: 1))
            try store.close()
            let later = try #require(
                try await GatewayBackup.restore(file, to: scene.restored, revokingSince: path).later)
            #expect(later.revocations.map(\.effect) == [.disabled] && later.begins == nil)
            #expect(later.entries == [.restored: 1, .userChanged: 1])
        }
    }
}
