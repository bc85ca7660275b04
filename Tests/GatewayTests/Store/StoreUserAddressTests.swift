// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import NetworkAddresses
import PacketTunnel
import Provisioning
import Testing

@testable import Gateway

extension StoreFixture {
    /// A user with a password and these addresses.
    fileprivate func user(
        _ login: String, with addresses: [String], limits: DeviceLimits? = nil
    ) async throws -> User {
        var user = User(
            id: id(), login: login, password: StoredPassword(text: "of \(login)"), createdAt: start)
        user.addresses = try addresses.map { try IPAddress($0) }
        return try await store.add(user, try limits ?? self.limits(), nil, audit()).item
    }

    fileprivate func set(
        _ addresses: [String], of user: User, login: String? = nil, limits: DeviceLimits? = nil, at time: Double = 0
    ) async throws -> User {
        var update = UserUpdate()
        update.addresses = try addresses.map { try IPAddress($0) }
        update.login = login
        return try await store.update(
            user: user.id, update, try limits ?? self.limits(after: time), audit(.userChanged, after: time))
    }

    fileprivate func logIn(
        _ user: User, busy: [DeviceID] = [], limits: DeviceLimits? = nil, at time: Double = 0
    ) async throws -> Device {
        let outcome = try await store.lease(
            LoginLease(
                userID: user.id, password: try #require(user.password), busy: busy, deviceID: id(), sessionsPerUser: 5,
                limits: try limits ?? self.limits(after: time), now: start.addingTimeInterval(time),
                source: try Endpoint("192.0.2.7:4000")))
        guard case .given(let found) = outcome else { throw Unexpected(what: "\(outcome)") }
        return found.device
    }
}

