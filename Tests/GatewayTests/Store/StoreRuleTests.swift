// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Provisioning
import Testing
import TunnelServer

@testable import Gateway

@Suite struct StoreRuleTests {
    private func rule(_ owner: Rule.Owner, _ number: Int, _ fixture: StoreFixture) -> Rule {
        Rule(id: fixture.id(), owner: owner, access: AccessRule(.deny), notes: "\(number)")
    }

    @Test("A rule has all members of its draft, and the database stores them", arguments: StoreKind.allCases)
    func draft(_ kind: StoreKind) async throws {
        let access = AccessRule(
            .allow, direction: .in, networks: [try IPPrefix("192.0.2.0/24"), try IPPrefix("2001:db8::/32")],
            transport: .udp, ports: [53...53, 8000...8100])
        try await run(kind) { fixture, store, owner in
            let rule = Rule(id: fixture.id(), owner: owner, RuleDraft(access, notes: "name servers"))
            #expect(rule == Rule(id: rule.id, owner: owner, access: access, notes: "name servers"))
            try await store.setRules(of: owner, [rule], fixture.audit())
            #expect(try await store.rules(of: owner) == [rule])
        }
    }

    /// Runs a test with the rules of a user.
    private func run(
        _ kind: StoreKind, _ body: (StoreFixture, GatewayStore, Rule.Owner) async throws -> Void
    ) async throws {
        try await kind.run { fixture in
            try await body(fixture, fixture.store, .user(try await fixture.user().id))
        }
    }

