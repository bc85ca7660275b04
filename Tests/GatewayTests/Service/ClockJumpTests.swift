// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Provisioning
import Testing
import WireGuardCore

@testable import Gateway

/// Regression tests: a clock that was 400 days ahead for some seconds, by a mistake of a time server, once deleted the
/// audit log and switched the server key irrevocably.
@Suite("A gateway whose clock jumps") struct ClockJumpTests {
    private static let jump = Duration.seconds(400 * 86_400)

    private struct Scene {
        let fixture: ServiceFixture
        let device: DeviceID
        let slot: DeviceID

        var service: GatewayService { fixture.service }

        /// The number of entries of the audit log.
        func entries() async throws -> Int {
            try await service.audit(AuditFilter(), PageRequest(limit: 500), fixture.admin).items.count
        }

        /// Advances both clocks in steps, with a sweep after each.
        func pass(_ seconds: Int, step: Int = 60) async throws {
            var rest = seconds
            while rest > 0 {
                fixture.clock.advance(by: .seconds(min(step, rest)))
                rest -= step
                try await service.sweep(.gateway)
            }
        }
    }

    /// A gateway that has run for some time, with a device that expires in an hour, a key in a slot, and an announced
    /// key.
    private func scene() async throws -> Scene {
        let fixture = try ServiceFixture { $0.serverKeyOverlapSeconds = 86_400 }
        let anna = try await fixture.user()
        let draft = DeviceDraft(
            userID: anna.id, name: "one", publicKey: fixture.key().publicKey,
            expiresAt: fixture.service.now.addingTimeInterval(7200))
        let device = try await fixture.service.addDevice(draft, fixture.admin).item.device.id
        let token = try await fixture.token(.addKey, of: anna).secret.exportedText
        let slot = try await fixture.service.addKey(
            token: token, publicKey: fixture.key().publicKey, from: fixture.home)
        _ = try await fixture.service.announceServerKey(fixture.admin)
        let scene = Scene(fixture: fixture, device: device, slot: slot.device.id)
        try await scene.pass(3600, step: 600)
        return scene
    }

    @Test("A jump of 400 days and back deletes no audit entry and no key, and does not switch the server key")
    func forwardAndBack() async throws {
        let scene = try await scene()
        let (entries, keys) = (try await scene.entries(), scene.service.serverKeys)
        scene.fixture.clock.jumpWall(by: Self.jump)
        try await scene.pass(9 * 60)
        #expect(try await scene.entries() >= entries)
        #expect(scene.service.serverKeys == keys)
        scene.fixture.clock.jumpWall(by: .zero - Self.jump)
        try await scene.pass(9 * 60)
        #expect(try await scene.entries() >= entries)
        #expect(scene.service.serverKeys == keys)
        #expect(try await scene.service.device(scene.slot, scene.fixture.admin).publicKey != nil)
    }

    @Test("A device that expired while the clock was wrong is admitted again until its expiry, even after a restart")
    func expiryNotedTooEarly() async throws {
        let scene = try await scene()
        let (fixture, service) = (scene.fixture, scene.service)
        fixture.clock.jumpWall(by: Self.jump)
        try await scene.pass(5, step: 1)
        fixture.clock.jumpWall(by: .zero - Self.jump)
        try await scene.pass(5, step: 1)
        let admitted = try await service.peers(after: nil, .gateway).changed.first { $0.deviceID == scene.device }
        #expect(admitted?.publicKey != nil)
        let restarted = try ServiceFixture(store: fixture.store, keys: fixture.keys, clock: fixture.clock).service
        let sequence = try await restarted.peers(after: nil, .gateway).sequence
        fixture.clock.advance(by: .seconds(3600))
        try await restarted.sweep(.gateway)
        let changes = try await restarted.peers(after: sequence, .gateway)
        let out = try #require(changes.changed.first { $0.deviceID == scene.device }, "the runtime gets the expiry")
        #expect(out.publicKey == nil)
    }

    @Test("A clock that is set back by a day admits no expired device for ten minutes, even after a restart")
    func backwards() async throws {
        let scene = try await scene()
        let fixture = scene.fixture
        try await scene.pass(3600, step: 600)
        fixture.clock.jumpWall(by: .seconds(-86_400))
        try await scene.pass(9 * 60)
        func isOut(_ service: GatewayService) async throws -> Bool {
            try await service.peers(after: nil, .gateway).changed.contains {
                $0.deviceID == scene.device && $0.publicKey == nil
            }
        }
        #expect(try await isOut(scene.service))
        let restarted = try ServiceFixture(store: fixture.store, keys: fixture.keys, clock: fixture.clock).service
        try await restarted.sweep(.gateway)
        #expect(try await isOut(restarted))
        fixture.clock.advance(by: .seconds(600))
        try await restarted.sweep(.gateway)
        #expect(try await !isOut(restarted))
    }

