// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CompatibilityFixtures
import FoundationEssentials
import GRDB
import Logging
import NetworkAddresses
import PacketTunnel
import Provisioning
import Testing
import TunnelServer
import WireGuardCore

@testable import Gateway

/// A gateway's folder and a backup of it, both written by an earlier commit.
@Suite("A gateway's folder of an earlier version") struct GatewayFixtureTests {
    private static let home = IPAddress.v4(192, 0, 2, 7)
    private let admin = Caller.local(0)

    /// The number of rows in each table of the fixture.
    private static var counts: [String: Int] {
        get throws {
            try JSONDecoder().decode(
                [String: Int].self, from: Data(contentsOf: Fixtures.url("gateway-admin/counts.json")))
        }
    }

    private func counts(_ store: GatewayStore) async throws -> [String: Int] {
        let tables = try Self.counts.keys.sorted()
        return try await store.connections.read { db in
            var counts: [String: Int] = [:]
            for table in tables { counts[table] = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM \(table)") }
            return counts
        }
    }

    /// The service of a folder, whose clock always shows the time at which the fixtures were made.
    private func service(_ directory: GatewayDirectory, _ store: GatewayStore) throws -> GatewayService {
        let now = try Fixtures.madeAt
        return try GatewayService(
            store: store, keys: directory, settings: directory.settings(),
            clock: GatewayClock(now: { now }, nanoseconds: { 0 }),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    private func use(_ body: (GatewayDirectory, GatewayStore, GatewayService) async throws -> Void) async throws {
        try await TestFolder.use { folder in
            let directory = try GatewayDirectory(
                existing: Fixtures.copy("gateway", to: "\(folder)/gateway"))
            let store = try directory.openStore()
            try await body(directory, store, try service(directory, store))
            try store.close()
        }
    }

    @Test("The database is migrated with all rows of each table, and is sound")
    func migration() async throws {
        try await use { _, store, _ in
            try await store.check()
            #expect(try await counts(store) == Self.counts)
            #expect(try Self.counts.values.allSatisfy { $0 > 0 })
        }
    }

    @Test("Settings, keys and certificates are read, and are written with the same values")
    func folder() async throws {
        try await use { directory, _, _ in
            let settings = try directory.settings()
            #expect(settings.host == "192.0.2.2" && settings.label == "Fixture" && settings.loginTunnel.isEnabled)
            try directory.write(settings)
            #expect(try directory.settings() == settings)
            let keys = try directory.serverKeys()
            #expect(keys.next != nil && keys.next?.key != keys.current)
            try directory.write(keys)
            #expect(try directory.serverKeys() == keys)
            #expect(try directory.text("server.next.key") == Fixtures.text("gateway/server.next.key"))
            #expect(
                try directory.loginKeys().presharedKey.exportedBase64 == Fixtures.line("gateway/login.preshared.key"))
            #expect(try directory.addKeyCertificate().authority == Fixtures.text("gateway/addkey-ca.crt"))
            // The backup key replaces the active key.
            let pins = try directory.pins()
            let key = try Fixtures.copy("gateway-admin/backup.key", to: "\(directory.path)-backup.key")
            try directory.activateBackupKey(key, newBackupKey: "\(directory.path)-new.key")
            #expect(try directory.pins().active == pins.backup)
        }
    }

    @Test("The database has devices of each kind, users, rules, tokens, addresses and the audit log")
    func contents() async throws {
        try await use { _, store, service in
            let users = try await service.users(PageRequest(), admin).items
            #expect(Set(users.map(\.login)) == ["anna", "ben", "cara", "dora"])
            #expect(users.filter { !$0.isEnabled }.map(\.login) == ["cara"])
            var devices: [Device] = []
            for user in users { devices += try await service.devices(of: user.id, PageRequest(), admin).items }
            #expect(Set(devices.map(\.kind)) == Set(Device.Kind.allCases))
            #expect(devices.contains { $0.traffic.received > 0 && $0.lastSeenAt != nil && $0.lastEndpoint != nil })
            let phone = try #require(devices.first { $0.name == "phone" })
            #expect(phone.subnets == [try IPPrefix("192.168.7.0/24")] && phone.expiresAt != nil)
            #expect(devices.first { $0.name == "tablet" }?.isEnabled == false)
            let rules = try await service.rules(of: .device(phone.id), admin)
            #expect(rules.map(\.access.direction) == [.in])
            let tokens = try await service.tokens(PageRequest(), admin).items
            #expect(Set(tokens.map(\.scope)) == Set(Token.Scope.allCases))
            #expect(tokens.count { $0.revokedAt != nil } == 1)
            let invitations = try await service.invitations(PageRequest(), admin).items
            #expect(invitations.map(\.misuses).reduce(0, +) == 1 && invitations.count { $0.usedAt != nil } == 1)
            let leases = try await store.leases()
            #expect(leases.count == (try Self.counts["addresses"]))
            let entries = try await store.audit(AuditFilter(), PageRequest(limit: 500)).items
            #expect(entries.count == (try Self.counts["audit"]))
            #expect(entries.contains { $0.record.action == .invitationMisused })
        }
    }

    @Test("The unused invitation, tokens, the credential and client passwords are accepted, and none expires soon")
    func secrets() async throws {
        try await use { _, store, service in
            let before = try await counts(store)
            let caller = try await service.caller(bearer: Fixtures.line("gateway-admin/robot.token"), from: Self.home)
            #expect(try await service.users(PageRequest(), caller).items.count == before["users"])

            let invitation = try Invitation(Fixtures.text("gateway-admin/unused.invitation"))
            // Clients use the machine's clock. The longest lifetime is ten years.
            #expect(invitation.expires.timeIntervalSince(try Fixtures.madeAt) > 9.9 * 365 * 86_400)
            var random = SystemRandomNumberGenerator()
            for bearer in [invitation.token.exportedText, try Fixtures.line("gateway-admin/enrol.token")] {
                let request = EnrolmentRequest(
                    publicKey: PrivateKey(using: &random).publicKey, credential: BearerSecret(.device, using: &random))
                let grant = try await service.enrol(bearer: bearer, request, from: Self.home).item
                #expect(grant.device.user == "anna" && grant.servers.count == 2)
            }
            let revoked = try Invitation(Fixtures.text("gateway-admin/revoked.invitation"))
            let request = EnrolmentRequest(
                publicKey: PrivateKey(using: &random).publicKey, credential: BearerSecret(.device, using: &random))
            await #expect(throws: GatewayError.self) {
                _ = try await service.enrol(bearer: revoked.token.exportedText, request, from: Self.home)
            }
            // The slot of PIA's client keeps its key and its addresses.
            let key = try #require(PrivateKey(base64: try Fixtures.line("gateway-admin/addkey.key")))
            let slot = try await service.addKey(
                token: Fixtures.line("gateway-admin/addkey.token"), publicKey: key.publicKey, from: Self.home)
            let kept = try #require(try await store.device(slot.device.id)?.device)
            #expect(kept.addresses == slot.addresses)
            #expect(try await counts(store)["devices"] == before["devices"].map { $0 + 2 })

            let password = SecretBytes(Array(try Fixtures.line("gateway-admin/anna.password").utf8))
            let judgement = try await service.logIn(
                LoginRequest(login: "anna", password: password, source: try Endpoint("198.51.100.2:1"), busy: []),
                .gateway)
            guard case .accepted(let id, _, _) = judgement else {
                Issue.record("the login was not accepted: \(judgement)")
                return
            }
            // The login has the device and the addresses of the previous session.
            let device = try #require(try await store.device(id)?.device)
            let now = try Fixtures.madeAt
            #expect(device.kind == .login && device.createdAt < now)
        }
    }

    @Test("A rule is added, and the enrolled device is revoked")
    func goesOn() async throws {
        try await use { _, store, service in
            let anna = try #require(try await store.user(login: "anna"))
            let rules = try await service.rules(of: .user(anna.id), admin)
            let deny = AccessRule(.deny, networks: [try IPPrefix("203.0.113.0/24")])
            let drafts = rules.map { RuleDraft($0.access, notes: $0.notes) } + [RuleDraft(deny)]
            let set = try await service.setRules(of: .user(anna.id), drafts, admin)
            #expect(set.map(\.access) == rules.map(\.access) + [deny])
            #expect(set.map(\.notes) == rules.map(\.notes) + [""])
            let devices = try await service.devices(of: anna.id, PageRequest(), admin).items
            let laptop = try #require(devices.first { $0.kind == .enrolled })
            let feed = try await service.peers(after: nil, .gateway)
            #expect(feed.changed.contains { $0.deviceID == laptop.id && $0.publicKey == laptop.publicKey })
            try await service.removeDevice(laptop.id, admin)
            let changes = try await service.peers(after: feed.sequence, .gateway)
            #expect(changes.removed == [laptop.id])
            let cooldowns = try await service.cooldowns(CooldownFilter(userID: anna.id), PageRequest(), admin).items
            #expect(Set(cooldowns.map(\.address)) == Set(laptop.addresses) && cooldowns.first?.login == "anna")
            #expect(try await service.audit(AuditFilter(), PageRequest(), admin).items.allSatisfy { $0.count == 1 })
        }
    }

    @Test("The backup is restored with the folder's keys, settings and rows")
    func backup() async throws {
        try await TestFolder.use { folder in
            let original = try GatewayDirectory(existing: Fixtures.copy("gateway", to: "\(folder)/gateway"))
            let result = try await GatewayBackup.restore(
                Array(Data(contentsOf: Fixtures.url("gateway-admin/gateway.backup"))), to: "\(folder)/restored",
                passphrase: Array(Fixtures.line("gateway-admin/passphrase").utf8), revokingSince: original.path,
                now: Fixtures.madeAt)
            let restored = result.directory
            // The entry of this backup is the only one that follows it.
            #expect(result.later?.entries == [.backupMade: 1] && result.later?.revocations == [])
            #expect(result.lastEntry?.record.action != .backupMade)
            #expect(try restored.settings() == original.settings())
            #expect(try restored.serverKeys() == original.serverKeys())
            #expect(try restored.presharedMaster() == original.presharedMaster())
            #expect(try restored.pins() == original.pins())
            #expect(try restored.loginKeys() == original.loginKeys())
            let store = try restored.openStore()
            // A restore adds one change. It also adds one audit entry, in place of the entry that the backup added.
            var expected = try Self.counts
            expected["changes", default: 0] += 1
            #expect(try await counts(store) == expected)
            let service = try service(restored, store)
            let credential = try await service.caller(
                bearer: Fixtures.line("gateway-admin/robot.token"), from: Self.home)
            #expect(try await service.users(PageRequest(), credential).items.contains { $0.login == "anna" })
            try store.close()
        }
    }
}
