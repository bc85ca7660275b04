// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import Testing
import WireGuardCore

@testable import Gateway

extension StoreFixture {
    /// A user who has a password.
    fileprivate func userWithPassword(
        _ login: String = "anna", limit: Int? = nil, expiresAfter seconds: Double? = nil
    ) async throws -> User {
        let user = try await user(login, limit: limit, expiresAfter: seconds)
        var update = UserUpdate()
        update.password = .some(StoredPassword(text: "of \(login)"))
        return try await store.update(user: user.id, update, audit(.userChanged))
    }

    fileprivate func lease(
        _ user: User, busy: [DeviceID] = [], from source: String = "192.0.2.7:4000", sessions: Int = 5,
        limits: DeviceLimits? = nil, at time: Double = 0
    ) async throws -> LoginLeaseOutcome {
        try await store.lease(
            LoginLease(
                userID: user.id, password: try #require(user.password), busy: busy, deviceID: id(),
                sessionsPerUser: sessions, limits: try limits ?? self.limits(after: time),
                now: start.addingTimeInterval(time), source: try Endpoint(source)))
    }

    fileprivate func given(_ outcome: LoginLeaseOutcome) throws -> Device {
        guard case .given(let found) = outcome else { throw Unexpected(what: "\(outcome)") }
        return found.device
    }

    fileprivate func sweep(
        idleBefore seconds: Double, at time: Double, busy: [DeviceID] = []
    ) async throws -> SweepOutcome {
        try await store.sweep(
            Sweep(
                now: start.addingTimeInterval(time), idleKeysBefore: start,
                idleLeasesBefore: start.addingTimeInterval(seconds), busy: busy, auditBefore: nil,
                creationsBefore: start))
    }
}

