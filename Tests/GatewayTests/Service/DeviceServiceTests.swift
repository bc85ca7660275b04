// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import PacketTunnelLinux
import PacketTunnelTesting
import Provisioning
import Testing
import TunnelServer
import WireGuardCore

@testable import Gateway

/// A host that refuses one subnet.
private struct RefusingNetwork: PeerNetwork {
    let refused: IPPrefix

    func check(subnets: [IPPrefix]) async throws(TunnelServerError) {
        if subnets.contains(refused) { throw .subnet(refused, "the server has the address 192.168.9.1 in it") }
    }

    func start() async throws(TunnelServerError) -> PeerNetworkDevices { throw .notRunning }

    func apply(
        _: [IPPrefix: ClientAccess?], isComplete _: Bool, released _: Set<IPPrefix>
    ) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError] { [:] }

    func stop() async {}

    var condition: NetworkState {
        var state = NetworkState()
        state.warnings = ["clients may begin any number of flows"]
        state.problems = [NetworkProblem(what: "the firewall: nft is not installed", since: 5)]
        return state
    }

    var warnings: [String] { condition.warnings + ["the host tracks 100 connections of at most 100"] }
}

@Suite struct DeviceServiceTests {
    @Test("The status lists the warnings and problems of the network, and warnings that only the status reads")
    func warnings() async throws {
        let fixture = try ServiceFixture()
        #expect(try await fixture.service.status(fixture.admin).warnings.isEmpty)
        fixture.service.useNetwork(RefusingNetwork(refused: try IPPrefix("192.168.9.0/24")))
        let status = try await fixture.service.status(fixture.admin)
        #expect(
            status.warnings == [
                "clients may begin any number of flows", "the host tracks 100 connections of at most 100",
                "the firewall: nft is not installed",
            ])
    }

    // MARK: - Subnets

    @Test(
        "A subnet with an address of the gateway's endpoints or name servers is refused, and so is one that the host refuses"
    )
    func subnets() async throws {
        let fixture = try ServiceFixture { settings in
            settings.host = "203.0.113.1"
            settings.endpoints = ["198.51.100.1:443", "vpn.example.com:443"].compactMap { try? EndpointAddress($0) }
            settings.dns = [.v4(192, 168, 53, 1)]
        }
        let refused = try IPPrefix("192.168.9.0/24")
        fixture.service.useNetwork(RefusingNetwork(refused: refused))
        let user = try await fixture.user()
        func add(_ name: String, _ subnets: [IPPrefix]) async throws -> DeviceID {
            let draft = DeviceDraft(userID: user.id, name: name, publicKey: fixture.key().publicKey, subnets: subnets)
            return try await fixture.service.addDevice(draft, fixture.admin).item.device.id
        }
        for (subnet, reason) in [
            ("203.0.113.0/24", "the gateway's endpoint 203.0.113.1 is in it"),
            ("198.51.100.0/25", "the gateway's endpoint 198.51.100.1 is in it"),
            ("192.168.0.0/16", "the gateway's name server 192.168.53.1 is in it"),
            ("192.168.9.0/24", "the server has the address 192.168.9.1 in it"),
        ] {
            let error = GatewayError.invalid(
                field: "subnets", problem: "\(subnet) cannot be behind a device: \(reason)")
            await #expect(throws: error) { _ = try await add("router", [try IPPrefix(subnet)]) }
        }
        #expect(try await fixture.service.devices(of: user.id, PageRequest(), fixture.admin).items.isEmpty)
        let first = try IPPrefix("192.168.7.0/24")
        let id = try await add("router", [first])
        var update = DeviceUpdate()
        update.subnets = [first, refused]
        let asked = update
        await #expect(throws: GatewayError.self) {
            _ = try await fixture.service.updateDevice(id, asked, fixture.admin)
        }
        #expect(try await fixture.service.device(id, fixture.admin).subnets == [first])
        // A device keeps a subnet that the host would refuse to a new one.
        fixture.service.useNetwork(RefusingNetwork(refused: first))
        let second = try IPPrefix("192.168.8.0/24")
        update.subnets = [first, second]
        #expect(try await fixture.service.updateDevice(id, update, fixture.admin).subnets == [first, second])
    }

    // MARK: - Rotation

    @Test(
        "A device that proves its old key gets a new one, once for each nonce, and a repetition gets the same answer")
    func rotation() async throws {
        let fixture = try ServiceFixture()
        let device = try await fixture.enrolled(try await fixture.user())
        let nonce = try await fixture.service.rotationNonce(device.caller)
        let new = fixture.key()
        let request = try #require(RotationRequest(from: device.key, to: new.publicKey, answering: nonce))
        let grant = try await fixture.service.rotate(request, device.caller)
        #expect(grant.device.publicKey == new.publicKey && grant.addresses == device.grant.addresses)
        #expect(try await fixture.service.rotate(request, device.caller) == grant)
        // The store has the request's hash, so a repetition gets the same device even after the nonce has expired.
        fixture.clock.advance(by: .seconds(120))
        let later = try await fixture.service.rotate(request, device.caller)
        #expect(later.device == grant.device)
        let again = try #require(RotationRequest(from: new, to: fixture.key().publicKey, answering: nonce))
        await #expect(throws: GatewayError.nonceUnknown) {
            _ = try await fixture.service.rotate(again, device.caller)
        }
        #expect(
            try await fixture.service.audit(AuditFilter(action: .deviceKeyRotated), PageRequest(), fixture.admin).items
                .count == 1)
    }

    @Test("A rotation with another key's proof, another device's nonce or an expired nonce changes nothing")
    func refusedRotation() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let (device, other) = (try await fixture.enrolled(anna), try await fixture.enrolled(anna))
        let new = fixture.key().publicKey
        var nonce = try await fixture.service.rotationNonce(device.caller)
        let forged = try #require(RotationRequest(from: other.key, to: new, answering: nonce))
        await #expect(throws: GatewayError.proofWrong) { _ = try await fixture.service.rotate(forged, device.caller) }
        // The wrong proof has used the nonce, so the correct proof is refused too.
        let right = try #require(RotationRequest(from: device.key, to: new, answering: nonce))
        await #expect(throws: GatewayError.nonceUnknown) { _ = try await fixture.service.rotate(right, device.caller) }

        nonce = try await fixture.service.rotationNonce(other.caller)
        let borrowed = try #require(RotationRequest(from: device.key, to: new, answering: nonce))
        await #expect(throws: GatewayError.nonceUnknown) {
            _ = try await fixture.service.rotate(borrowed, device.caller)
        }
        nonce = try await fixture.service.rotationNonce(device.caller)
        fixture.clock.advance(by: .seconds(60))
        let late = try #require(RotationRequest(from: device.key, to: new, answering: nonce))
        await #expect(throws: GatewayError.nonceUnknown) { _ = try await fixture.service.rotate(late, device.caller) }
        nonce = try await fixture.service.rotationNonce(device.caller)
        let taken = try #require(
            RotationRequest(from: device.key, to: other.key.publicKey, answering: nonce))
        await #expect(throws: GatewayError.keyInUse) { _ = try await fixture.service.rotate(taken, device.caller) }
        #expect(try await fixture.service.grant(device.caller).device.publicKey == device.key.publicKey)
    }

    @Test("Of concurrent rotations with one nonce, equal ones get the same answer, and the others are refused")
    func rotationRace() async throws {
        let fixture = try ServiceFixture()
        let device = try await fixture.enrolled(try await fixture.user())
        let nonce = try await fixture.service.rotationNonce(device.caller)
        let requests = try (0..<8).map { _ in
            try #require(RotationRequest(from: device.key, to: fixture.key().publicKey, answering: nonce))
        }
        let service = fixture.service
        let keys = await withTaskGroup(of: PublicKey?.self) { group in
            for request in requests + requests {
                group.addTask { try? await service.rotate(request, device.caller).device.publicKey }
            }
            return await group.reduce(into: [PublicKey]()) { keys, key in if let key { keys.append(key) } }
        }
        #expect(keys.count == 2 && Set(keys).count == 1)
        #expect(try await service.grant(device.caller).device.publicKey == keys.first)
    }

    // MARK: - Expiry

    @Test("Renewing extends a device's expiry, and an expired device is refused")
    func renewal() async throws {
        let fixture = try ServiceFixture { $0.deviceLifetimeSeconds = 1000 }
        let device = try await fixture.enrolled(try await fixture.user())
        #expect(device.grant.device.expiresInSeconds == 1000 && device.grant.renewAfterSeconds == 500)
        fixture.clock.advance(by: .seconds(400))
        #expect(try await fixture.service.grant(device.caller).device.expiresInSeconds == 600)
        #expect(try await fixture.service.renew(device.caller).device.expiresInSeconds == 1000)
        // A second renewal directly afterwards adds no audit entry.
        _ = try await fixture.service.renew(device.caller)
        #expect(
            try await fixture.service.audit(AuditFilter(action: .deviceRenewed), PageRequest(), fixture.admin).items
                .count == 1)
        let before = try await fixture.service.peers(after: nil, .gateway)
        #expect(before.changed.map(\.publicKey) == [device.key.publicKey])
        fixture.clock.advance(by: .seconds(1000))
        await #expect(throws: GatewayError.deviceExpired) { _ = try await fixture.service.renew(device.caller) }
        try await fixture.service.sweep(.gateway)
        let after = try await fixture.service.peers(after: before.sequence, .gateway)
        #expect(after.changed.map(\.deviceID) == [device.id] && after.changed.allSatisfy { $0.publicKey == nil })
    }

    @Test("A device does not renew beyond the expiry that an administrator has set")
    func renewalLimit() async throws {
        let fixture = try ServiceFixture { $0.deviceLifetimeSeconds = 1000 }
        let device = try await fixture.enrolled(try await fixture.user())
        var update = DeviceUpdate()
        update.expiresAt = .some(fixture.service.now.addingTimeInterval(500))
        _ = try await fixture.service.updateDevice(device.id, update, fixture.admin)
        fixture.clock.advance(by: .seconds(200))
        #expect(try await fixture.service.renew(device.caller).device.expiresInSeconds == 300)
        fixture.clock.advance(by: .seconds(299))
        #expect(try await fixture.service.renew(device.caller).device.expiresInSeconds == 1)
        // An expiry that the administrator sets to a later time needs no renewal, and limits later renewals.
        update.expiresAt = .some(fixture.service.now.addingTimeInterval(2000))
        _ = try await fixture.service.updateDevice(device.id, update, fixture.admin)
        fixture.clock.advance(by: .seconds(1500))
        #expect(try await fixture.service.renew(device.caller).device.expiresInSeconds == 500)
        update.expiresAt = .some(nil)
        _ = try await fixture.service.updateDevice(device.id, update, fixture.admin)
        #expect(try await fixture.service.renew(device.caller).device.expiresInSeconds == nil)
    }

    @Test("Disabling a device or its user removes the peer, and enabling restores it unchanged")
    func disabling() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let device = try await fixture.enrolled(anna)
        var sequence = try await fixture.service.peers(after: nil, .gateway).sequence
        func peer() async throws -> Peer? {
            let changes = try await fixture.service.peers(after: sequence, .gateway)
            sequence = changes.sequence
            return changes.changed.first
        }
        var update = DeviceUpdate()
        update.isEnabled = false
        _ = try await fixture.service.updateDevice(device.id, update, fixture.admin)
        #expect(try await peer()?.publicKey == nil)
        await #expect(throws: GatewayError.deviceDisabled) { _ = try await fixture.service.grant(device.caller) }
        update.isEnabled = true
        _ = try await fixture.service.updateDevice(device.id, update, fixture.admin)
        #expect(try await peer()?.publicKey == device.key.publicKey)
        var user = UserUpdate()
        user.isEnabled = false
        _ = try await fixture.service.updateUser(anna.id, user, fixture.admin)
        #expect(try await peer()?.publicKey == nil)
        user.isEnabled = true
        _ = try await fixture.service.updateUser(anna.id, user, fixture.admin)
        let back = try await peer()
        #expect(back?.presharedKey == device.grant.presharedKey)
        #expect(back?.sources == device.grant.addresses.map { IPPrefix(host: $0) })
        try await fixture.service.removeDevice(device.id, fixture.admin)
        let changes = try await fixture.service.peers(after: sequence, .gateway)
        #expect(changes.removed == [device.id])
    }

    @Test("A device can list and remove only devices of its own user")
    func ownDevices() async throws {
        let fixture = try ServiceFixture()
        let (anna, bea) = (try await fixture.user("anna"), try await fixture.user("bea"))
        let (first, second) = (try await fixture.enrolled(anna), try await fixture.enrolled(anna))
        let other = try await fixture.enrolled(bea)
        let list = try await fixture.service.ownDevices(first.caller)
        #expect(Set(list.devices.map(\.id)) == [first.id, second.id])
        #expect(list.devices.filter(\.isCurrent).map(\.id) == [first.id])
        await #expect(throws: GatewayError.notFound("device")) {
            try await fixture.service.removeOwnDevice(other.id, first.caller)
        }
        try await fixture.service.removeOwnDevice(second.id, first.caller)
        await #expect(throws: GatewayError.deviceUnknown) { _ = try await fixture.service.grant(second.caller) }
        #expect(try await fixture.service.grant(other.caller).device.user == "bea")
    }

    @Test("The next server key is announced with the expiry of the old one, replaces it, and devices switch")
    func serverKeyRotation() async throws {
        let fixture = try ServiceFixture { $0.serverKeyOverlapSeconds = 1000 }
        let device = try await fixture.enrolled(try await fixture.user())
        let old = fixture.service.serverKeys.current.publicKey
        let sequence = try await fixture.service.peers(after: nil, .gateway).sequence
        let keys = try await fixture.service.announceServerKey(fixture.admin)
        let next = try #require(keys.next).key.publicKey
        #expect(try await fixture.service.peers(after: sequence, .gateway).serverKeysChanged)
        fixture.clock.advance(by: .seconds(400))
        let during = try await fixture.service.grant(device.caller)
        #expect(during.servers.map(\.publicKey) == [old, next])
        #expect(during.servers.map(\.notAfterSeconds) == [600, nil])
        await #expect(throws: GatewayError.self) { _ = try await fixture.service.announceServerKey(fixture.admin) }
        // A proof for the old key is still valid after the switch.
        let nonce = try await fixture.service.rotationNonce(device.caller)
        fixture.clock.advance(by: .seconds(599))
        try await fixture.service.sweep(.gateway)
        #expect(fixture.service.serverKeys.current.publicKey == old)
        let late = try await fixture.service.rotationNonce(device.caller)
        fixture.clock.advance(by: .seconds(1))
        try await fixture.service.sweep(.gateway)
        #expect(fixture.service.serverKeys == ServerKeys(current: try #require(keys.next).key))
        #expect(try fixture.keys.serverKeys() == fixture.service.serverKeys)
        #expect(try await fixture.service.grant(device.caller).servers.map(\.publicKey) == [next])
        #expect(nonce.serverKey == old && late.serverKey == old)
        let request = try #require(RotationRequest(from: device.key, to: fixture.key().publicKey, answering: late))
        _ = try await fixture.service.rotate(request, device.caller)
        _ = try await fixture.service.announceServerKey(fixture.admin)
        try await fixture.service.cancelServerKeyRotation(fixture.admin)
        #expect(fixture.service.serverKeys.next == nil)
    }
}