    @Test("A new time is accepted once it has persisted for ten minutes")
    func persists() async throws {
        let scene = try await scene()
        let (entries, keys) = (try await scene.entries(), scene.service.serverKeys)
        scene.fixture.clock.jumpWall(by: Self.jump)
        try await scene.pass(600)
        #expect(scene.service.serverKeys == keys)
        try await scene.pass(60)
        #expect(scene.service.serverKeys == ServerKeys(current: try #require(keys.next).key))
        #expect(try await scene.entries() < entries)
        #expect(try await scene.service.device(scene.slot, scene.fixture.admin).publicKey == nil)
    }

    @Test("A suspension of the machine for 400 days is not a jump")
    func suspended() async throws {
        let scene = try await scene()
        let keys = scene.service.serverKeys
        scene.fixture.clock.advance(by: Self.jump)
        try await scene.service.sweep(.gateway)
        #expect(scene.service.serverKeys == ServerKeys(current: try #require(keys.next).key))
        #expect(try await scene.service.device(scene.slot, scene.fixture.admin).publicKey == nil)
    }

    @Test(
        "While the time is not certain, the list of cooldowns and the status show every released address"
    )
    func cooldowns() async throws {
        let scene = try await scene()
        let (fixture, service) = (scene.fixture, scene.service)
        let (one, two) = (
            try await service.device(scene.device, fixture.admin), try await fixture.enrolled(fixture.user("ben"))
        )
        try await service.removeDevice(one.id, fixture.admin)
        try await scene.pass(90_000, step: 3600)
        try await service.removeDevice(two.id, fixture.admin)
        func expect(_ addresses: [IPAddress], _ what: Comment) async throws {
            let found = try await service.cooldowns(CooldownFilter(), PageRequest(), fixture.admin).items.map(\.address)
            #expect(Set(found) == Set(addresses), what)
            #expect(try await service.status(fixture.admin).pools.map(\.resting).reduce(0, +) == addresses.count, what)
        }
        try await expect(two.grant.addresses, "before the jump")
        for jump in [Self.jump, .zero - Self.jump - Self.jump] {
            fixture.clock.jumpWall(by: jump)
            try await service.sweep(.gateway)
            try await expect(one.addresses + two.grant.addresses, "after the jump")
        }
        fixture.clock.jumpWall(by: Self.jump + Self.jump)
        try await scene.pass(660)
        try await expect([], "the new time is accepted")
    }

    @Test("A gateway that starts with a wrong clock assigns no address in cooldown unless an administrator ends it")
    func startsWrong() async throws {
        let scene = try await scene()
        let fixture = scene.fixture
        let addresses = try await scene.service.device(scene.device, fixture.admin).addresses
        try await scene.service.removeDevice(scene.device, fixture.admin)
        fixture.clock.jumpWall(by: Self.jump)
        let restarted = try ServiceFixture(
            seed: 2, store: fixture.store, keys: fixture.keys, clock: fixture.clock)
        let ben = try await restarted.user("ben")
        func add(_ address: IPAddress) async throws {
            let draft = DeviceDraft(
                userID: ben.id, name: "\(address)", publicKey: restarted.key().publicKey, addresses: [address])
            _ = try await restarted.service.addDevice(draft, restarted.admin)
        }
        for address in addresses {
            await #expect(throws: GatewayError.addressInUse(address)) { try await add(address) }
        }
        func resting() async throws -> [IPAddress] {
            let list = try await restarted.service.cooldowns(CooldownFilter(), PageRequest(), restarted.admin).items
            let status = try await restarted.service.status(restarted.admin)
            #expect(status.pools.map(\.resting).reduce(0, +) == list.count)
            return list.map(\.address)
        }
        #expect(Set(try await resting()) == Set(addresses))
        #expect(
            try await restarted.service.clearCooldowns(CooldownFilter(address: addresses[0]), restarted.admin) == 1)
        #expect(try await resting() == [addresses[1]])
        try await add(addresses[0])
        fixture.clock.advance(by: .seconds(600))
        try await restarted.service.sweep(.gateway)
        #expect(try await resting() == [])
        try await add(addresses[1])
    }

    @Test(
        "Times recorded by a wrong clock are corrected: when a device was seen, and when an address was released")
    func recordedTimes() async throws {
        let scene = try await scene()
        let (fixture, service) = (scene.fixture, scene.service)
        fixture.clock.jumpWall(by: Self.jump)
        try await scene.pass(5, step: 1)
        try await service.record(
            [DeviceActivity(deviceID: scene.slot, traffic: Device.Traffic(received: 1), lastSeenAt: service.now)],
            .gateway)
        try await service.removeDevice(scene.device, fixture.admin)
        fixture.clock.jumpWall(by: .zero - Self.jump)
        try await scene.pass(5, step: 1)
        let seen = try #require(try await service.device(scene.slot, fixture.admin).lastSeenAt)
        #expect(seen <= service.now)
        #expect(try await service.status(fixture.admin).pools.map(\.resting) == [1, 1])
        fixture.clock.advance(by: .seconds(90_000))
        try await service.sweep(.gateway)
        #expect(try await service.status(fixture.admin).pools.map(\.resting) == [0, 0])
    }
}
