// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import FoundationEssentials
import GRDB
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import PasswordHashing
import Provisioning
import Synchronization
import Testing
import TunnelServer
import TunnelSystem
import WireGuardCore

@testable import Gateway

@Suite struct LoginServiceTests {
    private static let password = "correct horse"

    private func set(
        _ password: String?, of user: User, _ fixture: ServiceFixture
    ) async throws {
        _ = try await fixture.service.setPassword(of: user.id, password.map { Array($0.utf8) }, fixture.admin)
    }

    private func logIn(
        _ fixture: ServiceFixture, _ login: String = "anna", _ password: String = password,
        from source: String = "192.0.2.7:4000", busy: [DeviceID] = []
    ) async throws -> LoginJudgement {
        try await fixture.service.logIn(
            LoginRequest(
                login: login, password: SecretBytes(Array(password.utf8)), source: try Endpoint(source), busy: busy),
            .gateway)
    }

    private func device(_ judgement: LoginJudgement) throws -> DeviceID {
        guard case .accepted(let id, _, _) = judgement else { throw StoreFixture.Unexpected(what: "\(judgement)") }
        return id
    }

    @Test(
        "The right password gets a device; a wrong one, an unknown login and a user without a password are refused alike"
    )
    func judges() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        _ = try await fixture.user("ben")
        try await set(Self.password, of: anna, fixture)
        guard case .accepted(let id, let password, let addresses) = try await logIn(fixture) else {
            Issue.record("the right password was refused")
            return
        }
        #expect(addresses.map(\.description) == ["10.66.0.2", "fd66::2"])
        let user = try await fixture.service.user(anna.id, fixture.admin)
        #expect(user.password == password)
        #expect(try await fixture.service.device(id, fixture.admin).kind == .login)
        for (login, password) in [
            ("anna", "correct hors"), ("nobody", Self.password), ("ben", Self.password), ("ben", ""),
        ] {
            #expect(try await logIn(fixture, login, password, from: "198.51.100.1:1") == .refused(.wrong))
        }
    }

    @Test("After five failures all attempts wait, even with the right password, for no longer than the answer says")
    func limits() async throws {
        for login in ["anna", "nobody"] {
            let fixture = try ServiceFixture()
            try await set(Self.password, of: try await fixture.user(), fixture)
            for _ in 0..<6 { #expect(try await logIn(fixture, login, "wrong horse") == .refused(.wrong)) }
            #expect(try await logIn(fixture, login, "wrong horse") == .refused(.tooEarly(seconds: 1)))
            #expect(try await logIn(fixture, login) == .refused(.tooEarly(seconds: 1)))
            // No other user waits for it.
            _ = try device(try await logIn(fixture, from: "198.51.100.1:1"))
            fixture.clock.advance(by: .seconds(1))
            if login == "anna" { _ = try device(try await logIn(fixture)) }
        }
    }

    /// Sets a user's next password after each comparison.
    private final class Changes: Sendable {
        let change = Mutex<(@Sendable (String) async throws -> Void)?>(nil)
        let passwords: Mutex<[String]>

        init(_ passwords: [String]) { self.passwords = Mutex(passwords) }

        func next() async {
            guard let change = change.withLock({ $0 }),
                let password = passwords.withLock({ $0.isEmpty ? nil : $0.removeFirst() })
            else { return }
            do { try await change(password) } catch { Issue.record("\(error)") }
        }
    }

    @Test(
        "A password that changes during its comparison is compared once more, and another change is not reported as wrong",
        arguments: [
            (["battery staple"], "battery staple", true), (["battery staple"], password, false),
            ([password, "battery staple"], password, nil),
        ] as [([String], String, Bool?)])
    func changedMeanwhile(_ later: [String], _ typed: String, _ isRight: Bool?) async throws {
        let changes = Changes(later)
        let fixture = try ServiceFixture(whenCompared: { await changes.next() })
        let anna = try await fixture.user()
        try await set(Self.password, of: anna, fixture)
        changes.change.withLock { $0 = { try await set($0, of: anna, fixture) } }
        let judgement = try await logIn(fixture, "anna", typed)
        #expect(changes.passwords.withLock { $0.isEmpty })
        switch isRight {
        case true?: _ = try device(judgement)
        case false?: #expect(judgement == .refused(.wrong))
        case nil: #expect(judgement == .refused(.changed) && LoginJudgement.Refusal.changed.body.reason == .unavailable)
        }
        // A password that was replaced does not make its source known.
        #expect(fixture.service.isKnownLogin("anna", from: .v4(192, 0, 2, 7)) == (isRight == true))
    }

    @Test("A user whose addresses change while the password is compared gets the new ones")
    func addressesChangedMeanwhile() async throws {
        let changes = Changes(["10.66.0.99"])
        let fixture = try ServiceFixture(whenCompared: { await changes.next() })
        let anna = try await fixture.user()
        try await set(Self.password, of: anna, fixture)
        changes.change.withLock {
            $0 = { address in
                var update = UserUpdate()
                update.addresses = [try IPAddress(address)]
                _ = try await fixture.service.updateUser(anna.id, update, fixture.admin)
            }
        }
        guard case .accepted(_, _, let addresses) = try await logIn(fixture) else {
            Issue.record("the right password was refused")
            return
        }
        #expect(changes.passwords.withLock { $0.isEmpty })
        #expect(addresses.first == .v4(10, 66, 0, 99))
    }

    @Test("A user logs in from an address where it has logged in before, although a neighbour fails there")
    func neighbour() async throws {
        let fixture = try ServiceFixture()
        for login in ["anna", "ben"] { try await set(Self.password, of: try await fixture.user(login), fixture) }
        _ = try device(try await logIn(fixture))
        for _ in 0..<6 { #expect(try await logIn(fixture, "ben", "wrong horse") == .refused(.wrong)) }
        #expect(try await logIn(fixture, "ben") == .refused(.tooEarly(seconds: 1)))
        _ = try device(try await logIn(fixture))
        let home = IPAddress.v4(192, 0, 2, 7)
        #expect(fixture.service.isKnownLogin("anna", from: home) && !fixture.service.isKnownLogin("ben", from: home))
    }

    @Test("A user that logs in too often must wait, and other users need not")
    func charges() async throws {
        let fixture = try ServiceFixture { $0.loginTunnel.sessionsPerUser = 1 }
        for login in ["anna", "ben"] { try await set(Self.password, of: try await fixture.user(login), fixture) }
        for _ in 0..<10 { _ = try device(try await logIn(fixture)) }
        #expect(try await logIn(fixture) == .refused(.tooEarly(seconds: 6)))
        _ = try device(try await logIn(fixture, "ben"))
        fixture.clock.advance(by: .seconds(6))
        _ = try device(try await logIn(fixture))
    }

    @Test("The hash of a password is stored without changes, and its description does not show it")
    func hash() throws {
        for good in ["12345678", String(repeating: "x", count: 512), "pässwört"] {
            #expect(PasswordHash.isAcceptable(Array(good.utf8)))
        }
        var random = SystemRandomNumberGenerator()
        let password = Array(Self.password.utf8)
        let hash = try #require(PasswordHash(password, cost: PasswordHash.Cost(n: 16, r: 8, p: 1), using: &random))
        let read = try JSONDecoder().decode(PasswordHash.self, from: JSONEncoder().encode(hash))
        #expect(read == hash && read.isValid && read.matches(password) && !read.matches(password + [1]))
        #expect(!"\(hash)".contains(hash.key.base64EncodedString()))
    }

    @Test("An unknown login costs as much as the login of one user, always the same one")
    func unknownCost() async throws {
        let fixture = try ServiceFixture()
        let (service, passwords) = (fixture.service, fixture.service.passwords)
        #expect(try await service.password(forUnknown: "nobody") == nil)
        #expect(passwords.reference(nil, orAsCostlyAs: nil).cost == passwords.cost)
        var random = SystemRandomNumberGenerator()
        let costs = [2, 4].map { PasswordHash.Cost(n: $0, r: 8, p: 1) }
        for number in 0..<20 {
            let user = try await fixture.user("user\(number)")
            guard number < 16 else { continue }
            let hash = try #require(PasswordHash([1], cost: costs[number % 2], using: &random))
            var update = UserUpdate()
            let stored: StoredPassword = try #require(StoredPassword(hash))
            update.password = .some(stored)
            _ = try await fixture.store.update(
                user: user.id, update,
                AuditRecord(at: service.now, actor: "test", source: nil, action: .userChanged, subject: "test"))
        }
        var found: [PasswordHash.Cost: Int] = [:]
        for number in 0..<200 {
            let password = try await service.password(forUnknown: "nobody\(number)")
            #expect(try await service.password(forUnknown: "nobody\(number)") == password)
            let reference = passwords.reference(nil, orAsCostlyAs: password)
            #expect(!reference.matches([1]))
            found[reference.cost, default: 0] += 1
        }
        // The seed selects the user.
        #expect(Set(found.keys) == Set(costs))
        let known = try #require(PasswordHash([1], cost: costs[0], using: &random))
        #expect(passwords.reference(StoredPassword(known), orAsCostlyAs: nil) == known)
        #expect(passwords.reference(StoredPassword(text: "?"), orAsCostlyAs: StoredPassword(known)).cost == costs[0])
        // The settings determine the cost of a new password.
        var settings = service.settings
        settings.loginTunnel.passwordCost = costs[1]
        let other = try GatewayService(
            store: fixture.store, keys: fixture.keys, settings: settings, logger: service.logger)
        #expect(other.passwords.cost == costs[1])
    }

    @Test("A wrong password reads the user from the store once")
    func asksOnce() async throws {
        let store = try GatewayStore.inMemory()
        let fixture = try ServiceFixture(store: store)
        try await set(Self.password, of: try await fixture.user(), fixture)
        let queries = Mutex(0)
        try await store.connections.writeWithoutTransaction { db in
            db.trace { event in
                if "\(event)".contains("FROM users WHERE login") { queries.withLock { $0 += 1 } }
            }
        }
        #expect(try await logIn(fixture, "anna", "wrong horse") == .refused(.wrong))
        #expect(queries.withLock { $0 } == 1)
    }

    @Test(
        "Disabled and expired users learn that only with the right password, and the limit of devices applies to logins"
    )
    func refusals() async throws {
        let fixture = try ServiceFixture { $0.devicesPerUser = 1 }
        let anna = try await fixture.user()
        try await set(Self.password, of: anna, fixture)
        var update = UserUpdate()
        update.isEnabled = false
        _ = try await fixture.service.updateUser(anna.id, update, fixture.admin)
        #expect(try await logIn(fixture) == .refused(.disabled))
        #expect(try await logIn(fixture, "anna", "wrong horse") == .refused(.wrong))
        update.isEnabled = true
        update.expiresAt = .some(Date(timeIntervalSince1970: 1_767_225_700))
        _ = try await fixture.service.updateUser(anna.id, update, fixture.admin)
        fixture.clock.advance(by: .seconds(100))
        #expect(try await logIn(fixture) == .refused(.expired))
        update.expiresAt = .some(nil)
        _ = try await fixture.service.updateUser(anna.id, update, fixture.admin)
        let id = try device(try await logIn(fixture))
        // The existing device is used again. A user with a WireGuard device gets no second device.
        #expect(try device(try await logIn(fixture, busy: [id])) == id)
        try await fixture.service.removeDevice(id, fixture.admin)
        _ = try await fixture.enrolled(anna)
        guard case .refused(.full) = try await logIn(fixture) else {
            Issue.record("a login got a device beyond the limit")
            return
        }
    }

    @Test("The peer has the password that a session was compared with, until the user, device or password changes")
    func plans() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        try await set(Self.password, of: anna, fixture)
        guard case .accepted(let id, let password, let addresses) = try await logIn(fixture) else { return }
        func plan() async throws -> Peer? {
            try await fixture.service.peers(after: nil, .gateway).changed.first { $0.deviceID == id }
        }
        let rules = [AccessRule(.deny, networks: [try IPPrefix("203.0.113.0/24")])]
        _ = try await fixture.service.setRules(of: .user(anna.id), rules.map { RuleDraft($0) }, fixture.admin)
        let first = try #require(try await plan())
        #expect(first.password == password && first.publicKey == nil && first.presharedKey == nil)
        #expect(first.sources == addresses.map { IPPrefix(host: $0) } && first.rules == rules)
        let sequence = try await fixture.service.peers(after: nil, .gateway).sequence
        try await set("battery staple", of: anna, fixture)
        let changes = try await fixture.service.peers(after: sequence, .gateway)
        #expect(changes.changed.map(\.deviceID) == [id] && changes.changed[0].password != password)
        #expect(changes.changed[0].password != nil)
        var disabled = UserUpdate()
        disabled.isEnabled = false
        _ = try await fixture.service.updateUser(anna.id, disabled, fixture.admin)
        #expect(try #require(try await plan()).password == nil)
        disabled.isEnabled = true
        _ = try await fixture.service.updateUser(anna.id, disabled, fixture.admin)
        #expect(try #require(try await plan()).password != nil)
        var off = DeviceUpdate()
        off.isEnabled = false
        _ = try await fixture.service.updateDevice(id, off, fixture.admin)
        #expect(try #require(try await plan()).password == nil)
        off.isEnabled = true
        _ = try await fixture.service.updateDevice(id, off, fixture.admin)
        try await set(nil, of: anna, fixture)
        #expect(try #require(try await plan()).password == nil)
        #expect(try await logIn(fixture, "anna", "battery staple") == .refused(.wrong))
    }

    @Test("A device without a session is removed after the settings' time, and its addresses' cooldown starts")
    func leaseEnds() async throws {
        let fixture = try ServiceFixture { $0.loginTunnel.leaseSeconds = 600 }
        let anna = try await fixture.user()
        try await set(Self.password, of: anna, fixture)
        let id = try device(try await logIn(fixture))
        fixture.clock.advance(by: .seconds(600))
        try await fixture.service.sweep(.gateway)
        #expect(try device(try await logIn(fixture)) == id)
        fixture.clock.advance(by: .seconds(601))
        try await fixture.service.sweep(.gateway)
        await #expect(throws: GatewayError.notFound("device")) {
            _ = try await fixture.service.device(id, fixture.admin)
        }
        let pools = try await fixture.service.status(fixture.admin).pools
        #expect(pools.map(\.resting) == [1, 1])
        _ = try device(try await logIn(fixture))
        #expect(try await fixture.service.status(fixture.admin).counts.logins == 1)
    }

    @Test("A login's device is temporary and cannot have its own rules and subnets")
    func comesAndGoes() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        try await set(Self.password, of: anna, fixture)
        let id = try device(try await logIn(fixture))
        let rule = RuleDraft(AccessRule(.deny, networks: [try IPPrefix("192.0.2.0/24")]))
        var subnets = DeviceUpdate()
        subnets.subnets = [try IPPrefix("192.168.7.0/24")]
        for attempt in [
            { _ = try await fixture.service.setRules(of: .device(id), [rule], fixture.admin) },
            { _ = try await fixture.service.updateDevice(id, subnets, fixture.admin) },
        ] {
            let error = await #expect(throws: GatewayError.self) { try await attempt() }
            #expect(error.map { "\($0)" }?.contains("set the rules of its user") == true)
        }
        _ = try await fixture.service.setRules(of: .user(anna.id), [rule], fixture.admin)
        #expect(try await fixture.service.setRules(of: .device(id), [], fixture.admin).isEmpty)
    }

    @Test("Each login is audited; refusals are audited at a bounded rate, without the typed text")
    func audit() async throws {
        let fixture = try ServiceFixture { $0.failures.free = 1000 }
        let anna = try await fixture.user()
        try await set(Self.password, of: anna, fixture)
        func entries(_ action: AuditRecord.Action) async throws -> [AuditRecord] {
            try await fixture.service.audit(AuditFilter(action: action), PageRequest(limit: 500), fixture.admin).items
                .map(\.record)
        }
        for _ in 0..<3 { _ = try device(try await logIn(fixture)) }
        #expect(try await entries(.loginAccepted).count == 3)
        _ = try await logIn(fixture, "secret-typed-as-login", "x")
        for _ in 0..<50 { _ = try await logIn(fixture, "anna", "wrong horse") }
        let refused = try await entries(.loginRefused)
        #expect(refused.count == 20)
        #expect(refused.last?.subject == "gateway" && refused.first?.subject == "user:\(anna.id)")
        #expect(refused.allSatisfy { $0.source == .v4(192, 0, 2, 7) })
        fixture.clock.advance(by: .seconds(61))
        _ = try await logIn(fixture, "anna", "wrong horse")
        #expect(try await entries(.loginRefused).first?.details["before"] == "31 more were refused meanwhile")
        let text = try await fixture.service.audit(AuditFilter(), PageRequest(limit: 500), fixture.admin).items
            .map { "\($0)" }.joined()
        for secret in ["horse", "secret-typed"] { #expect(!text.contains(secret)) }
        #expect(try await entries(.userChanged).first?.details["password"] == "changed")
    }

    @Test("A password that is too short or too long is refused, and the callers of both operations are checked")
    func checks() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        for password in ["", "seven77", String(repeating: "x", count: 513)] {
            await #expect(throws: GatewayError.self) { try await set(password, of: anna, fixture) }
        }
        await #expect(throws: GatewayError.self) {
            _ = try await fixture.service.setPassword(of: anna.id, [0xff] + Array("12345678".utf8), fixture.admin)
        }
        let device = try await fixture.enrolled(anna)
        await #expect(throws: GatewayError.forbidden) {
            _ = try await fixture.service.setPassword(of: anna.id, Array("12345678".utf8), device.caller)
        }
        await #expect(throws: GatewayError.forbidden) {
            _ = try await fixture.service.logIn(
                LoginRequest(
                    login: "anna", password: SecretBytes([1]), source: try Endpoint("192.0.2.7:1"), busy: []),
                fixture.admin)
        }
        var random = fixture.random
        await #expect(throws: GatewayError.notFound("user")) {
            _ = try await fixture.service.setPassword(
                of: UserID(using: &random), Array("12345678".utf8), fixture.admin)
        }
    }
}
