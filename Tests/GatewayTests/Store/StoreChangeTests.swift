// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import Testing
import TunnelServer
import WireGuardCore

@testable import Gateway

@Suite struct StoreChangeTests {
    @Test(
        "A follower of changes gets each changed device once in its current state, and the removed devices",
        arguments: StoreKind.allCases)
    func feed(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let (anna, bea) = (try await fixture.user("anna"), try await fixture.user("bea"))
            let first = try await fixture.device(of: anna, subnets: ["192.168.7.0/24"])
            let second = try await fixture.device(of: anna)
            let third = try await fixture.device(of: bea)
            let all = try await store.peers(after: nil)
            #expect(all.isComplete && Set(all.changed.map(\.device)) == [first, second, third])
            #expect(try await store.peers(after: all.sequence).changed.isEmpty)

            let deny = AccessRule(
                .deny, direction: .in, networks: [try IPPrefix("10.0.0.0/8")], transport: .tcp,
                ports: [1...80, 443...443])
            let allow = AccessRule(.allow)
            try await store.setRules(
                of: .user(anna.id), [Rule(id: fixture.id(), owner: .user(anna.id), access: deny)], fixture.audit())
            try await store.setRules(
                of: .device(first.id), [Rule(id: fixture.id(), owner: .device(first.id), access: allow)],
                fixture.audit())
            try await store.remove(device: third.id, of: nil, fixture.audit())
            let feed = try await store.peers(after: all.sequence)
            #expect(!feed.isComplete && feed.sequence == all.sequence + 3)
            #expect(feed.removed == [third.id] && !feed.serverKeysChanged)
            let rules = Dictionary(uniqueKeysWithValues: feed.changed.map { ($0.device.id, $0.rules) })
            #expect(rules == [first.id: [allow, deny], second.id: [deny]])
            let complete = try await store.peers(after: nil)
            #expect(
                Dictionary(uniqueKeysWithValues: complete.changed.map { ($0.device.id, $0.rules) }) == rules)

            try await store.append(fixture.audit(.serverKeySwitched), change: .serverKeys)
            #expect(try await store.peers(after: feed.sequence).serverKeysChanged)
            let sequences = try await store.changes(after: 0, limit: 100).map(\.sequence)
            #expect(sequences == sequences.sorted() && Set(sequences).count == sequences.count)
        }
    }

    @Test(
        "A follower that has missed deleted changes, or is ahead of the store, gets everything",
        arguments: StoreKind.allCases)
    func forgottenChanges(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            for _ in 0..<20 { _ = try await fixture.device(of: anna) }
            let last = try await store.counts(at: fixture.start).sequence
            _ = try await store.sweep(
                Sweep(
                    now: fixture.start, idleKeysBefore: fixture.start, auditBefore: nil, creationsBefore: fixture.start,
                    changesKept: 5))
            #expect(try await store.peers(after: last - 5).isComplete == false)
            #expect(try await store.peers(after: last - 6).isComplete)
            // A follower may know a later change than a store that was restored from a backup.
            #expect(try await store.peers(after: last + 1).isComplete)
            _ = try await fixture.device(of: anna)
            #expect(try await store.counts(at: fixture.start).sequence == last + 1)
        }
    }

    @Test(
        "An expiry is recorded once, with a change and an audit entry, and again if it is replaced",
        arguments: StoreKind.allCases)
    func expiry(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user("anna", expiresAfter: 500)
            let device = try await fixture.device(of: anna, expiresAfter: 100)
            func sweep(_ time: Double) async throws -> SweepOutcome {
                try await store.sweep(
                    Sweep(
                        now: fixture.start.addingTimeInterval(time), idleKeysBefore: fixture.start, auditBefore: nil,
                        creationsBefore: fixture.start))
            }
            #expect(try await sweep(99.9).isEmpty)
            #expect(try await store.counts(at: fixture.start.addingTimeInterval(99.9)).activeDevices == 1)
            let before = try await store.counts(at: fixture.start).sequence
            #expect(try await sweep(100).devices == [device.id])
            #expect(try await store.counts(at: fixture.start.addingTimeInterval(100)).activeDevices == 0)
            #expect(try await sweep(101).isEmpty)
            #expect(try await store.changes(after: before, limit: 10).map(\.subject) == [.device(device.id)])
            _ = try await store.change(
                device: device.id, .renewal(until: fixture.start.addingTimeInterval(200)), fixture.audit(after: 101))
            #expect(try await sweep(200).devices == [device.id])
            var update = DeviceUpdate()
            update.name = "other"
            _ = try await store.change(device: device.id, .update(update, try fixture.limits()), fixture.audit())
            #expect(try await sweep(201).isEmpty)
            let outcome = try await sweep(500)
            #expect(outcome.users == [anna.id] && outcome.devices.isEmpty)
            #expect(try await store.audit(AuditFilter(action: .deviceExpired), PageRequest()).items.count == 2)
        }
    }

    @Test("Counters add up, and the latest time and endpoint are kept", arguments: StoreKind.allCases)
    func counters(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let anna = try await fixture.user()
            let device = try await fixture.device(of: anna)
            let endpoint = try Endpoint("[2001:db8::1]:51820")
            let seen = fixture.start.addingTimeInterval(5)
            try await store.record([
                DeviceActivity(
                    deviceID: device.id, traffic: Device.Traffic(received: 10, sent: 20), lastSeenAt: seen,
                    endpoint: endpoint),
                DeviceActivity(deviceID: device.id, traffic: Device.Traffic(received: 1, sent: 2)),
                DeviceActivity(
                    deviceID: device.id, traffic: Device.Traffic(), lastSeenAt: fixture.start),
                DeviceActivity(deviceID: fixture.id(), traffic: Device.Traffic(received: 100, sent: 200)),
            ])
            let found = try #require(try await store.device(device.id)).device
            #expect(found.traffic == Device.Traffic(received: 11, sent: 22))
            #expect(found.lastSeenAt == seen && found.lastEndpoint == endpoint)
            #expect(try await store.counts(at: fixture.start).traffic == Device.Traffic(received: 111, sent: 222))
        }
    }

    @Test("The audit log has pages with the latest entry first, and can be filtered", arguments: StoreKind.allCases)
    func auditPages(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            for number in 0..<25 {
                var audit = fixture.audit(
                    number % 5 == 0 ? .backupMade : .userAdded, "test:\(number)", after: Double(number))
                audit.details = ["number": "\(number)", "quote": "\"'\\"]
                try await store.append(audit, change: nil)
            }
            var entries: [AuditEntry] = []
            var page = PageRequest(limit: 7)
            repeat {
                let part = try await store.audit(AuditFilter(), page)
                entries += part.items
                page.after = part.next
            } while page.after != nil
            #expect(entries.map(\.record.subject) == (0..<25).reversed().map { "test:\($0)" })
            #expect(entries.first?.record.details == ["number": "24", "quote": "\"'\\"])
            #expect(try await store.audit(AuditFilter(action: .backupMade), PageRequest()).items.count == 5)
            #expect(try await store.audit(AuditFilter(actor: "nobody"), PageRequest()).items.isEmpty)
            _ = try await store.sweep(
                Sweep(
                    now: fixture.start, idleKeysBefore: fixture.start,
                    auditBefore: fixture.start.addingTimeInterval(20), creationsBefore: fixture.start))
            #expect(try await store.audit(AuditFilter(), PageRequest()).items.count == 5)
            #expect(try await store.audit(AuditFilter(), PageRequest(after: "nonsense")).items.isEmpty)
            #expect(try await store.devices(of: nil, PageRequest(after: "nonsense")).items.isEmpty)
        }
    }
}
