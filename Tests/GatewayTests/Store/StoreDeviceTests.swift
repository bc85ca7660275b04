// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import Testing
import WireGuardCore

@testable import Gateway

@Suite struct StoreDeviceTests {
    // MARK: - Enrolment

    @Test(
        "An invitation makes one device, with an address of each family, a change and an audit entry",
        arguments: StoreKind.allCases)
    func enrolment(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            let invitation = try await fixture.invitation(for: anna)
            let enrolment = try fixture.enrolment(.invitation(invitation.hash))
            let before = try await store.counts(at: fixture.start).sequence
            let device = try fixture.made(try await store.enrol(enrolment))
            #expect(device.addresses.map(\.description) == ["10.66.0.2", "fd66::2"])
            #expect(device.publicKey == enrolment.publicKey && device.name == "phone" && device.platform == "linux")
            let found = try #require(try await store.device(credential: enrolment.credentialHash))
            #expect(found.device == device && found.user == anna)
            #expect(
                try await store.changes(after: before, limit: 10).map(\.subject) == [.device(device.id)])
            let entry = try #require(try await store.audit(AuditFilter(), PageRequest()).items.first)
            #expect(entry.record.action == .deviceEnrolled && entry.record.subject == "device:\(device.id)")
            #expect(entry.record.source == .v4(192, 0, 2, 7))
            let used = try #require(try await store.invitations(PageRequest()).items.first)
            #expect(used.usedAt == fixture.start && used.deviceID == device.id)
        }
    }

    @Test(
        "The identical request gets the same device, and any other use is refused, counted and audited",
        arguments: StoreKind.allCases)
    func repetition(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            let invitation = try await fixture.invitation(for: anna)
            let first = try fixture.enrolment(.invitation(invitation.hash))
            let device = try fixture.made(try await store.enrol(first))
            var again = first
            again.deviceID = fixture.id()
            // The request may be repeated after the invitation has expired, because its reply was lost.
            again.now = fixture.start.addingTimeInterval(7200)
            guard case .repeated(let same) = try await store.enrol(again) else {
                Issue.record("the identical request was not recognised")
                return
            }
            #expect(same.device == device)
            for _ in 0..<30 {
                guard
                    case .refused(.used) = try await store.enrol(
                        try fixture.enrolment(.invitation(invitation.hash), key: first.publicKey))
                else {
                    Issue.record("another use was not refused")
                    return
                }
            }
            let misused = try #require(try await store.invitations(PageRequest()).items.first)
            #expect(misused.misuses == 30)
            // The number of entries is limited, so that misuse cannot fill the disk.
            let logged = try await store.audit(AuditFilter(action: .invitationMisused), PageRequest()).items.count
            #expect(logged == 20)
            #expect(try await store.counts(at: fixture.start).devices == 1)
            // After the device was removed, the invitation makes no other.
            try await store.remove(device: device.id, of: nil, fixture.audit())
            guard case .refused(.used) = try await store.enrol(again) else {
                Issue.record("an invitation made a second device")
                return
            }
        }
    }

    @Test(
        "Expired, revoked and unknown secrets and secrets of another scope make no device",
        arguments: StoreKind.allCases)
    func refusals(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            func refusal(_ enrolment: Enrolment) async throws -> EnrolmentOutcome.Refusal? {
                if case .refused(let refusal) = try await store.enrol(enrolment) { refusal } else { nil }
            }
            #expect(try await refusal(fixture.enrolment(.invitation(fixture.hash()))) == .unknown)
            #expect(try await refusal(fixture.enrolment(.token(fixture.hash()))) == .unknown)
            let invitation = try await fixture.invitation(for: anna, lifetime: 60)
            #expect(try await refusal(fixture.enrolment(.invitation(invitation.hash), at: 60)) == .expired)
            _ = try await store.revoke(invitation: invitation.id, fixture.audit())
            #expect(try await refusal(fixture.enrolment(.invitation(invitation.hash))) == .revoked)
            let token = Token(
                id: fixture.id(), scope: .admin, userID: nil, name: "t", hash: fixture.hash(), hint: "",
                createdAt: fixture.start, expiresAt: nil)
            _ = try await store.add(token, slot: nil, try fixture.limits(), nil, fixture.audit())
            #expect(try await refusal(fixture.enrolment(.token(token.hash))) == .wrongScope)

            let open = try await fixture.invitation(for: anna)
            var update = UserUpdate()
            update.isEnabled = false
            _ = try await store.update(user: anna.id, update, fixture.audit())
            #expect(try await refusal(fixture.enrolment(.invitation(open.hash))) == .userDisabled)
            update.isEnabled = true
            update.expiresAt = .some(fixture.start)
            _ = try await store.update(user: anna.id, update, fixture.audit())
            #expect(try await refusal(fixture.enrolment(.invitation(open.hash))) == .userExpired)
            #expect(try await store.counts(at: fixture.start).devices == 0)
        }
    }

    @Test(
        "After a failure by a known key, a limit or a full pool, the invitation is unused and the address free",
        arguments: StoreKind.allCases)
    func allOrNothing(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user(limit: 2)
            let first = try await fixture.device(of: anna)
            let invitation = try await fixture.invitation(for: anna)
            let sequence = try await store.counts(at: fixture.start).sequence
            let entries = try await store.audit(AuditFilter(), PageRequest()).items.count
            await #expect(throws: StoreError.exists(.key)) {
                _ = try await store.enrol(
                    try fixture.enrolment(.invitation(invitation.hash), key: first.publicKey))
            }
            await #expect(throws: StoreError.gatewayFull(1)) {
                _ = try await store.enrol(
                    try fixture.enrolment(.invitation(invitation.hash), limits: try fixture.limits(devices: 1)))
            }
            let small = try fixture.limits(["10.67.0.1/24", "fd68::1/127"])
            _ = try await fixture.device(of: anna, limits: small)
            await #expect(throws: StoreError.deviceLimit(2)) {
                _ = try await store.enrol(try fixture.enrolment(.invitation(invitation.hash)))
            }
            var update = UserUpdate()
            update.deviceLimit = .some(nil)
            _ = try await store.update(user: anna.id, update, fixture.audit())
            await #expect(
                throws: StoreError.poolFull(try IPPrefix("fd68::/127"), inUse: 1, resting: 0)
            ) {
                _ = try await store.enrol(try fixture.enrolment(.invitation(invitation.hash), limits: small))
            }
            #expect(try await store.invitations(PageRequest()).items.first?.usedAt == nil)
            #expect(try await store.counts(at: fixture.start).sequence == sequence + 2)
            #expect(try await store.audit(AuditFilter(), PageRequest()).items.count == entries + 2)
            let device = try fixture.made(
                try await store.enrol(try fixture.enrolment(.invitation(invitation.hash))))
            #expect(device.addresses.map(\.description) == ["10.66.0.3", "fd66::3"])
        }
    }

    @Test("Of 32 concurrent uses of one invitation, exactly one gets a device", arguments: StoreKind.allCases)
    func race(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let anna = try await fixture.user()
            let invitation = try await fixture.invitation(for: anna)
            let enrolments = try (0..<32).map { _ in try fixture.enrolment(.invitation(invitation.hash)) }
            let store = fixture.store
            let made = try await withThrowingTaskGroup(of: Bool.self) { group in
                for enrolment in enrolments {
                    group.addTask {
                        switch try await store.enrol(enrolment) {
                        case .made: true
                        case .refused(.used): false
                        default: throw StoreFixture.Unexpected(what: "another outcome")
                        }
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(made == 1)
            #expect(try await store.counts(at: fixture.start).devices == 1)
            #expect(try await store.leases().count == 2)
        }
    }

    // MARK: - Addresses

    @Test(
        "The lowest address is assigned first, cooldowns apply while another is free, and a full pool reports its numbers",
        arguments: StoreKind.allCases)
    func pool(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            func limits(_ time: Double) throws -> DeviceLimits { try fixture.limits(["10.0.0.1/29"], after: time) }
            var devices: [Device] = []
            for number in 0..<5 {
                let device = try await fixture.device(of: anna, limits: try limits(0))
                #expect(device.addresses.map(\.description) == ["10.0.0.\(number + 2)"])
                devices.append(device)
            }
            let network = try IPPrefix("10.0.0.0/29")
            await #expect(throws: StoreError.poolFull(network, inUse: 5, resting: 0)) {
                _ = try await fixture.device(of: anna, limits: try limits(0))
            }
            try await store.remove(device: devices[3].id, of: nil, fixture.audit(after: 100))
            try await store.remove(device: devices[1].id, of: nil, fixture.audit(after: 200))
            let pools = try await store.pools(
                [try InterfaceAddress("10.0.0.1/29")], restSince: fixture.start)
            #expect(pools == [PoolFigures(network: network, capacity: 5, inUse: 3, resting: 2)])
            // The address with the longest cooldown is first.
            let first = try await fixture.device(of: anna, limits: try limits(86_500), at: 86_500)
            #expect(first.addresses.map(\.description) == ["10.0.0.5"])
            // The cooldown of the last address has not ended, but it is used rather than refusing the device.
            let second = try await fixture.device(of: anna, limits: try limits(86_500), at: 86_500)
            #expect(second.addresses.map(\.description) == ["10.0.0.3"])
            await #expect(throws: StoreError.poolFull(network, inUse: 5, resting: 0)) {
                _ = try await fixture.device(of: anna, limits: try limits(86_500), at: 86_500)
            }
            for (number, device) in [devices[2], devices[0], devices[4]].enumerated() {
                try await store.remove(device: device.id, of: nil, fixture.audit(after: 86_500 + Double(number)))
            }
            for last in [4, 2, 6] {
                let device = try await fixture.device(of: anna, limits: try limits(86_600), at: 86_600)
                #expect(device.addresses.map(\.description) == ["10.0.0.\(last)"])
            }
        }
    }

    @Test(
        "A requested address is assigned once, but not if it is in cooldown or the gateway's",
        arguments: StoreKind.allCases)
    func wantedAddresses(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            let device = try await fixture.device(of: anna, ["10.66.0.3"])
            #expect(device.addresses.map(\.description) == ["10.66.0.3", "fd66::2"])
            for address in ["10.66.0.3", "10.66.0.1", "10.66.0.0", "10.66.0.255", "10.67.0.3", "fd66::", "fd66::1"] {
                await #expect(throws: StoreError.exists(.address(try IPAddress(address)))) {
                    _ = try await fixture.device(of: anna, [address])
                }
            }
            // Other devices get other addresses.
            let next = try await fixture.device(of: anna)
            let third = try await fixture.device(of: anna)
            #expect(next.addresses.first?.description == "10.66.0.2")
            #expect(third.addresses.first?.description == "10.66.0.4")
            try await store.remove(device: device.id, of: nil, fixture.audit())
            await #expect(throws: StoreError.exists(.address(try IPAddress("10.66.0.3")))) {
                _ = try await fixture.device(of: anna, ["10.66.0.3"])
            }
            let later = try await fixture.device(
                of: anna, ["10.66.0.3"], limits: try fixture.limits(after: 90_000), at: 90_000)
            #expect(later.addresses.first?.description == "10.66.0.3")
        }
    }

    @Test("1,000 concurrent enrolments from one source get 1,000 different addresses", arguments: StoreKind.allCases)
    func manyAtOnce(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            let limits = try fixture.limits(["10.66.0.1/16", "fd66::1/64"])
            let token = Token(
                id: fixture.id(), scope: .enrol, userID: anna.id, name: "t", hash: fixture.hash(), hint: "",
                createdAt: fixture.start, expiresAt: nil)
            _ = try await store.add(token, slot: nil, limits, nil, fixture.audit())
            let enrolments = try (0..<1000).map { _ in try fixture.enrolment(.token(token.hash), limits: limits) }
            let devices = try await withThrowingTaskGroup(of: Device.self) { group in
                for enrolment in enrolments {
                    group.addTask { try fixture.made(try await store.enrol(enrolment)) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(devices.flatMap(\.addresses)).count == 2000)
            #expect(Set(devices.map(\.id)).count == 1000)
            let last = try #require(devices.compactMap(\.addresses.first).max { $0.value < $1.value })
            #expect(last.description == "10.66.3.233")
        }
    }

    @Test("Networks behind devices overlap neither each other nor the pools", arguments: StoreKind.allCases)
    func subnets(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            let office = try await fixture.device(of: anna, subnets: ["192.168.7.0/24", "fd07::/48"])
            #expect(try await store.device(office.id)?.device.subnets.count == 2)
            for subnet in ["192.168.7.0/24", "192.168.0.0/16", "192.168.7.128/25", "fd07:0:0:1::/64", "10.66.0.0/16"] {
                await #expect(throws: StoreError.exists(.subnet(try IPPrefix(subnet)))) {
                    _ = try await fixture.device(of: anna, subnets: [subnet])
                }
            }
            var update = DeviceUpdate()
            update.subnets = [try IPPrefix("192.168.8.0/24"), try IPPrefix("192.168.7.0/25")]
            let changed = try await store.change(
                device: office.id, .update(update, try fixture.limits()), fixture.audit())
            #expect(changed.device.subnets.map(\.description) == ["192.168.7.0/25", "192.168.8.0/24"])
            _ = try await fixture.device(of: anna, subnets: ["192.168.7.128/25", "fd07::/48"])
        }
    }

    // MARK: - Keys

    @Test(
        "A key replaces another only if the device still has that one and no other device has the new one",
        arguments: StoreKind.allCases)
    func rotation(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            let device = try await fixture.device(of: anna)
            let other = try await fixture.device(of: anna)
            let old = try #require(device.publicKey)
            let (new, rotation) = (fixture.key(), fixture.hash())
            let rotated = try await store.change(
                device: device.id, .rotation(from: old, to: new, by: rotation), fixture.audit(.deviceKeyRotated))
            #expect(rotated.device.publicKey == new && rotated.device.rotationHash == rotation)
            await #expect(throws: StoreError.notFound) {
                _ = try await store.change(
                    device: device.id, .rotation(from: old, to: fixture.key(), by: rotation), fixture.audit())
            }
            await #expect(throws: StoreError.exists(.key)) {
                _ = try await store.change(
                    device: device.id, .rotation(from: new, to: try #require(other.publicKey), by: rotation),
                    fixture.audit())
            }
            #expect(try await store.device(device.id)?.device.publicKey == new)
        }
    }

    @Test(
        "A slot gets one key after another at the same addresses, loses an idle key, and is removed with its token",
        arguments: StoreKind.allCases)
    func slots(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            let slot = Device(
                id: fixture.id(), userID: anna.id, kind: .addKey, name: "router", publicKey: nil,
                createdAt: fixture.start)
            let token = Token(
                id: fixture.id(), scope: .addKey, userID: anna.id, deviceID: slot.id, name: "router",
                hash: fixture.hash(), hint: "", createdAt: fixture.start, expiresAt: nil)
            _ = try await store.add(token, slot: slot, try fixture.limits(), nil, fixture.audit())
            let (first, second) = (fixture.key(), fixture.key())
            let one = try await store.change(device: slot.id, .key(first, try fixture.limits()), fixture.audit())
            #expect(one.device.publicKey == first && one.device.addresses.count == 2)
            let two = try await store.change(
                device: slot.id, .key(second, try fixture.limits()), fixture.audit(after: 50))
            #expect(two.device.publicKey == second && two.device.addresses == one.device.addresses)
            func sweep(_ time: Double) async throws -> SweepOutcome {
                try await store.sweep(
                    Sweep(
                        now: fixture.start.addingTimeInterval(time),
                        idleKeysBefore: fixture.start.addingTimeInterval(time - 100), auditBefore: nil,
                        creationsBefore: fixture.start))
            }
            #expect(try await sweep(150).isEmpty)
            try await store.record([
                DeviceActivity(
                    deviceID: slot.id, traffic: Device.Traffic(), lastSeenAt: fixture.start.addingTimeInterval(200))
            ])
            #expect(try await sweep(300).isEmpty)
            #expect(try await sweep(301).keys == [slot.id])
            #expect(try await store.device(slot.id)?.device.publicKey == nil)
            let enrolled = try await fixture.device(of: anna)
            await #expect(throws: StoreError.notFound) {
                _ = try await store.change(
                    device: enrolled.id, .key(fixture.key(), try fixture.limits()), fixture.audit())
            }
            let revoked = try await store.revoke(token: token.id, fixture.audit())
            #expect(revoked.revokedAt != nil)
            #expect(try await store.device(slot.id) == nil)
        }
    }
}
