// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import Provisioning
import Testing

@testable import Gateway

@Suite struct StoreCooldownTests {
    @Test(
        "A user who adds and removes devices in a loop occupies no more addresses than the limit of devices",
        arguments: StoreKind.allCases)
    func loop(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let (anna, ben) = (try await fixture.user("anna"), try await fixture.user("ben"))
            let limits = try fixture.limits(["10.0.0.1/26", "fd66::1/122"], perUser: 3)
            var given: Set<IPAddress> = []
            for number in 0..<100 {
                let device = try await fixture.device(of: anna, limits: limits, at: Double(number))
                given.formUnion(device.addresses)
                try await store.remove(device: device.id, of: nil, fixture.audit(after: Double(number)))
            }
            #expect(given.count == 2 * 3)
            let pools = try await store.pools(limits.servers, restSince: limits.restSince)
            #expect(pools.map(\.resting) == [3, 3] && pools.map(\.inUse) == [0, 0])
            // No other user gets an address that was in use in the loop.
            let device = try await fixture.device(of: ben, limits: limits, at: 100)
            #expect(given.isDisjoint(with: device.addresses))
            // The addresses of all the user's devices differ.
            var own: [IPAddress] = []
            for _ in 0..<3 { own += try await fixture.device(of: anna, limits: limits, at: 101).addresses }
            #expect(Set(own) == given && own.count == 6)
        }
    }

    @Test(
        "The limit of a user precedes the gateway's, and below it a device gets an unused address",
        arguments: StoreKind.allCases)
    func limit(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let limits = try fixture.limits(["10.0.0.1/26"], perUser: 1)
            let anna = try await fixture.user("anna", limit: 4)
            var given: [String] = []
            for number in 0..<6 {
                let device = try await fixture.device(of: anna, limits: limits, at: Double(number))
                given += device.addresses.map(\.description)
                try await fixture.store.remove(device: device.id, of: nil, fixture.audit(after: Double(number)))
            }
            #expect(given == [2, 3, 4, 5, 2, 3].map { "10.0.0.\($0)" })
        }
    }

    @Test("Cooldowns are listed with their users, and remain after the user was removed", arguments: StoreKind.allCases)
    func list(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let (anna, ben) = (try await fixture.user("anna"), try await fixture.user("ben"))
            let limits = try fixture.limits()
            let (phone, laptop) = (try await fixture.device(of: anna), try await fixture.device(of: ben))
            _ = try await fixture.device(of: ben)
            try await store.remove(device: phone.id, of: nil, fixture.audit(after: 10))
            try await store.remove(device: laptop.id, of: nil, fixture.audit(after: 20))
            func list(
                _ filter: CooldownFilter = CooldownFilter(), after time: Double = 0
            ) async throws -> [Cooldown] {
                var (found, page) = ([Cooldown](), PageRequest(limit: 3))
                repeat {
                    let part = try await store.cooldowns(
                        filter, restSince: limits.restSince.addingTimeInterval(time), page)
                    found += part.items
                    page.after = part.next
                } while page.after != nil
                return found
            }
            let all = try await list()
            #expect(Set(all.map(\.address)) == Set(phone.addresses + laptop.addresses) && all.count == 4)
            #expect(Set(all.map(\.network)) == Set(limits.servers.map(\.network)))
            let own = try await list(CooldownFilter(userID: anna.id))
            #expect(Set(own.map(\.address)) == Set(phone.addresses))
            #expect(own.allSatisfy { $0.login == "anna" && $0.releasedAt == fixture.start.addingTimeInterval(10) })
            #expect(try await list(CooldownFilter(address: laptop.addresses[0])).map(\.userID) == [ben.id])
            #expect(try await list(after: 86_410).count == 2)
            #expect(try await list(after: 86_420).isEmpty)
            try await store.remove(user: ben.id, fixture.audit(after: 30))
            let removed = try await list(CooldownFilter(userID: ben.id))
            #expect(removed.count == 4 && removed.allSatisfy { $0.login == nil })
        }
    }

    @Test(
        "A device gets a cleared address, and only the addresses that the filter selects are cleared",
        arguments: StoreKind.allCases)
    func clear(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let (anna, ben) = (try await fixture.user("anna"), try await fixture.user("ben"))
            let limits = try fixture.limits()
            var devices: [Device] = []
            for user in [anna, anna, ben] { devices.append(try await fixture.device(of: user)) }
            for device in devices { try await store.remove(device: device.id, of: nil, fixture.audit()) }
            func clear(_ filter: CooldownFilter) async throws -> Int {
                try await store.clearCooldowns(
                    filter, restSince: limits.restSince, fixture.audit(.cooldownsCleared))
            }
            let address = devices[1].addresses[0]
            #expect(try await clear(CooldownFilter(address: address)) == 1)
            let entry = try #require(try await store.audit(AuditFilter(), PageRequest()).items.first)
            #expect(entry.record.action == .cooldownsCleared && entry.record.details["count"] == "1")
            #expect(try await fixture.device(of: ben).addresses[0] == address)
            #expect(try await clear(CooldownFilter(userID: anna.id)) == 3)
            #expect(try await clear(CooldownFilter()) == 2)
            let entries = try await store.audit(AuditFilter(), PageRequest()).items.count
            for filter in [CooldownFilter(), CooldownFilter(address: address)] {
                #expect(try await clear(filter) == 0)
            }
            #expect(try await store.audit(AuditFilter(), PageRequest()).items.count == entries)
            let pools = try await store.pools(limits.servers, restSince: limits.restSince)
            #expect(pools.map(\.resting) == [0, 0])
        }
    }
}
