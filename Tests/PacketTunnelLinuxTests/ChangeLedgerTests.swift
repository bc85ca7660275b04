// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import Testing

@testable import PacketTunnelLinux

@Suite("The ledger of changes")
struct ChangeLedgerTests {
    let folder: JournalFolder
    let before: FakeNetwork.State
    let plan: [Change]

    init() throws {
        folder = try JournalFolder()
        before = try LinuxSamples.network()
        plan = try LinuxSamples.plan()
    }

    func ledger(
        _ network: FakeNetwork, _ name: String = "cvt0", owner: JournalOwner = LinuxSamples.dead
    ) throws -> ChangeLedger {
        try ChangeLedger(name: name, directory: folder.directory, system: network, owner: owner)
    }

    @Test("Changes are undone in reverse order, and the journal is deleted")
    func wholeLife() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        #expect(network.state != before)
        #expect(network.state.rules.count == 3)
        #expect(folder.files == ["cvt0.journal"])
        let made = network.log.count
        try ledger.undoAll()
        #expect(network.state == before)
        #expect(folder.files.isEmpty)
        #expect(network.log.last == .undo(.firewall(LinuxSamples.table)), "the firewall goes last")
        #expect(network.log.count == 2 * made)
    }

    @Test("A refused firewall is not recorded as made, and the rest is applied and undone without it")
    func refusedFirewall() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        let firewall = Change.firewall(LinuxSamples.table)
        // A system that refuses to make the table refuses to delete it, too.
        network.failing = { $0 == .make(firewall) || $0 == .undo(firewall) }
        #expect(throws: LinuxNetworkError.self) { try ledger.apply(plan) }
        #expect(network.state == before && ledger.made.isEmpty)
        #expect(ledger.discardFailed(firewall))
        let rest = plan.filter { !$0.isFirewall }
        try ledger.apply(rest)
        #expect(network.state.rules.count == 3 && network.state.tables.isEmpty)
        #expect(try folder.directory.read("cvt0")?.pending.contains { $0.change.isFirewall } == false)
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test("A firewall that was made is not discarded when a later step fails")
    func madeFirewall() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        network.failing = { if case .make(.rule) = $0 { true } else { false } }
        #expect(throws: LinuxNetworkError.self) { try ledger.apply(plan) }
        #expect(!ledger.discardFailed(.firewall(LinuxSamples.table)))
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test("If a table cannot replace the one that is loaded, neither is discarded")
    func refusedReplacement() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        let other = Change.firewall(FirewallTable(name: LinuxSamples.table.name, body: "  chain guard { accept }\n"))
        network.failing = { $0 == .make(other) }
        #expect(throws: LinuxNetworkError.self) { try ledger.apply(plan.filter { !$0.isFirewall } + [other]) }
        #expect(!ledger.discardFailed(other))
        #expect(ledger.made.contains(.firewall(LinuxSamples.table)))
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test("Thousands of routes are looked up together, and written down before the first is made")
    func manyRoutes() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        let routes: [Change] = (0..<5_000).compactMap { number in
            IPPrefix(.v4(0x0b00_0000 + UInt32(number) << 8), length: 24).map { .route(Route(to: $0, interface: 7)) }
        }
        network.life = (1_000, false)
        #expect(throws: FakeNetwork.death) { try ledger.apply(routes) }
        #expect(network.questions == 1)
        #expect(try folder.directory.read("cvt0")?.pending.count == routes.count)
        network.life = (.max, false)
        try ledger.apply(routes)
        #expect(network.state.routes.count == before.routes.count + routes.count)
        let asked = network.questions
        try ledger.apply(routes)
        #expect(network.questions == asked, "all are there")
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test(
        "Only the entries of the name servers are synced to the disk: before they are set, and after they are removed")
    func syncs() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        var synced: [Bool] = []
        ledger.journal.sync = { _ in
            synced.append(network.state.resolver.isEmpty)
            return true
        }
        try ledger.apply(plan.filter { !$0.isResolver })
        try ledger.journal.record(LinuxSamples.dead, folder.directory.read("cvt0")?.pending ?? [])
        #expect(synced.isEmpty, "the kernel loses these changes together with the entries")
        try ledger.apply(plan)
        #expect(synced == [true])
        #expect(try folder.directory.read("cvt0")?.pending.contains(where: \.change.isResolver) == true)
        try ledger.journal.record(LinuxSamples.dead, folder.directory.read("cvt0")?.pending ?? [])
        #expect(synced.count == 2, "a rewritten journal is synced before it replaces the file")
        try ledger.undoAll()
        #expect(synced == [true, false, true], "a later start must not restore them again")
        #expect(network.state == before)
    }

    @Test("Name servers are not set if their entry cannot be synced to the disk")
    func unsynced() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        ledger.journal.sync = { _ in false }
        #expect(throws: LinuxNetworkError.self) { try ledger.apply(plan) }
        #expect(network.state.resolver.isEmpty)
        #expect(network.state.rules.count == 3, "the other changes precede the name servers")
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test(
        "A held policy survives cleaning up, unless it was to last only until the tunnel's end",
        arguments: [true, false])
    func held(_ isUntilReleased: Bool) throws {
        let network = FakeNetwork(before)
        try ledger(network).apply(plan)
        let held = HeldPolicy(policy: .enforcedRoutes, isUntilReleased: isUntilReleased)
        try folder.directory.hold(held, "cvt0")
        #expect(try folder.directory.heldPolicy("cvt0") == held)
        let undone = try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
        #expect(undone.contains("firewall table culvert_cvt0") == !isUntilReleased)
        #expect(network.state.tables.isEmpty == !isUntilReleased)
        #expect(try folder.directory.heldPolicy("cvt0") == (isUntilReleased ? held : nil))
        folder.directory.release("cvt0")
        _ = try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
        #expect(network.state == before)
        #expect(folder.files.isEmpty)
    }

    @Test("A held policy that cannot be read is everything, until it is released")
    func heldUnreadable() throws {
        try folder.directory.hold(HeldPolicy(policy: .enforcedRoutes, isUntilReleased: false), "cvt0")
        for text in ["", "enforcedRoutes", "nonsense until-down", "a b c"] {
            try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder.directory.path)/cvt0.guard"))
            #expect(
                try folder.directory.heldPolicy("cvt0") == HeldPolicy(policy: .everything, isUntilReleased: true),
                "\(text)")
        }
    }

    @Test("An operation that fails leaves the rest to be undone")
    func failure() throws {
        for index in plan.indices {
            let network = FakeNetwork(before)
            let ledger = try ledger(network)
            var count = 0
            network.failing = { _ in
                count += 1
                return count == index + 1
            }
            #expect(throws: LinuxNetworkError.self) { try ledger.apply(plan) }
            network.failing = { _ in false }
            try ledger.undoAll()
            #expect(network.state == before)
        }
    }

    @Test("A step that failed is not taken for made: the same plan makes it")
    func failedOnce() throws {
        for index in plan.indices {
            let network = FakeNetwork(before)
            let ledger = try ledger(network)
            var count = 0
            network.failing = { _ in
                count += 1
                return count == index + 1
            }
            #expect(throws: LinuxNetworkError.self) { try ledger.apply(plan) }
            network.failing = { _ in false }
            try ledger.apply(plan)
            #expect(try ledger.undone(of: plan).isEmpty, "after step \(index) had failed")
            try ledger.undoAll()
            #expect(network.state == before)
        }
    }

    @Test("Steps that are made while the firewall is loaded are journalled, and undone in the end")
    func madeMeanwhile() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        let rule = Change.rule(.prohibition(isIPv6: false, priority: 5, mark: 51_820))
        network.failing = { operation in
            // As long as nft is at work.
            if case .make(.firewall) = operation { #expect(ledger.repair([rule]).made == [rule]) }
            return false
        }
        try ledger.apply(plan + [rule])
        network.failing = { _ in false }
        #expect(try ledger.undone(of: plan + [rule]).isEmpty)
        #expect(network.state.rules.count == 4)
        #expect(try folder.directory.read("cvt0")?.pending.count == plan.count + 1)
        try ledger.remove([rule])
        #expect(network.state.rules.count == 3)
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test("An error names at most eight steps that were not undone")
    func shortError() {
        let error = LinuxNetworkError(.incompleteUndo(steps: (0..<5000).map { "route \($0)" }))
        #expect(error.description.contains("route 0; ") && error.description.contains("; and 4992 more"))
        #expect(error.description.utf8.count < 500)
    }

    @Test("A change that cannot be undone does not stop the others, is reported, and kept for another try")
    func incompleteUndo() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        network.failing = { if case .undo(.rule) = $0 { true } else { false } }
        #expect(throws: LinuxNetworkError.self) { try ledger.undoAll() }
        #expect(network.state.routes == before.routes)
        #expect(network.state.rules.count == 3)
        #expect(folder.files == ["cvt0.journal"])
        network.failing = { _ in false }
        try ledger.undoAll()
        #expect(network.state == before)
        #expect(folder.files.isEmpty)
    }

    @Test("New settings change only what differs, and the firewall and the name servers never go in between")
    func update() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        let made = network.log.count
        var dns = try LinuxSamples.dns()
        dns.searchDomains = ["example.net"]
        let added = Route(to: try IPPrefix("10.77.0.0/16"), interface: 7)
        let table = FirewallTable(name: LinuxSamples.table.name, body: "other")
        var changed = plan.filter { step in
            switch step {
            case .firewall, .resolver: false
            case .route(let route): route.table != Route.mainTable
            default: true
            }
        }
        changed += [
            .route(added), .firewall(table),
            .resolver(ResolverPlan(interface: LinuxSamples.interface, manager: .resolved, settings: dns)),
        ]
        try ledger.apply(changed)
        let operations = network.log[made...]
        #expect(operations.count == 4)
        #expect(operations.first == .make(.firewall(table)))
        #expect(network.state.tables == [table.name: "other"])
        #expect(network.state.resolver["cvt0"] == dns)
        let replaced = FakeNetwork.RouteKey(Route(to: try IPPrefix("10.55.0.0/16"), interface: 2))
        #expect(network.state.routes[replaced] == before.routes[replaced], "the foreign route is back")
        try ledger.apply(changed)
        #expect(network.log.count == made + 4, "nothing to do")
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test("The name of a mark's chain is read back, and other chains are not marks")
    func marks() {
        for mark in [(false, 0), (true, 7), (true, UInt32.max)] {
            let mark = ForwardingMark(isIPv6: mark.0, newestInterface: mark.1)
            #expect(ForwardingMark(chain: mark.chain) == mark)
        }
        for chain in ["forwarding", "forwards4-", "forwards4-x", "forwards5-1", "forwards6-4294967296"] {
            #expect(ForwardingMark(chain: chain) == nil, "\(chain)")
        }
    }

    @Test(
        "Invalid interface names and paths are refused",
        arguments: ["", ".", "..", "a/b", "é", "1234567890123456"])
    func names(_ name: String) throws {
        #expect(throws: LinuxNetworkError(.invalidTunnelName(name))) { try ledger(FakeNetwork(before), name) }
    }
}
