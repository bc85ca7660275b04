// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import PacketTunnelTesting
import Provisioning
import Testing
import TunnelServer
import WireGuardCore

@testable import Gateway

@Suite struct CallerTests {
    @Test("Each scope permits only its operations")
    func scopes() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let device = try await fixture.enrolled(anna)
        let service = fixture.service
        func caller(_ scope: Token.Scope, _ user: User? = nil) async throws -> Caller {
            try await service.caller(
                bearer: try await fixture.token(scope, of: user).secret.exportedText, from: fixture.home)
        }
        let callers = [
            "admin": try await caller(.admin), "readOnly": try await caller(.readOnly),
            "enrol": try await caller(.enrol, anna), "device": device.caller, "local": fixture.admin,
            "gateway": Caller.gateway,
        ]
        let operations: [(String, Set<String>, (Caller) async throws -> Void)] = [
            ("read", ["admin", "readOnly", "local", "gateway"], { _ = try await service.users(PageRequest(), $0) }),
            (
                "read devices", ["admin", "readOnly", "local", "gateway"],
                { _ = try await service.device(device.id, $0) }
            ),
            (
                "audit", ["admin", "readOnly", "local", "gateway"],
                { _ = try await service.audit(AuditFilter(), PageRequest(), $0) }
            ),
            (
                "manage", ["admin", "local", "gateway"],
                { _ = try await service.setRules(of: .user(anna.id), [RuleDraft(AccessRule(.deny))], $0) }
            ),
            (
                "tokens", ["admin", "local", "gateway"],
                { _ = try await service.addToken(TokenDraft(scope: .readOnly, name: "x"), $0) }
            ),
            (
                "secrets", ["admin", "local", "gateway"],
                {
                    _ = try? await service.exportedGrant(device.id, $0)
                    try $0.check(.manage)
                }
            ),
            ("own", ["device"], { _ = try await service.grant($0) }),
            ("peers", ["gateway"], { _ = try await service.peers(after: nil, $0) }),
            ("counters", ["gateway"], { try await service.record([], $0) }),
        ]
        for (operation, allowed, run) in operations {
            for (name, caller) in callers {
                do {
                    try await run(caller)
                    #expect(allowed.contains(name), "\(name) did \(operation)")
                } catch {
                    #expect(
                        error as? GatewayError == .forbidden && !allowed.contains(name),
                        "\(name), \(operation): \(error)")
                }
            }
        }
    }

    @Test("Repeated guesses must wait, with the same answer for all secrets, and a valid secret is accepted meanwhile")
    func limits() async throws {
        let fixture = try ServiceFixture()
        let device = try await fixture.enrolled(try await fixture.user())
        var refusals: [String: Int] = [:]
        for _ in 0..<50 {
            do {
                _ = try await fixture.service.caller(bearer: fixture.secret(.token).exportedText, from: fixture.home)
            } catch {
                refusals[error.code, default: 0] += 1
            }
        }
        #expect(refusals == ["unauthorized": 6, "tooManyFailures": 44])
        _ = try await fixture.service.caller(bearer: device.credential.exportedText, from: fixture.home)
        // A wait ends without any action, and other sources do not wait.
        await #expect(throws: GatewayError.unauthorized) {
            _ = try await fixture.service.caller(bearer: nil, from: .v4(198, 51, 100, 1))
        }
        fixture.clock.advance(by: .seconds(301))
        await #expect(throws: GatewayError.unauthorized) {
            _ = try await fixture.service.caller(bearer: "nonsense", from: fixture.home)
        }
    }

    @Test("All addresses of an IPv6 /64 network are one source")
    func networks() async throws {
        let fixture = try ServiceFixture()
        var last: GatewayError?
        for number in 0..<20 as Range<UInt64> {
            do {
                _ = try await fixture.service.caller(
                    bearer: fixture.secret(.device).exportedText, from: .v6(0x2001_0db8_0000_0001, number))
            } catch { last = error }
        }
        #expect(last?.code == "tooManyFailures")
        await #expect(throws: GatewayError.deviceUnknown) {
            _ = try await fixture.service.caller(
                bearer: fixture.secret(.device).exportedText, from: .v6(0x2001_0db8_0000_0002, 1))
        }
    }

    @Test("A revoked token, an expired token and an expired invitation are refused")
    func ends() async throws {
        let fixture = try ServiceFixture()
        let revoked = try await fixture.token(.admin)
        let caller = try await fixture.service.caller(bearer: revoked.secret.exportedText, from: fixture.home)
        _ = try await fixture.service.revokeToken(revoked.item.id, caller)
        let short = try await fixture.service.addToken(
            TokenDraft(scope: .admin, name: "short", lifetimeSeconds: 60), fixture.admin)
        _ = try await fixture.service.caller(bearer: short.secret.exportedText, from: fixture.home)
        fixture.clock.advance(by: .seconds(60))
        for secret in [revoked.secret, short.secret] {
            await #expect(throws: GatewayError.tokenExpired) {
                _ = try await fixture.service.caller(bearer: secret.exportedText, from: fixture.home)
            }
        }
        let invitation = try await fixture.service.addInvitation(
            InvitationDraft(userID: try await fixture.user().id), fixture.admin)
        await #expect(throws: GatewayError.forbidden) {
            _ = try await fixture.service.caller(bearer: invitation.secret.exportedText, from: fixture.home)
        }
    }

    @Test("Descriptions and mirrors contain no secret")
    func descriptions() async throws {
        let fixture = try ServiceFixture()
        let device = try await fixture.enrolled(try await fixture.user())
        let token = try await fixture.token(.admin)
        let stored = try await fixture.service.device(device.id, fixture.admin)
        var dumped = ""
        dump(token, to: &dumped)
        dump(stored, to: &dumped)
        dump(device.grant, to: &dumped)
        dump(fixture.service.serverKeys, to: &dumped)
        dumped += "\(token) \(stored) \(device.grant) \(fixture.service.serverKeys) \(token.item.hash)"
        for secret in [
            token.secret.exportedText, device.credential.exportedText, device.key.exportedBase64,
            try #require(device.grant.presharedKey).exportedBase64,
            fixture.service.serverKeys.current.exportedBase64,
        ] {
            #expect(!dumped.contains(secret.dropFirst(3)))
        }
    }

    @Test("A repeated creation gets the same item, with its secret for ten minutes")
    func creationKeys() async throws {
        let fixture = try ServiceFixture()
        let anna = try await fixture.user()
        let draft = InvitationDraft(userID: anna.id)
        let first = try await fixture.service.addInvitation(draft, creationKey: "abc", fixture.admin)
        let again = try await fixture.service.addInvitation(draft, creationKey: "abc", fixture.admin)
        #expect(again.isRepetition && first.item == again.item && first.secret == again.secret)
        // Another caller's key is independent.
        let other = try await fixture.service.addInvitation(draft, creationKey: "abc", .local(1000))
        #expect(other.item.id != first.item.id)
        await #expect(throws: GatewayError.creationConflict(subject: first.item.id.description)) {
            _ = try await fixture.service.addInvitation(
                InvitationDraft(userID: anna.id, lifetimeSeconds: 60), creationKey: "abc", fixture.admin)
        }
        fixture.clock.advance(by: .seconds(601))
        await #expect(throws: GatewayError.creationConflict(subject: first.item.id.description)) {
            _ = try await fixture.service.addInvitation(draft, creationKey: "abc", fixture.admin)
        }
        #expect(try await fixture.service.invitations(PageRequest(), fixture.admin).items.count == 2)
    }
}
