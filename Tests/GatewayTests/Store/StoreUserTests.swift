// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import Testing
import TunnelServer

@testable import Gateway

@Suite struct StoreUserTests {
    @Test("An added user is read with all members", arguments: StoreKind.allCases)
    func addAndRead(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            var user = User(
                id: fixture.id(), login: "anna", name: "Anna Müller", notes: "two\nlines", isEnabled: false,
                expiresAt: fixture.start.addingTimeInterval(90.5), deviceLimit: 3,
                password: StoredPassword(text: "scrypt"), createdAt: fixture.start)
            _ = try await fixture.store.add(user, nil, fixture.audit())
            #expect(try await fixture.store.user(user.id) == user)
            #expect(try await fixture.store.user(login: "anna") == user)
            #expect(try await fixture.store.user(login: "Anna") == nil)
            #expect(try await fixture.store.user(fixture.id()) == nil)

            var update = UserUpdate()
            update.login = "bea"
            update.expiresAt = .some(nil)
            update.isEnabled = true
            let updated = try await fixture.store.update(user: user.id, update, fixture.audit(.userChanged))
            (user.login, user.expiresAt, user.isEnabled) = ("bea", nil, true)
            #expect(updated == user)
            #expect(try await fixture.store.user(login: "bea") == user)
        }
    }

    @Test("Logins are unique", arguments: StoreKind.allCases)
    func uniqueLogin(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let anna = try await fixture.user("anna")
            let bea = try await fixture.user("bea")
            await #expect(throws: StoreError.exists(.login)) { _ = try await fixture.user("anna") }
            var update = UserUpdate()
            update.login = anna.login
            await #expect(throws: StoreError.exists(.login)) {
                _ = try await fixture.store.update(user: bea.id, update, fixture.audit())
            }
            // The refused request has changed nothing, not even the audit log.
            #expect(try await fixture.store.counts(at: fixture.start).sequence == 2)
            #expect(try await fixture.store.audit(AuditFilter(), PageRequest()).items.count == 2)
        }
    }

    @Test("Any text is stored unchanged: SQL, shell, quotes and other scripts", arguments: StoreKind.allCases)
    func hostileText(_ kind: StoreKind) async throws {
        let texts = [
            "'; DROP TABLE users; --", "\" OR \"\"=\"", "$(reboot)", "`id`", "a;b|c&d", "%s%n", "\\", "''", "ключ", "🔑",
            "?1", ":id", "NULL", "x' OR rowid > 0 --",
        ]
        try await kind.run { fixture in
            for text in texts {
                let user = User(
                    id: fixture.id(), login: text, name: text, notes: text, createdAt: fixture.start)
                _ = try await fixture.store.add(user, nil, fixture.audit(.userAdded, text))
                #expect(try await fixture.store.user(login: text) == user)
                let device = Device(
                    id: fixture.id(), userID: user.id, kind: .exported, name: text, notes: text, platform: text,
                    publicKey: fixture.key(), createdAt: fixture.start)
                let added = try await fixture.store.add(device, try fixture.limits(), nil, fixture.audit())
                #expect(added.item.device.name == text)
                let rule = Rule(
                    id: fixture.id(), owner: .user(user.id), access: AccessRule(.deny), notes: text)
                try await fixture.store.setRules(of: .user(user.id), [rule], fixture.audit())
                #expect(try await fixture.store.rules(of: .user(user.id)) == [rule])
                #expect(
                    try await fixture.store.audit(AuditFilter(subject: text), PageRequest()).items.map(\.record.subject)
                        == [text])
                #expect(try await fixture.store.users(PageRequest(after: text)).items.allSatisfy { $0.login != text })
            }
            #expect(try await fixture.store.counts(at: fixture.start).users == texts.count)
        }
    }

    @Test("Users are listed by login in pages, each once", arguments: StoreKind.allCases)
    func pages(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            for number in 0..<25 { _ = try await fixture.user("user\(100 + number)") }
            var logins: [String] = []
            var page = PageRequest(limit: 10)
            repeat {
                let part = try await fixture.store.users(page)
                logins += part.items.map(\.login)
                page.after = part.next
            } while page.after != nil
            #expect(logins == (0..<25).map { "user\(100 + $0)" })
        }
    }

    @Test(
        "Removing a user removes devices, tokens, invitations and rules, and starts the addresses' cooldown",
        arguments: StoreKind.allCases)
    func removal(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user("anna")
            let device = try await fixture.device(of: anna, subnets: ["192.168.7.0/24"])
            let invitation = try await fixture.invitation(for: anna)
            let token = Token(
                id: fixture.id(), scope: .enrol, userID: anna.id, name: "t", hash: fixture.hash(), hint: "ct_abcdef",
                createdAt: fixture.start, expiresAt: nil)
            _ = try await store.add(token, slot: nil, try fixture.limits(), nil, fixture.audit())
            try await store.setRules(
                of: .device(device.id),
                [Rule(id: fixture.id(), owner: .device(device.id), access: AccessRule(.deny))], fixture.audit())
            try await store.record([
                DeviceActivity(deviceID: device.id, traffic: Device.Traffic(received: 5, sent: 7))
            ])
            let before = try await store.counts(at: fixture.start)
            #expect(before.devices == 1 && before.openInvitations == 1 && before.tokens == 1)

            try await store.remove(user: anna.id, fixture.audit(.userRemoved, after: 10))
            let after = try await store.counts(at: fixture.start)
            #expect(after.users == 0 && after.devices == 0 && after.openInvitations == 0 && after.tokens == 0)
            #expect(after.traffic == Device.Traffic(received: 5, sent: 7))
            #expect(try await store.token(token.hash) == nil)
            #expect(try await store.device(device.id) == nil)
            #expect(
                try await store.leases()
                    == device.addresses.sorted { $0.bytes.count < $1.bytes.count }.map {
                        AddressLease(address: $0, deviceID: nil, releasedAt: fixture.start.addingTimeInterval(10))
                    })
            let feed = try await store.peers(after: before.sequence)
            #expect(feed.removed == [device.id] && feed.changed.isEmpty && !feed.isComplete)
            guard case .refused(.unknown) = try await store.enrol(try fixture.enrolment(.invitation(invitation.hash)))
            else {
                Issue.record("the invitation of a removed user was accepted")
                return
            }
        }
    }

    @Test(
        "A repeated creation makes nothing new, and another request with its key is refused",
        arguments: StoreKind.allCases)
    func creations(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let creation = Creation(key: fixture.hash(), request: fixture.hash())
            func user(_ login: String) -> User { User(id: fixture.id(), login: login, createdAt: fixture.start) }
            let first = try await fixture.store.add(user("anna"), creation, fixture.audit())
            let again = try await fixture.store.add(user("anna"), creation, fixture.audit())
            #expect(!first.isRepetition && again.isRepetition && first.item == again.item)
            let other = Creation(key: creation.key, request: fixture.hash())
            await #expect(throws: StoreError.creationConflict(subject: first.item.id.description)) {
                _ = try await fixture.store.add(user("bea"), other, fixture.audit())
            }
            #expect(try await fixture.store.counts(at: fixture.start).users == 1)
            _ = try await fixture.store.sweep(
                Sweep(
                    now: fixture.start, idleKeysBefore: fixture.start, auditBefore: nil,
                    creationsBefore: fixture.start.addingTimeInterval(1)))
            await #expect(throws: StoreError.exists(.login)) {
                _ = try await fixture.store.add(user("anna"), creation, fixture.audit())
            }
        }
    }
}
