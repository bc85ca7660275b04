// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Testing

@testable import PacketTunnelLinux

@Suite("One type for a change and three types give the same operations")
struct EquivalenceTests {
    /// A tunnel's ledgers, before and now.
    private struct Twin {
        let before: BeforeLedger
        let now: ChangeLedger
    }

    private struct Random: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state ^ state >> 29
        }
    }

    @Test("Random plans, repairs, failures and ends have the same operations", arguments: 0..<200)
    func random(_ seed: Int) throws {
        var random = Random(state: UInt64(seed + 1))
        let (start, folder) = (try LinuxSamples.network(), try JournalFolder())
        let (before, now, journals) = (BeforeNetwork(start), FakeNetwork(start), BeforeJournals())
        let twins = try ["cvt0", "cvt1"].map { name in
            Twin(
                before: BeforeLedger(name: name, journals: journals, system: before),
                now: try ChangeLedger(name: name, directory: folder.directory, system: now, owner: .current))
        }
        let pool = try LinuxSamples.plan() + Self.more()
        var plans: [[Change]] = [[], []]
        for _ in 0..<40 {
            let index = Int.random(in: 0...1, using: &random)
            let twin = twins[index]
            // The tunnels share settings and name servers only, as two tunnels do.
            let own = pool.enumerated().filter { number, change in
                number % 2 == index || change.isShared(with: change)
            }.map(\.element)
            let some = own.filter { _ in Bool.random(using: &random) }
            let fails = Int.random(in: 0..<12, using: &random)
            (before.failing, now.failing) = (
                Self.failing(at: fails) { $0.words != nil }, Self.failing(at: fails) { $0.words != nil }
            )
            let (old, new): (Bool, Bool)
            switch Int.random(in: 0..<7, using: &random) {
            case 0, 1, 2:
                (old, new) = (
                    Self.isDone { try twin.before.apply(some.map(\.step)) }, Self.isDone { try twin.now.apply(some) }
                )
                plans[index] = some
            case 3:
                let changes = some.filter { $0.isRoute }
                (old, new) = (
                    Self.isDone { try twin.before.add(changes.map(\.step)) }, Self.isDone { try twin.now.add(changes) }
                )
            case 4:
                (old, new) = (
                    Self.isDone { try twin.before.remove(some.map(\.step)) }, Self.isDone { try twin.now.remove(some) }
                )
            case 5:
                before.state.rules = start.rules
                now.state.rules = start.rules
                before.state.routes = start.routes
                now.state.routes = start.routes
                let undone = try twin.now.undone(of: plans[index])
                #expect(try twin.before.undone(of: plans[index].map(\.step)) == undone.map(\.step))
                let (first, second) = (twin.before.repair(undone.map(\.step)), twin.now.repair(undone))
                #expect(first.made == second.made.map(\.step))
                #expect(first.failures.map(\.step) == second.failures.map(\.change.step))
                (old, new) = (true, true)
            default:
                (old, new) = (
                    Self.isDone { try twin.before.suspend(some.map(\.step)) },
                    Self.isDone { try twin.now.suspend(some) }
                )
            }
            #expect(old == new)
            let (words, others) = (before.log.compactMap(\.words), now.log.compactMap(\.words))
            try #require(before.state == now.state && words == others, "\(words.suffix(5)) \(others.suffix(5))")
        }
        (before.failing, now.failing) = ({ _ in false }, { _ in false })
        for twin in twins {
            try twin.before.undoAll()
            try twin.now.undoAll()
        }
        #expect(before.log.compactMap(\.words) == now.log.compactMap(\.words))
        #expect(before.state == now.state && folder.files.isEmpty)
    }

    private static func failing<Operation>(
        at index: Int, _ counts: @escaping (Operation) -> Bool
    ) -> (Operation) -> Bool {
        var count = 0
        return { operation in
            guard counts(operation) else { return false }
            count += 1
            return count == index + 1
        }
    }

    private static func isDone(_ body: () throws -> Void) -> Bool {
        do { try body() } catch { return false }
        return true
    }

    private static func more() throws -> [Change] {
        var changes: [Change] = [
            .firewall(FirewallTable(name: LinuxSamples.table.name, body: "another")),
            .firewall(FirewallTable(name: "culvert_cvt1", body: "a third")),
            .link(LinuxSamples.interface, mtu: 1280),
            .setting(path: "/proc/sys/net/ipv4/ip_forward", value: "1"),
        ]
        for number in 0..<12 {
            changes.append(.route(Route(to: try IPPrefix("10.55.\(number).0/24"), interface: 7)))
            changes.append(.rule(PolicyRule(isIPv6: true, priority: UInt32(100 + number), table: 7)))
        }
        return changes
    }
}

extension Change {
    /// The change as it was before.
    fileprivate var step: NetworkStep {
        switch self {
        case .interface(let name): .interface(name: name)
        case .address(let address, let interface): .address(address, interface)
        case .link(let interface, let mtu): .link(interface, mtu: mtu)
        case .route(let route): .route(route)
        case .rule(let rule): .rule(rule)
        case .setting(let path, let value): .setting(path: path, value: value)
        case .firewall(let table): .firewall(table)
        case .resolver(let plan): .resolver(plan)
        case .number(let number): .interface(name: "number \(number)")
        }
    }
}

extension FakeNetwork.Operation {
    /// The operation in words; `nil` for one that does nothing.
    fileprivate var words: String? {
        switch self {
        case .make(.interface), .make(.number), .undo(.interface), .undo(.number), .undo(.link): nil
        case .make(.address(let address, let interface)): "add \(address) \(interface)"
        case .undo(.address(let address, let interface)): "remove \(address) \(interface)"
        case .make(.link(let interface, let mtu)): "up \(interface) \(mtu)"
        case .make(.route(let route)): "add \(route)"
        case .undo(.route(let route)): "remove \(route)"
        case .make(.rule(let rule)): "add \(rule)"
        case .undo(.rule(let rule)): "remove \(rule)"
        case .make(.setting(let path, let value)): "write \(path) \(value)"
        case .undo(.setting(let path, _)): "restore \(path)"
        case .make(.firewall(let table)): "load \(table.name) \(table.body)"
        case .undo(.firewall(let table)): "remove \(table.name)"
        case .make(.resolver(let plan)): "set \(plan.interface)"
        case .undo(.resolver(let plan)): "clear \(plan.interface)"
        }
    }
}

extension NetworkOperation {
    /// The operation in words; `nil` for one that does nothing.
    fileprivate var words: String? {
        switch self {
        case .none: nil
        case .addAddress(let address, let interface): "add \(address) \(interface)"
        case .removeAddress(let address, let interface): "remove \(address) \(interface)"
        case .bringUp(let interface, let mtu): "up \(interface) \(mtu)"
        case .addRoute(let route): "add \(route)"
        case .removeRoute(let route), .restoreRoute(_, inPlaceOf: let route): "remove \(route)"
        case .addRule(let rule): "add \(rule)"
        case .removeRule(let rule): "remove \(rule)"
        case .writeSetting(let path, let value): "write \(path) \(value)"
        case .restoreSetting(let path, _, _): "restore \(path)"
        case .loadTable(let table): "load \(table.name) \(table.body)"
        case .removeTable(let name): "remove \(name)"
        case .setResolver(let plan, _): "set \(plan.interface)"
        case .clearResolver(let record): "clear \(record.interface)"
        }
    }
}
