// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import NetworkAddresses
import PacketTunnelTesting
import Provisioning
import Testing
import WireGuardCore

@testable import Gateway

@Suite("Rate of changes by valid credentials") struct ChangeRateTests {
    private static let limited = GatewayError.tooManyChanges(retryAfterSeconds: 1)

    /// The number of rows that the store has written.
    private func written(_ fixture: ServiceFixture) async throws -> Int {
        try await fixture.store.connections.read { $0.totalChangesCount }
    }

    private func entries(_ fixture: ServiceFixture, _ action: AuditRecord.Action) async throws -> [AuditEntry] {
        try await fixture.service.audit(AuditFilter(action: action), PageRequest(limit: 500), fixture.admin).items
    }

    /// Checks that a refused call writes nothing.
    private func expectLimited(
        _ fixture: ServiceFixture, sourceLocation: SourceLocation = #_sourceLocation,
        _ call: () async throws -> Void
    ) async throws {
        let before = try await written(fixture)
        await #expect(throws: Self.limited, sourceLocation: sourceLocation) { try await call() }
        #expect(try await written(fixture) == before, sourceLocation: sourceLocation)
    }

    @Test("A device rotates its key in a burst of five and twice a second, and one audit entry counts the rotations")
    func rotations() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let (device, other) = (try await fixture.enrolled(anna), try await fixture.enrolled(anna))
        var key = device.key
        func rotate(_ key: PrivateKey, _ device: ServiceFixture.Enrolled) async throws -> PrivateKey {
            let nonce = try await fixture.service.rotationNonce(device.caller)
            let new = fixture.key()
            let request = try #require(RotationRequest(from: key, to: new.publicKey, answering: nonce))
            let grant = try await fixture.service.rotate(request, device.caller)
            #expect(grant.device.publicKey == new.publicKey)
            // The identical request changes nothing, and is not limited.
            #expect(try await fixture.service.rotate(request, device.caller) == grant)
            return new
        }
        for _ in 0..<5 { key = try await rotate(key, device) }
        for _ in 0..<20 { try await expectLimited(fixture) { _ = try await rotate(key, device) } }
        _ = try await rotate(other.key, other)
        for _ in 0..<10 {
            fixture.clock.advance(by: .milliseconds(500))
            key = try await rotate(key, device)
            try await expectLimited(fixture) { _ = try await rotate(key, device) }
        }
        let all = try await entries(fixture, .deviceKeyRotated)
        #expect(all.map(\.count) == [1, 15])
        #expect(all.last?.record.details == ["from": device.key.publicKey.base64, "to": key.publicKey.base64])
        // The limited request succeeds later.
        fixture.clock.advance(by: .seconds(5))
        for _ in 0..<5 { key = try await rotate(key, device) }
        let nonce = try await fixture.service.rotationNonce(device.caller)
        let request = try #require(RotationRequest(from: key, to: fixture.key().publicKey, answering: nonce))
        try await expectLimited(fixture) { _ = try await fixture.service.rotate(request, device.caller) }
        fixture.clock.advance(by: .seconds(1))
        _ = try await fixture.service.rotate(request, device.caller)
    }

    @Test("A slot takes a burst of five keys and two keys a second, and the current key at any time")
    func slots() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let token = try await fixture.token(.addKey, of: anna).secret.exportedText
        let other = try await fixture.token(.addKey, of: anna).secret.exportedText
        func add(_ key: PublicKey, _ token: String) async throws {
            _ = try await fixture.service.addKey(token: token, publicKey: key, from: fixture.home)
        }
        var key = fixture.key().publicKey
        try await add(key, token)
        for _ in 0..<4 {
            key = fixture.key().publicKey
            try await add(key, token)
        }
        for _ in 0..<20 {
            try await expectLimited(fixture) { try await add(fixture.key().publicKey, token) }
            let before = try await written(fixture)
            try await add(key, token)
            #expect(try await written(fixture) == before)
        }
        try await add(fixture.key().publicKey, other)
        fixture.clock.advance(by: .milliseconds(500))
        try await add(fixture.key().publicKey, token)
        #expect(try await entries(fixture, .deviceKeyRotated).map(\.count) == [1, 6])
    }

    @Test("The devices of a user remove each other in a burst of five and twice a second")
    func removals() async throws {
        let fixture = try ServiceFixture()
        let (anna, ben) = (try await fixture.user("anna"), try await fixture.user("ben"))
        for _ in 0..<5 {
            let device = try await fixture.enrolled(anna)
            try await fixture.service.removeOwnDevice(device.id, device.caller)
        }
        let device = try await fixture.enrolled(anna)
        try await expectLimited(fixture) { try await fixture.service.removeOwnDevice(device.id, device.caller) }
        let other = try await fixture.enrolled(ben)
        try await fixture.service.removeOwnDevice(other.id, other.caller)
        // An administrator is not limited.
        try await fixture.service.removeDevice(device.id, fixture.admin)
    }

    /// An invitation that was used, with its number of misuses.
    private struct UsedInvitation {
        let fixture: ServiceFixture
        let secret: String

        /// Sends another request with the used invitation.
        func replay(from source: IPAddress) async throws -> GatewayError? {
            let request = EnrolmentRequest(publicKey: fixture.key().publicKey, credential: fixture.secret(.device))
            do throws(GatewayError) {
                _ = try await fixture.service.enrol(bearer: secret, request, from: source)
                return nil
            } catch {
                return error
            }
        }

        func misuses() async throws -> Int? {
            try await fixture.service.invitations(PageRequest(), fixture.admin).items.first?.misuses
        }
    }

    private func usedInvitation(_ fixture: ServiceFixture) async throws -> UsedInvitation {
        let anna = try await fixture.user()
        let secret = try await fixture.service.addInvitation(InvitationDraft(userID: anna.id), fixture.admin).secret
        let invitation = UsedInvitation(fixture: fixture, secret: secret.exportedText)
        #expect(try await invitation.replay(from: fixture.home) == nil)
        return invitation
    }

    @Test(
        "Misuses counted in memory are recorded a minute later, at the stop, and after the store has refused them"
    )
    func pendingMisuses() async throws {
        try await TestFolder.use { folder in
            let store = try GatewayStore(path: "\(folder)/gateway.db")
            let fixture = try ServiceFixture(store: store)
            let (service, invitation) = (fixture.service, try await usedInvitation(fixture))
            func replay(_ count: Int) async throws {
                for _ in 0..<count { #expect(try await invitation.replay(from: fixture.home) != nil) }
            }
            try await replay(50)
            let recorded = try #require(try await invitation.misuses())
            #expect((1..<50).contains(recorded))
            fixture.clock.advance(by: .seconds(59))
            try await service.sweep(.gateway)
            #expect(try await invitation.misuses() == recorded)
            fixture.clock.advance(by: .seconds(1))
            try await store.refuseWrites(true)
            _ = try? await service.sweep(.gateway)
            try await store.refuseWrites(false)
            try await service.sweep(.gateway)
            #expect(try await invitation.misuses() == 50)
            let latest = try #require(try await entries(fixture, .invitationMisused).first)
            #expect(latest.record.details["misuses"] == "50")
            try await replay(50)
            #expect(try #require(try await invitation.misuses()) < 100)
            await service.finish()
            #expect(try await invitation.misuses() == 100)
            try store.close()
        }
    }

    @Test(
        "Misuses that the database always refuses do not prevent those of another invitation from being recorded",
        arguments: [0, 1])
    func oneFails(_ refused: Int) async throws {
        let fixture = try ServiceFixture()
        var ids: [InvitationID] = []
        for (login, source) in [("anna", fixture.home), ("ben", .v4(198, 51, 100, 1))] {
            let user = try await fixture.user(login)
            let made = try await fixture.service.addInvitation(InvitationDraft(userID: user.id), fixture.admin)
            ids.append(made.item.id)
            let invitation = UsedInvitation(fixture: fixture, secret: made.secret.exportedText)
            for _ in 0..<20 { _ = try await invitation.replay(from: source) }
        }
        func misuses(_ index: Int) async throws -> Int? {
            try await fixture.service.invitations(PageRequest(), fixture.admin).items.first { $0.id == ids[index] }?
                .misuses
        }
        let id = ids[refused]
        try await fixture.store.connections.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER refuse BEFORE UPDATE ON invitations WHEN OLD.id = '\(id)'
                    BEGIN SELECT RAISE(ABORT, 'refused'); END
                    """)
        }
        for _ in 0..<2 {
            fixture.clock.advance(by: .seconds(61))
            _ = try? await fixture.service.sweep(.gateway)
        }
        #expect(try await misuses(1 - refused) == 19)
        #expect(try #require(try await misuses(refused)) < 19)
    }

    @Test("Replays of a used invitation write nothing while their source waits, and are all counted later")
    func replays() async throws {
        let fixture = try ServiceFixture()
        let invitation = try await usedInvitation(fixture)
        var limited = 0
        for _ in 0..<100 {
            let before = try await written(fixture)
            let error = try #require(try await invitation.replay(from: fixture.home))
            guard error != .invitationUsed else { continue }
            #expect(error.code == "tooManyFailures")
            limited += 1
            #expect(try await written(fixture) == before)
        }
        #expect(limited > 90)
        // Other sources do not wait, but the writes for each invitation are limited.
        var writes = 0
        for last in 0..<100 as Range<UInt8> {
            let before = try await written(fixture)
            #expect(try await invitation.replay(from: .v4(198, 51, 100, last)) == .invitationUsed)
            if try await written(fixture) > before { writes += 1 }
        }
        #expect(writes <= 5)
        fixture.clock.advance(by: .seconds(1))
        #expect(try await invitation.replay(from: .v4(203, 0, 113, 9)) == .invitationUsed)
        #expect(try await invitation.misuses() == 201)
        #expect(try await entries(fixture, .invitationMisused).count <= 7)
    }

    @Test("A limited change is answered with 429 and the seconds to wait")
    func answer() {
        let error = GatewayError.tooManyChanges(retryAfterSeconds: 1)
        #expect(error.problem.status == 429 && error.problem.code == .tooManyRequests && error.retryAfter == 1)
        #expect(error.problem.title != GatewayError.tooManyFailures(retryAfterSeconds: 1).problem.title)
    }
}
