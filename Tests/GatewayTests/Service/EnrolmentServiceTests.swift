// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import WireGuardCore

@testable import Gateway

@Suite struct EnrolmentServiceTests {
    @Test("A device that enrols gets a complete grant, and can get it again with its credential")
    func enrol() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let device = try await fixture.enrolled(anna)
        let grant = device.grant
        #expect(grant.addresses.map(\.description) == ["10.66.0.2", "fd66::2"])
        #expect(grant.servers.count == 1 && grant.servers[0].notAfterSeconds == nil)
        #expect(grant.servers[0].endpoints.map(\.description) == ["vpn.example.com:51820"])
        #expect(grant.servers[0].publicKey == fixture.service.serverKeys.current.publicKey)
        #expect(grant.device.user == "anna" && grant.device.name == "anna")
        #expect(grant.routes == [.allIPv4, .allIPv6] && grant.dns.map(\.description) == ["10.66.0.1"])
        #expect(grant.presharedKey != nil && grant.device.expiresInSeconds == nil)
        #expect(try await fixture.service.grant(device.caller) == grant)
        // The body of the reply has the form that clients read.
        #expect(try EnrolmentGrant(body: grant.body) == grant)
    }

    @Test("Two devices have different pre-shared keys, and a restart changes neither")
    func presharedKeys() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let (first, second) = (try await fixture.enrolled(anna), try await fixture.enrolled(anna))
        #expect(first.grant.presharedKey != second.grant.presharedKey)
        let again = try ServiceFixture(seed: 2, store: fixture.store, keys: fixture.keys)
        let caller = try await again.service.caller(bearer: first.credential.exportedText, from: again.home)
        #expect(try await again.service.grant(caller).presharedKey == first.grant.presharedKey)
    }

    @Test("After a lost reply, the identical request gets the same grant, and no second device is made")
    func repetition() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let invitation = try await fixture.service.addInvitation(InvitationDraft(userID: anna.id), fixture.admin)
        let request = EnrolmentRequest(publicKey: fixture.key().publicKey, credential: fixture.secret(.device))
        let bearer = invitation.secret.exportedText
        let first = try await fixture.service.enrol(bearer: bearer, request, from: fixture.home)
        let again = try await fixture.service.enrol(bearer: bearer, request, from: .v4(203, 0, 113, 9))
        #expect(!first.isRepetition && again.isRepetition && first.item == again.item)
        for other in [
            EnrolmentRequest(publicKey: request.publicKey, credential: fixture.secret(.device)),
            EnrolmentRequest(publicKey: fixture.key().publicKey, credential: request.credential),
        ] {
            await #expect(throws: GatewayError.invitationUsed) {
                _ = try await fixture.service.enrol(bearer: bearer, other, from: fixture.home)
            }
        }
        let entries = try await fixture.service.audit(
            AuditFilter(action: .invitationMisused), PageRequest(), fixture.admin)
        #expect(entries.items.count == 2 && entries.items[0].record.source == fixture.home)
        #expect(try await fixture.service.status(fixture.admin).counts.devices == 1)
    }

    @Test("A token of scope enrol makes several devices of its user, and permits nothing else")
    func enrolToken() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let token = try await fixture.token(.enrol, of: anna)
        let bearer = token.secret.exportedText
        let request = EnrolmentRequest(publicKey: fixture.key().publicKey, credential: fixture.secret(.device))
        let first = try await fixture.service.enrol(bearer: bearer, request, from: fixture.home)
        let again = try await fixture.service.enrol(bearer: bearer, request, from: fixture.home)
        #expect(again.isRepetition && first.item == again.item)
        _ = try await fixture.service.enrol(
            bearer: bearer, EnrolmentRequest(publicKey: fixture.key().publicKey, credential: fixture.secret(.device)),
            from: fixture.home)
        #expect(try await fixture.service.devices(of: anna.id, PageRequest(), fixture.admin).items.count == 2)
        let caller = try await fixture.service.caller(bearer: bearer, from: fixture.home)
        await #expect(throws: GatewayError.forbidden) { _ = try await fixture.service.users(PageRequest(), caller) }
        for scope in [Token.Scope.admin, .readOnly, .addKey] {
            let other = try await fixture.token(scope, of: scope == .addKey ? anna : nil)
            await #expect(throws: GatewayError.forbidden) {
                _ = try await fixture.service.enrol(bearer: other.secret.exportedText, request, from: fixture.home)
            }
        }
    }

    @Test("Invalid keys are refused: zeros, points of low order, and the gateway's own")
    func badKeys() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let invitation = try await fixture.service.addInvitation(InvitationDraft(userID: anna.id), fixture.admin)
        let lowOrder = [UInt8](repeating: 0, count: 31)
        var keys = [fixture.service.serverKeys.current.publicKey]
        // The first two points of order 1 and 2 or 4 (RFC 7748 section 7, and cr.yp.to/ecdh.html).
        for bytes in [[0] + lowOrder, [1] + lowOrder] { keys.append(try #require(PublicKey(bytes: bytes))) }
        for key in keys {
            do {
                _ = try await fixture.service.enrol(
                    bearer: invitation.secret.exportedText,
                    EnrolmentRequest(publicKey: key, credential: fixture.secret(.device)), from: fixture.home)
                Issue.record("\(key) was accepted")
            } catch {
                #expect(error.code == "invalid")
            }
        }
    }

    @Test("Enrolment is limited by the user's devices, the pool, the invitation's expiry and a disabled user")
    func limits() async throws {
        let fixture = try ServiceFixture { settings in
            settings.devicesPerUser = 2
            settings.invitationLifetimeSeconds = 60
        }
        let anna = try await fixture.user()
        _ = try await fixture.enrolled(anna)
        let second = try await fixture.enrolled(anna)
        await #expect(throws: GatewayError.deviceLimit(2)) { _ = try await fixture.enrolled(anna) }
        try await fixture.service.removeOwnDevice(second.id, second.caller)
        await #expect(throws: GatewayError.deviceUnknown) {
            _ = try await fixture.service.caller(bearer: second.credential.exportedText, from: fixture.home)
        }
        let late = try await fixture.service.addInvitation(InvitationDraft(userID: anna.id), fixture.admin)
        fixture.clock.advance(by: .seconds(60))
        let request = EnrolmentRequest(publicKey: fixture.key().publicKey, credential: fixture.secret(.device))
        await #expect(throws: GatewayError.invitationExpired) {
            _ = try await fixture.service.enrol(bearer: late.secret.exportedText, request, from: fixture.home)
        }
        let open = try await fixture.service.addInvitation(InvitationDraft(userID: anna.id), fixture.admin)
        var update = UserUpdate()
        update.isEnabled = false
        _ = try await fixture.service.updateUser(anna.id, update, fixture.admin)
        await #expect(throws: GatewayError.userDisabled) {
            _ = try await fixture.service.enrol(bearer: open.secret.exportedText, request, from: fixture.home)
        }
    }

    @Test("A reply with a device's new key waits until the tunnel has the key, unless it passes through the tunnel")
    func appliedKeys() async throws {
        let fixture = try ServiceFixture()
        let service = fixture.service
        let applied = Mutex<Set<PublicKey>>([])
        service.useTunnel { [weak service] in
            let peers = try? await service?.peers(after: nil, .gateway)
            applied.withLock { $0 = Set(peers?.changed.compactMap(\.publicKey) ?? []) }
        }
        let anna = try await fixture.user()
        let device = try await fixture.enrolled(anna)
        #expect(applied.withLock { $0 } == [device.key.publicKey])

        let token = try await fixture.token(.addKey, of: anna).secret.exportedText
        let pia = fixture.key().publicKey
        _ = try await service.addKey(token: token, publicKey: pia, from: fixture.home)
        #expect(applied.withLock { $0 } == [device.key.publicKey, pia])

        func rotate(_ key: PrivateKey, from source: IPAddress) async throws -> PrivateKey {
            let caller = try await service.caller(bearer: device.credential.exportedText, from: source)
            let (new, nonce) = (fixture.key(), try await service.rotationNonce(caller))
            let request = try #require(RotationRequest(from: key, to: new.publicKey, answering: nonce))
            _ = try await service.rotate(request, caller)
            return new
        }
        let outside = try await rotate(device.key, from: fixture.home)
        #expect(applied.withLock { $0 } == [outside.publicKey, pia])
        _ = try await rotate(outside, from: try #require(device.grant.addresses.first))
        #expect(applied.withLock { $0 } == [outside.publicKey, pia])
    }

    @Test("A hung tunnel delays the reply to an enrolment only until the limit", .timeLimit(.minutes(1)))
    func hungTunnel() async throws {
        let fixture = try ServiceFixture()
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        fixture.service.useTunnel(waitLimit: .milliseconds(10)) {
            // Unlike this task, a separate one is not cancelled at the limit.
            await Task { for await _ in ends {} }.value
        }
        let device = try await fixture.enrolled(try await fixture.user())
        #expect(try await fixture.service.grant(device.caller).device.publicKey == device.key.publicKey)
        end.finish()
    }

    @Test("A token for PIA's clients puts one key after another into one slot, and is valid nowhere else")
    func addKey() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let token = try await fixture.token(.addKey, of: anna)
        let text = token.secret.exportedText
        let (first, second) = (fixture.key().publicKey, fixture.key().publicKey)
        let one = try await fixture.service.addKey(token: text, publicKey: first, from: fixture.home)
        #expect(one.presharedKey == nil && one.addresses.count == 2)
        #expect(try await fixture.service.addKey(token: text, publicKey: first, from: fixture.home) == one)
        let two = try await fixture.service.addKey(token: text, publicKey: second, from: fixture.home)
        #expect(two.addresses == one.addresses && two.device.id == one.device.id && two.device.publicKey == second)
        await #expect(throws: GatewayError.forbidden) {
            _ = try await fixture.service.caller(bearer: text, from: fixture.home)
        }
        // Secrets for other purposes are refused here.
        let admin = try await fixture.token(.admin)
        await #expect(throws: GatewayError.unauthorized) {
            _ = try await fixture.service.addKey(
                token: admin.secret.exportedText, publicKey: first, from: fixture.home)
        }
        fixture.clock.advance(by: .seconds(10_801))
        try await fixture.service.sweep(.gateway)
        #expect(try await fixture.service.peers(after: nil, .gateway).changed.allSatisfy { $0.publicKey == nil })
        _ = try await fixture.service.revokeToken(token.item.id, fixture.admin)
        await #expect(throws: GatewayError.tokenExpired) {
            _ = try await fixture.service.addKey(token: text, publicKey: first, from: fixture.home)
        }
    }
}