@Suite struct StoreUserAddressTests {
    @Test(
        "A user's addresses are read with the user, and its logins get them, one session at a time",
        arguments: StoreKind.allCases)
    func logins(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user("anna", with: ["10.66.0.77"])
            let ben = try await fixture.user("ben", with: [])
            #expect(try await store.user(anna.id)?.addresses == [.v4(10, 66, 0, 77)])
            #expect(try await store.user(login: "anna") == anna)
            #expect(try await store.users(PageRequest()).items == [anna, ben])
            let device = try await fixture.logIn(anna)
            #expect(device.addresses.map(\.description) == ["10.66.0.77", "fd66::2"])
            #expect(try await store.peers(after: nil).changed.map(\.user) == [anna])
            // The next session gets the device of the first.
            #expect(try await fixture.logIn(anna, busy: [device.id]).id == device.id)
            try await store.remove(device: device.id, of: nil, fixture.audit(after: 10))
            // A fixed address has no cooldown for its owner.
            let next = try await fixture.logIn(anna, at: 20)
            #expect(next.id != device.id && next.addresses.map(\.description) == ["10.66.0.77", "fd66::3"])
        }
    }

    @Test(
        "No other user and no device gets a user's address, which must be available and in the networks",
        arguments: StoreKind.allCases)
    func exclusive(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let anna = try await fixture.user("anna", with: ["10.66.0.2", "fd66::2"])
            let ben = try await fixture.user("ben", with: [])
            #expect(try await fixture.logIn(ben).addresses.map(\.description) == ["10.66.0.3", "fd66::3"])
            let laptop = try await fixture.device(of: anna)
            #expect(laptop.addresses.map(\.description) == ["10.66.0.4", "fd66::4"])
            await #expect(throws: StoreError.exists(.address(.v4(10, 66, 0, 2)))) {
                _ = try await fixture.device(of: anna, ["10.66.0.2"])
            }
            // These belong to another user, another user's login, a device or the gateway, or are outside the
            // networks.
            for text in ["10.66.0.2", "fd66::2", "10.66.0.3", "10.66.0.4", "10.66.0.1", "10.66.0.255", "10.67.0.9"] {
                await #expect(throws: StoreError.exists(.address(try IPAddress(text)))) {
                    _ = try await fixture.user("cara", with: [text])
                }
            }
            #expect(try await fixture.store.user(login: "cara") == nil)
            // A refused change has no effect.
            await #expect(throws: StoreError.exists(.address(.v4(10, 66, 0, 3)))) {
                _ = try await fixture.set(["10.66.0.3"], of: anna, login: "eva")
            }
            #expect(try await fixture.store.user(anna.id) == anna)
            // Another user's removed device had the address, so it is in cooldown.
            try await fixture.store.remove(device: laptop.id, of: nil, fixture.audit(after: 10))
            await #expect(throws: StoreError.exists(.address(.v4(10, 66, 0, 4)))) {
                _ = try await fixture.set(["10.66.0.4"], of: ben, at: 20)
            }
            #expect(
                try await fixture.set(["10.66.0.4", "fd66::4"], of: anna, at: 20).addresses.count == 2)
        }
    }

    @Test(
        "A login's current address can become the user's; a different one removes the login's device",
        arguments: StoreKind.allCases)
    func change(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            var anna = try await fixture.user("anna", with: [])
            let (one, two) = (try await fixture.logIn(anna), try await fixture.logIn(anna, busy: [fixture.id()]))
            #expect(one.id == two.id)
            let other = try await fixture.logIn(anna, busy: [one.id])
            let present = try #require(one.addresses.first)
            anna = try await fixture.set(["\(present)"], of: anna)
            #expect(try await store.devices(of: anna.id, PageRequest()).items.map(\.id) == [one.id])
            let before = try await store.counts(at: fixture.start).sequence
            anna = try await fixture.set(["10.66.0.77"], of: anna, at: 10)
            #expect(try await store.devices(of: anna.id, PageRequest()).items.isEmpty)
            let feed = try await store.peers(after: before)
            #expect(feed.removed == [one.id] && other.id != one.id)
            #expect(try await fixture.logIn(anna, at: 20).addresses.first == .v4(10, 66, 0, 77))
            anna = try await fixture.set([], of: anna, at: 30)
            #expect(try await store.user(anna.id)?.addresses == [])
        }
    }

    @Test("A disabled device of a login does not lock out a user with fixed addresses", arguments: StoreKind.allCases)
    func disabledDevice(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user("anna", with: ["10.66.0.77"])
            let device = try await fixture.logIn(anna)
            var off = DeviceUpdate()
            off.isEnabled = false
            _ = try await store.change(device: device.id, .update(off, try fixture.limits()), fixture.audit())
            let next = try await fixture.logIn(anna, at: 10)
            #expect(next.id != device.id && next.addresses.first == .v4(10, 66, 0, 77))
            #expect(try await store.devices(of: anna.id, PageRequest()).items.map(\.id) == [next.id])
        }
    }

    @Test(
        "A user keeps a fixed address that is set again while all addresses are in cooldown",
        arguments: StoreKind.allCases)
    func setAgain(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let anna = try await fixture.user("anna", with: ["10.66.0.77"])
            var limits = try fixture.limits()
            limits.restSince = .distantPast
            let again = try await fixture.set(["10.66.0.77"], of: anna, limits: limits)
            #expect(again.addresses == [.v4(10, 66, 0, 77)])
            #expect(try await fixture.store.user(anna.id) == again)
        }
    }

    @Test("A search for an address whose cooldown has ended reads no fixed addresses")
    func index() async throws {
        let store = try GatewayStore.inMemory()
        let plan = try await store.connections.read { db in
            try Row.fetchAll(
                db,
                sql: """
                    EXPLAIN QUERY PLAN SELECT address FROM addresses
                    WHERE network = 'x' AND device_id IS NULL AND owner_id IS NULL AND released_at <= 1
                    ORDER BY released_at, address LIMIT 1
                    """
            ).map { String(describing: $0) }.joined()
        }
        #expect(plan.contains("INDEX addresses_at_rest (network=? AND released_at<?)"), "\(plan)")
        let definition = try await store.connections.read { db in
            try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE name = 'addresses_at_rest'")
        }
        #expect(definition?.hasSuffix("WHERE device_id IS NULL AND owner_id IS NULL") == true)
        try store.close()
    }

    @Test(
        "A full pool counts a user's address as in use; it is available again when it or the user is removed",
        arguments: StoreKind.allCases)
    func pool(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let limits = try fixture.limits(["10.66.0.1/30"])
            let anna = try await fixture.user("anna", with: ["10.66.0.2"], limits: limits)
            let ben = try await fixture.user("ben", with: [])
            let full = StoreError.poolFull(try IPPrefix("10.66.0.0/30"), inUse: 1, resting: 0)
            await #expect(throws: full) { _ = try await fixture.logIn(ben, limits: limits) }
            _ = try await fixture.set([], of: anna, limits: limits)
            let device = try await fixture.logIn(ben, limits: limits)
            #expect(device.addresses == [.v4(10, 66, 0, 2)])
            try await fixture.store.remove(device: device.id, of: nil, fixture.audit())
            // A day later.
            let later = try fixture.limits(["10.66.0.1/30"], after: 90_000)
            _ = try await fixture.set(["10.66.0.2"], of: anna, limits: later)
            await #expect(throws: full) { _ = try await fixture.logIn(ben, limits: later) }
            try await fixture.store.remove(user: anna.id, fixture.audit())
            #expect(try await fixture.logIn(ben, limits: later).addresses == device.addresses)
        }
    }

    @Test("No login gets an address outside the gateway's new networks", arguments: StoreKind.allCases)
    func otherNetworks(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let anna = try await fixture.user("anna", with: ["10.66.0.77"])
            let first = try await fixture.logIn(anna)
            #expect(first.addresses.first == .v4(10, 66, 0, 77))
            let limits = try fixture.limits(["10.99.0.1/24"])
            let second = try await fixture.logIn(anna, limits: limits)
            #expect(second.id == first.id && second.addresses == [.v4(10, 99, 0, 2)])
        }
    }
}

@Suite struct UserAddressServiceTests {
    @Test("Addresses must be one of each family, in the networks and not the gateway's; the audit log contains them")
    func checks() async throws {
        let fixture = try ServiceFixture()
        for text in [["10.66.0.1"], ["10.66.0.2", "10.66.0.3"], ["10.67.0.1"], ["10.66.255.255"], ["fd67::2"]] {
            let addresses = try text.map { try IPAddress($0) }
            let error = await #expect(throws: GatewayError.self) {
                _ = try await fixture.service.addUser(UserDraft(login: "anna", addresses: addresses), fixture.admin)
            }
            guard case .invalid(field: "addresses", problem: _)? = error else {
                Issue.record("\(text): \(String(describing: error))")
                continue
            }
        }
        let address = IPAddress.v4(10, 66, 0, 77)
        let anna = try await fixture.service.addUser(
            UserDraft(login: "anna", addresses: [address]), fixture.admin
        ).item
        #expect(anna.addresses == [address])
        #expect(SchemaCheck.problems(JSONValue(anna.json), User.message.schema(.reply)) == [])
        await #expect(throws: GatewayError.addressInUse(address)) {
            _ = try await fixture.service.addUser(UserDraft(login: "ben", addresses: [address]), fixture.admin)
        }
        var update = UserUpdate()
        update.addresses = []
        #expect(try await fixture.service.updateUser(anna.id, update, fixture.admin).addresses == [])
        let entries = try await fixture.service.audit(AuditFilter(), PageRequest(), fixture.admin).items
        #expect(entries.first?.record.details == ["addresses": ""])
    }
}
