// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import Logging
import NetworkAddresses
import PacketTunnelTesting
import Provisioning
import Testing
import TunnelIO
import WireGuardCore

@testable import Gateway

/// Regression tests: with a full disk, expired and revoked devices once kept their access.
@Suite("A gateway whose database refuses writes", .timeLimit(.minutes(2)))
struct RefusingStoreTests {
    private struct Made {
        let fixture: ServiceFixture
        let store: GatewayStore
        let path: String
        let runtime: GatewayRuntime
        let changes: Changes

        var service: GatewayService { fixture.service }
        var admin: Caller { fixture.admin }

        /// Waits for a condition, which is evaluated after each round and each change of the store.
        func wait(
            _ what: Comment, within limit: Duration = .seconds(20), until condition: () async throws -> Bool
        ) async throws {
            #expect(try await changes.wait(within: limit, until: condition), what)
        }

        func peers(_ count: Int, within limit: Duration = .seconds(20)) async throws {
            try await wait("there are \(count) peers", within: limit) { runtime.figures.peers == count }
        }

        func device(of user: User, _ name: String, expiresAfter seconds: Double? = nil) async throws -> DeviceID {
            let draft = DeviceDraft(
                userID: user.id, name: name, publicKey: fixture.key().publicKey,
                expiresAt: seconds.map { service.now.addingTimeInterval($0) })
            return try await service.addDevice(draft, admin).item.device.id
        }
    }

    private func run(_ body: (Made) async throws -> Void) async throws {
        try await TestFolder.use { folder in
            let path = "\(folder)/gateway.db"
            let store = try GatewayStore(path: path)
            let fixture = try ServiceFixture(store: store)
            let changes = Changes()
            var options = GatewayRuntime.Options()
            (options.sweepInterval, options.flushInterval) = (.milliseconds(5), .seconds(60))
            options.onApplied = { _ in changes.notify() }
            changes.follow(fixture.service.changeSignals())
            let clock = fixture.clock
            let runtime = GatewayRuntime(
                service: fixture.service, network: MemoryPeerNetwork(),
                datagrams: MemoryInternet().attach([.v4(198, 51, 100, 1)]), options: options,
                clock: GatewayClock(
                    now: { Date(timeIntervalSince1970: Double(clock.wall.seconds)) }, nanoseconds: { clock.nanoseconds }
                ), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            try await runtime.start()
            let running = Task { try await runtime.run() }
            let made = Made(fixture: fixture, store: store, path: path, runtime: runtime, changes: changes)
            let result: Result<Void, any Error>
            do { result = .success(try await body(made)) } catch { result = .failure(error) }
            running.cancel()
            _ = await running.result
            try store.close()
            try result.get()
        }
    }

    @Test(
        "A device that expires is out while the database refuses writes, and the expiry is noted once it accepts them")
    func expiry() async throws {
        try await run { made in
            let anna = try await made.fixture.user()
            let device = try await made.device(of: anna, "one", expiresAfter: 100)
            _ = try await made.device(of: anna, "two")
            try await made.peers(2)
            try await made.store.refuseWrites(true)
            made.fixture.clock.advance(by: .seconds(100))
            try await made.peers(1)
            func entries() async throws -> Int {
                try await made.service.audit(AuditFilter(action: .deviceExpired), PageRequest(), made.admin).items.count
            }
            #expect(try await entries() == 0)
            try await made.store.refuseWrites(false)
            try await made.wait("the expiry is noted") { try await entries() == 1 }
            #expect(made.runtime.figures.peers == 1)
            #expect(try await made.store.device(device)?.device.isActive(at: .distantPast) == false)
        }
    }

    @Test(
        "Revoked and disabled devices and users are out while the database refuses writes, and it has them once it accepts them"
    )
    func revocation() async throws {
        try await run { made in
            let (service, admin, store) = (made.service, made.admin, made.store)
            let (anna, bea, cara) = (
                try await made.fixture.user("anna"), try await made.fixture.user("bea"),
                try await made.fixture.user("cara")
            )
            let (one, two) = (try await made.device(of: anna, "one"), try await made.device(of: anna, "two"))
            _ = try await made.device(of: bea, "three")
            _ = try await made.device(of: cara, "four")
            _ = try await made.device(of: anna, "five")
            try await made.peers(5)
            try await store.refuseWrites(true)
            try await service.removeDevice(one, admin)
            try await made.peers(4)
            var off = DeviceUpdate()
            off.isEnabled = false
            #expect(try await service.updateDevice(two, off, admin).isEnabled == false)
            try await made.peers(3)
            try await service.removeUser(bea.id, admin)
            try await made.peers(2)
            var gone = UserUpdate()
            gone.isEnabled = false
            #expect(try await service.updateUser(cara.id, gone, admin).isEnabled == false)
            try await made.peers(1)
            let (removed, disabled) = (try await store.device(one), try await store.device(two))
            #expect(removed != nil && disabled?.device.isEnabled == true)
            #expect(made.runtime.readiness.isReady)
            try await store.refuseWrites(false)
            try await made.wait("the database has all of it") {
                let (removed, disabled) = (try await store.device(one), try await store.device(two))
                let (gone, off) = (try await store.user(bea.id), try await store.user(cara.id))
                return removed == nil && disabled?.device.isEnabled == false && gone == nil && off?.isEnabled == false
            }
            try await made.peers(1)
            let actions = try await service.audit(AuditFilter(), PageRequest(limit: 4), admin).items
            #expect(
                Set(actions.map(\.record.action)) == [.deviceRemoved, .deviceChanged, .userRemoved, .userChanged])
        }
    }

    @Test("A revoked device is out before another process releases the database's lock")
    func lockedDatabase() async throws {
        try await run { made in
            let device = try await made.device(of: try await made.fixture.user(), "one")
            try await made.peers(1)
            var configuration = Configuration()
            configuration.allowsUnsafeTransactions = true
            let other = try DatabaseQueue(path: made.path, configuration: configuration)
            try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
            let (service, admin) = (made.service, made.admin)
            let removal = Task { try await service.removeDevice(device, admin) }
            try await made.peers(0, within: .seconds(3))
            #expect(try await made.store.device(device) != nil)
            try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
            _ = try await removal.value
            try await made.wait("the database has it") { try await made.store.device(device) == nil }
            try other.close()
        }
    }
}