    @Test(
        "Twenty rules that are added in parallel all exist, and each addition is a change",
        arguments: StoreKind.allCases)
    func parallel(_ kind: StoreKind) async throws {
        try await run(kind) { fixture, store, owner in
            let before = try await store.counts(at: fixture.start).sequence
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<20 {
                    let rule = rule(owner, number, fixture)
                    group.addTask { _ = try await store.add(rule, isFirst: false, limit: 100, nil, fixture.audit()) }
                }
                try await group.waitForAll()
            }
            let notes = try await store.rules(of: owner).map(\.notes)
            #expect(Set(notes) == Set((0..<20).map { "\($0)" }) && notes.count == 20)
            #expect(try await store.changes(after: before, limit: 100).count == 20)
        }
    }

    @Test("A rule is added before or after the others, which keep their IDs", arguments: StoreKind.allCases)
    func order(_ kind: StoreKind) async throws {
        try await kind.run { fixture in
            let store = fixture.store
            let device = try await fixture.device(of: try await fixture.user())
            let owner = Rule.Owner.device(device.id)
            var expected: [Rule] = []
            for number in 0..<6 {
                let isFirst = number.isMultiple(of: 2)
                let rule = rule(owner, number, fixture)
                expected.insert(rule, at: isFirst ? 0 : expected.count)
                let added = try await store.add(rule, isFirst: isFirst, limit: 6, nil, fixture.audit(.rulesChanged))
                #expect(added.item == expected && !added.isRepetition)
            }
            #expect(try await store.rules(of: owner) == expected)
            #expect(try await store.peers(after: nil).changed.first?.rules == expected.map(\.access))
            let entry = try #require(try await store.audit(AuditFilter(), PageRequest()).items.first)
            #expect(entry.record.action == .rulesChanged && entry.record.details["rules"] == "6")
            await #expect(throws: StoreError.ruleLimit(6)) {
                _ = try await store.add(
                    rule(owner, 6, fixture), isFirst: false, limit: 6, nil, fixture.audit())
            }
            await #expect(throws: StoreError.notFound) {
                _ = try await store.add(
                    rule(.user(fixture.id()), 6, fixture), isFirst: false, limit: 6, nil, fixture.audit())
            }
            // A list with an added rule is replaced like any other.
            try await store.setRules(of: owner, [expected[3]], fixture.audit())
            #expect(try await store.rules(of: owner) == [expected[3]])
        }
    }

    @Test("A repeated addition with the same creation key adds nothing", arguments: StoreKind.allCases)
    func repetition(_ kind: StoreKind) async throws {
        try await run(kind) { fixture, store, owner in
            let creation = Creation(key: fixture.hash(), request: fixture.hash())
            for isRepetition in [false, true] {
                let added = try await store.add(
                    rule(owner, 1, fixture), isFirst: false, limit: 100, creation, fixture.audit())
                #expect(added.item.count == 1 && added.isRepetition == isRepetition)
            }
            let other = Creation(key: creation.key, request: fixture.hash())
            await #expect(throws: StoreError.self) {
                _ = try await store.add(
                    rule(owner, 2, fixture), isFirst: false, limit: 100, other, fixture.audit())
            }
            #expect(try await store.rules(of: owner).count == 1)
        }
    }

    @Test(
        "A list is replaced only if it has one of the given versions, and a refusal changes nothing",
        arguments: StoreKind.allCases)
    func versions(_ kind: StoreKind) async throws {
        try await run(kind) { fixture, store, owner in
            let (first, second) = ([rule(owner, 1, fixture)], [rule(owner, 2, fixture)])
            let empty = Rule.version(of: [])
            try await store.setRules(of: owner, first, ifVersion: [empty], fixture.audit())
            let sequence = try await store.counts(at: fixture.start).sequence
            for versions in [[], [empty], [Rule.version(of: second)]] {
                await #expect(throws: StoreError.changed) {
                    try await store.setRules(of: owner, second, ifVersion: versions, fixture.audit())
                }
            }
            #expect(try await store.rules(of: owner) == first)
            #expect(try await store.counts(at: fixture.start).sequence == sequence)
            try await store.setRules(of: owner, second, ifVersion: [empty, Rule.version(of: first)], fixture.audit())
            #expect(try await store.rules(of: owner) == second)
            // Of concurrent requests that replace the same list, one succeeds.
            let version = Rule.version(of: second)
            let replacements = (0..<8).map { [rule(owner, $0, fixture)] }
            let replaced = await withTaskGroup(of: Bool.self) { group in
                for rules in replacements {
                    group.addTask {
                        (try? await store.setRules(of: owner, rules, ifVersion: [version], fixture.audit())) != nil
                    }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(replaced == 1)
        }
    }

    @Test(
        "Rules that are removed in parallel are all removed, and the others keep their IDs",
        arguments: StoreKind.allCases)
    func removal(_ kind: StoreKind) async throws {
        try await run(kind) { fixture, store, owner in
            let rules = (0..<10).map { rule(owner, $0, fixture) }
            try await store.setRules(of: owner, rules, fixture.audit())
            try await withThrowingTaskGroup(of: Void.self) { group in
                for rule in rules[..<8] {
                    group.addTask { _ = try await store.remove(rule: rule.id, of: owner, fixture.audit()) }
                }
                try await group.waitForAll()
            }
            #expect(try await store.rules(of: owner) == Array(rules[8...]))
            let other = Rule.Owner.user(try await fixture.user("ben").id)
            for (id, owner) in [(rules[0].id, owner), (rules[8].id, other)] {
                await #expect(throws: StoreError.notFound) {
                    _ = try await store.remove(rule: id, of: owner, fixture.audit())
                }
            }
            #expect(try await store.remove(rule: rules[9].id, of: owner, fixture.audit()) == [rules[8]])
        }
    }

    @Test("The version of a list depends on its rules and on their order")
    func version() async throws {
        let fixture = StoreFixture(try GatewayStore.inMemory())
        let owner = Rule.Owner.user(fixture.id())
        let (one, two) = (rule(owner, 1, fixture), rule(owner, 1, fixture))
        let versions = [[], [one], [two], [one, two], [two, one]].map { Rule.version(of: $0) }
        #expect(Set(versions).count == 5)
        #expect(Rule.version(of: [one, two]) == versions[3])
    }
}
