// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import Testing

@testable import PacketTunnelLinux

/// Repairs of changes that another process undid, and suspended changes.
extension ChangeLedgerTests {
    @Test("Changes that another process undid are made again, once and in order, and all are undone at the end")
    func restore() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        let made = network.state
        #expect(try ledger.undone(of: plan).isEmpty)
        network.state.tables = [:]
        network.state.rules = before.rules
        network.state.routes = before.routes
        network.state.addresses = [:]
        let undone = try ledger.undone(of: plan)
        #expect(try ledger.restore(undone) == undone)
        #expect(
            undone
                == plan.filter { step in
                    switch step {
                    case .interface, .link, .setting, .resolver: false
                    default: true
                    }
                })
        #expect(network.state == made)
        #expect(try ledger.undone(of: plan).isEmpty)
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test("Suspended changes are undone, restored like repaired ones, and undone at the end")
    func suspended() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        let made = network.state
        let setting = plan.filter { if case .setting = $0 { true } else { false } }
        try ledger.suspend(setting)
        var without = made
        without.settings = before.settings
        #expect(network.state == without)
        #expect(try ledger.undone(of: plan) == setting)
        #expect(try ledger.restore(setting) == setting)
        #expect(network.state == made)
        try ledger.suspend(setting)
        // The process that ends now leaves nothing.
        _ = try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
        #expect(network.state == before)
    }

    @Test("A change that was in effect before, and no longer is, is made and undone like the rest")
    func restoreWhatWasThere() throws {
        let network = FakeNetwork(before)
        network.state.settings[LinuxSamples.setting] = "1"
        let ledger = try ledger(network)
        try ledger.apply(plan)
        network.state.settings[LinuxSamples.setting] = "0"
        let undone = try ledger.undone(of: plan)
        #expect(undone == [.setting(path: LinuxSamples.setting, value: "1")])
        #expect(try ledger.restore(undone) == undone)
        #expect(network.state.settings[LinuxSamples.setting] == "1")
        try ledger.undoAll()
        #expect(network.state.settings[LinuxSamples.setting] == "0")
    }

    @Test("A repair does not fail if the change is in effect already")
    func restoredByOthers() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        network.state.rules = before.rules
        network.failing = { if case .make(.rule) = $0 { true } else { false } }
        network.failure = EEXIST
        let rules = plan.filter { if case .rule = $0 { true } else { false } }
        #expect(try ledger.undone(of: plan) == rules)
        #expect(try ledger.restore(rules).isEmpty, "it has made none of them")
        network.failure = EPERM
        #expect(throws: LinuxNetworkError.self) { try ledger.restore(rules) }
    }

    @Test("A step that cannot be restored does not stop the others")
    func repairsTheRest() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        let made = network.state
        network.state.addresses = [:]
        network.state.rules = before.rules
        network.state.routes = before.routes
        network.failing = { if case .make(.address(let address, _)) = $0 { address.isIPv6 } else { false } }
        let undone = try ledger.undone(of: plan)
        let repair = ledger.repair(undone)
        #expect(repair.failures.map(\.change) == [.address(try InterfaceAddress("fd00::2/64"), LinuxSamples.interface)])
        #expect(repair.made.count == undone.count - 1)
        #expect(network.state.rules == made.rules && network.state.routes == made.routes)
        network.failing = { _ in false }
        #expect(ledger.repair(try ledger.undone(of: plan)).failures.isEmpty)
        #expect(network.state == made)
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test("A change that is always undone is no longer repaired for a while after ten repairs")
    func contest() {
        var backoff = RepairBackoff()
        let step = Change.setting(path: LinuxSamples.setting, value: "1")
        func isMade(_ step: Change, at second: Int64) -> Bool {
            let now = second * 1_000_000_000
            guard !backoff.isPaused(step, at: now) else { return false }
            backoff.recordRepair(step, at: now)
            return true
        }
        for second in Int64(0)..<10 { #expect(isMade(step, at: second)) }
        #expect(!isMade(step, at: 10))
        #expect(!isMade(step, at: 38))
        #expect(isMade(.firewall(LinuxSamples.table), at: 38), "others are not concerned")
        // From then on every half a minute, and not ten times again.
        #expect(isMade(step, at: 39) && !isMade(step, at: 40) && !isMade(step, at: 68) && isMade(step, at: 69))
        // Until it was undisturbed for the same time again.
        for second in Int64(129)..<139 { #expect(isMade(step, at: second)) }
        #expect(!isMade(step, at: 139))
    }

    @Test("A change that another process replaced is not undone")
    func changedByOthers() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        network.state.settings[LinuxSamples.setting] = "2"
        try ledger.undoAll()
        #expect(network.state.settings[LinuxSamples.setting] == "2")
    }

    @Test(
        "A setting of two tunnels lasts until both have ended, in either order",
        arguments: [true, false])
    func sharedSetting(_ firstEndsFirst: Bool) throws {
        let network = FakeNetwork(before)
        let step = [Change.setting(path: LinuxSamples.setting, value: "1")]
        let first = try ledger(network, "one")
        try first.apply(step)
        let second = try ledger(network, "two")
        try second.apply(step)
        try (firstEndsFirst ? first : second).undoAll()
        #expect(network.state.settings[LinuxSamples.setting] == "1")
        try (firstEndsFirst ? second : first).undoAll()
        #expect(network.state == before)
    }

    @Test("A setting of two servers with one folder of journals is suspended once neither has its firewall")
    func bothLost() throws {
        let network = FakeNetwork(before)
        let step = Change.setting(path: LinuxSamples.setting, value: "1")
        let ledgers = [try ledger(network, "cvt0"), try ledger(network, "cvt1")]
        for ledger in ledgers { try ledger.apply([step]) }
        network.servers = ["cvt1"]
        #expect(try ledgers[0].suspend([step]) == [step])
        #expect(network.state.settings[LinuxSamples.setting] == "1")
        network.servers = []
        for ledger in ledgers {
            #expect(try ledger.suspend([step]).isEmpty)
            #expect(network.state == before)
            try ledger.restore([step])
            #expect(network.state.settings[LinuxSamples.setting] == "1")
        }
        for ledger in ledgers { try ledger.undoAll() }
        #expect(network.state == before)
    }

    @Test("A setting that a server with another folder of journals needs is neither restored nor suspended")
    func neededElsewhere() throws {
        let network = FakeNetwork(before)
        let step = Change.setting(path: LinuxSamples.setting, value: "1")
        let ledger = try ledger(network)
        try ledger.apply([step])
        network.servers = ["cvt0", "cvt1"]
        try ledger.suspend([step])
        #expect(network.state.settings[LinuxSamples.setting] == "1")
        try ledger.undoAll()
        #expect(network.state.settings[LinuxSamples.setting] == "1")
        #expect(folder.files.isEmpty)
        // The last one restores it.
        network.state = before
        network.servers = ["cvt0"]
        let last = try self.ledger(network)
        try last.apply([step])
        try last.undoAll()
        #expect(network.state == before)
    }
}