@Suite struct StoreLoginTests {
    @Test(
        "A login gets a login device with an unused address of each family, a change and an audit entry",
        arguments: StoreKind.allCases)
    func leases(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.userWithPassword()
            let phone = try await fixture.device(of: anna)
            let before = try await store.counts(at: fixture.start).sequence
            let device = try fixture.given(try await fixture.lease(anna))
            #expect(device.kind == .login && device.publicKey == nil && device.userID == anna.id)
            #expect(device.addresses.map(\.description) == ["10.66.0.3", "fd66::3"])
            #expect(Set(device.addresses).isDisjoint(with: phone.addresses))
            #expect(device.lastSeenAt == fixture.start)
            #expect(try device.lastEndpoint == Endpoint("192.0.2.7:4000"))
            #expect(try await store.changes(after: before, limit: 10).map(\.subject) == [.device(device.id)])
            let entry = try #require(
                try await store.audit(AuditFilter(action: .loginAccepted), PageRequest()).items.first)
            #expect(entry.record.subject == "device:\(device.id)" && entry.record.actor == "user:\(anna.id)")
            #expect(entry.record.source == .v4(192, 0, 2, 7))
            #expect(entry.record.details["addresses"] == "10.66.0.3 fd66::3")
            // No WireGuard device gets an address of a login, even by request.
            await #expect(throws: StoreError.exists(.address(.v4(10, 66, 0, 3)))) {
                _ = try await fixture.device(of: anna, ["10.66.0.3"])
            }
            #expect(try await store.counts(at: fixture.start).logins == 1)
        }
    }

    @Test(
        "A login that reconnects keeps its addresses, and prefers those from the same source",
        arguments: StoreKind.allCases)
    func comesBack(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let anna = try await fixture.userWithPassword()
            let home = try fixture.given(try await fixture.lease(anna))
            let away = try fixture.given(
                try await fixture.lease(anna, busy: [home.id], from: "198.51.100.1:1", at: 10))
            #expect(home.id != away.id)
            // After a restart, no device has a session.
            #expect(try fixture.given(try await fixture.lease(anna, from: "192.0.2.7:9", at: 20)).id == home.id)
            #expect(try fixture.given(try await fixture.lease(anna, from: "198.51.100.1:9", at: 30)).id == away.id)
            // A login from another source gets the device that was seen last.
            let other = try fixture.given(try await fixture.lease(anna, from: "203.0.113.1:9", at: 40))
            #expect(other.id == away.id && other.addresses == away.addresses)
        }
    }

    @Test(
        "A session beyond the limit replaces the oldest one, and a user without a free device gets none",
        arguments: StoreKind.allCases)
    func limits(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let anna = try await fixture.userWithPassword()
            let one = try fixture.given(try await fixture.lease(anna, sessions: 2))
            let two = try fixture.given(try await fixture.lease(anna, busy: [one.id], sessions: 2))
            #expect(
                try fixture.given(try await fixture.lease(anna, busy: [two.id, one.id], sessions: 2)).id == two.id)
            // With a reduced limit, a device without a session does not permit another session.
            let third = try fixture.given(try await fixture.lease(anna, busy: [one.id, two.id], sessions: 3))
            #expect(
                try fixture.given(try await fixture.lease(anna, busy: [two.id, third.id], sessions: 2)).id == two.id)
            #expect(try fixture.given(try await fixture.lease(anna, busy: [third.id], sessions: 2)).id != third.id)
            // Devices of all kinds count.
            let ben = try await fixture.userWithPassword("ben", limit: 2)
            _ = try await fixture.device(of: ben)
            let first = try fixture.given(try await fixture.lease(ben))
            #expect(try fixture.given(try await fixture.lease(ben, busy: [first.id])).id == first.id)
            await #expect(throws: StoreError.deviceLimit(2)) { _ = try await fixture.device(of: ben) }
            let eva = try await fixture.userWithPassword("eva", limit: 0)
            await #expect(throws: StoreError.deviceLimit(0)) { _ = try await fixture.lease(eva) }
            await #expect(throws: StoreError.gatewayFull(4)) {
                _ = try await fixture.lease(
                    try await fixture.userWithPassword("kai"), limits: try fixture.limits(devices: 4))
            }
        }
    }

    @Test(
        "A login gets no address from a full pool and adds no device, and gets a released address if no other is free",
        arguments: StoreKind.allCases)
    func pool(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let (anna, ben) = (
                try await fixture.userWithPassword(), try await fixture.userWithPassword("ben")
            )
            func small(_ time: Double) throws -> DeviceLimits { try fixture.limits(["10.66.0.1/30"], after: time) }
            let device = try fixture.given(try await fixture.lease(anna, limits: try small(0)))
            #expect(device.addresses == [.v4(10, 66, 0, 2)])
            let full = StoreError.poolFull(try IPPrefix("10.66.0.0/30"), inUse: 1, resting: 0)
            await #expect(throws: full) { _ = try await fixture.lease(ben, limits: try small(0)) }
            #expect(try await fixture.store.counts(at: fixture.start).logins == 1)
            #expect(try await fixture.sweep(idleBefore: 0, at: 3600).isEmpty)
            try await fixture.store.record([
                DeviceActivity(
                    deviceID: device.id, traffic: Device.Traffic(received: 5, sent: 7),
                    lastSeenAt: fixture.start.addingTimeInterval(3600))
            ])
            #expect(try await fixture.sweep(idleBefore: 3600, at: 7200).leases == [])
            // The device of a session is kept, because the clock may have jumped.
            #expect(try await fixture.sweep(idleBefore: 3601, at: 7201, busy: [device.id]).leases == [])
            #expect(try await fixture.sweep(idleBefore: 3601, at: 7201).leases == [device.id])
            #expect(
                try await fixture.store.audit(AuditFilter(action: .loginEnded), PageRequest()).items.map(
                    \.record.subject)
                    == ["device:\(device.id)"])
            // The traffic of the removed device stays in the totals.
            #expect(
                try await fixture.store.counts(at: fixture.start).traffic == Device.Traffic(received: 5, sent: 7))
            // No other address is free.
            let next = try fixture.given(try await fixture.lease(ben, limits: try small(7300)))
            #expect(next.addresses == device.addresses)
        }
    }

    @Test(
        "A user with a changed password, a disabled or expired user, and a disabled device get no lease",
        arguments: StoreKind.allCases)
    func refused(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.userWithPassword(expiresAfter: 100)
            let device = try fixture.given(try await fixture.lease(anna))
            guard case .userExpired = try await fixture.lease(anna, at: 100) else {
                Issue.record("an expired user was admitted")
                return
            }
            var disabled = UserUpdate()
            disabled.isEnabled = false
            _ = try await store.update(user: anna.id, disabled, fixture.audit())
            guard case .userDisabled = try await fixture.lease(anna) else {
                Issue.record("a disabled user was admitted")
                return
            }
            var enabled = UserUpdate()
            (enabled.isEnabled, enabled.password) = (true, .some(StoredPassword(text: "another")))
            let changed = try await store.update(user: anna.id, enabled, fixture.audit())
            guard case .changed = try await fixture.lease(anna) else {
                Issue.record("an old password was accepted")
                return
            }
            var off = DeviceUpdate()
            off.isEnabled = false
            _ = try await store.change(device: device.id, .update(off, try fixture.limits()), fixture.audit())
            #expect(try fixture.given(try await fixture.lease(changed)).id != device.id)
            try await store.remove(user: anna.id, fixture.audit())
            guard case .changed = try await fixture.lease(changed) else {
                Issue.record("a removed user was admitted")
                return
            }
        }
    }

    @Test(
        "Of 32 concurrent logins and enrolments, each gets different addresses", arguments: StoreKind.allCases)
    func race(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let anna = try await fixture.userWithPassword()
            let all = try await withThrowingTaskGroup(of: [IPAddress].self) { group in
                for number in 0..<32 {
                    group.addTask {
                        guard !number.isMultiple(of: 2) else { return try await fixture.device(of: anna).addresses }
                        let lease = LoginLease(
                            userID: anna.id, password: StoredPassword(text: "of anna"), busy: [],
                            deviceID: fixture.id(), sessionsPerUser: 100, limits: try fixture.limits(),
                            now: fixture.start, source: try Endpoint("192.0.2.7:1"))
                        return try fixture.given(try await fixture.store.lease(lease)).addresses
                    }
                }
                return try await group.reduce(into: [[IPAddress]]()) { $0.append($1) }
            }
            // No device has a session here, so all logins use the same device in turn.
            #expect(Set(all.flatMap { $0 }).count == 2 * 17)
            let leases = try await fixture.store.leases()
            #expect(Set(leases.map(\.address)).count == leases.count)
        }
    }

    @Test(
        "After a change of the networks, the next login gets addresses of the new ones", arguments: StoreKind.allCases)
    func otherNetworks(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let anna = try await fixture.userWithPassword()
            let device = try fixture.given(try await fixture.lease(anna))
            let moved = try fixture.given(
                try await fixture.lease(anna, limits: try fixture.limits(["10.77.0.1/24"])))
            #expect(moved.id == device.id && moved.addresses.map(\.description) == ["10.77.0.2"])
        }
    }
}
