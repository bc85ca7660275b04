// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import Testing

@testable import PacketTunnelLinux

@Suite("The ledger of changes")
struct ChangeLedgerTests {
    private let folder: JournalFolder
    private let before: FakeNetwork.State
    private let plan: [Change]

    init() throws {
        folder = try JournalFolder()
        before = try LinuxSamples.network()
        plan = try LinuxSamples.plan()
    }

    private func ledger(
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

    @Test("The journal is readable by its owner only, and so is its folder")
    func permissions() throws {
        let ledger = try ledger(FakeNetwork(before))
        try ledger.apply(plan)
        let manager = FileManager.default
        let folderMode = try manager.attributesOfItem(atPath: folder.directory.path)[.posixPermissions] as? Int
        #expect(folderMode == 0o700)
        let file = "\(folder.directory.path)/cvt0.journal"
        #expect(try manager.attributesOfItem(atPath: file)[.posixPermissions] as? Int == 0o600)
    }

    @Test("A folder that other users can write to is refused")
    func untrustedFolder() throws {
        try folder.directory.prepare()
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.directory.path)
        #expect(throws: LinuxNetworkError.self) { try ledger(FakeNetwork(before)) }
    }

    @Test("A journal that is a link, or belongs to another user, is not read, and nothing in it is undone")
    func untrustedJournal() throws {
        let network = FakeNetwork(before)
        try ledger(network).apply(plan)
        let made = network.state
        let (file, elsewhere) = ("\(folder.directory.path)/cvt0.journal", try JournalFolder())
        try elsewhere.directory.prepare()
        let target = "\(elsewhere.directory.path)/target"
        let manager = FileManager.default
        try manager.moveItem(atPath: file, toPath: target)
        try manager.createSymbolicLink(atPath: file, withDestinationPath: target)
        func refuses() {
            #expect(throws: LinuxNetworkError.self) {
                try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
            }
            #expect(throws: LinuxNetworkError.self) { try ledger(network) }
            #expect(folder.directory.pendingChanges(except: "").isEmpty)
            #expect(network.state == made)
        }
        refuses()
        try manager.removeItem(atPath: file)
        try manager.moveItem(atPath: target, toPath: file)
        // Only root can change the owner of a file.
        if geteuid() == 0 {
            let isGiven = unsafe chown(file, 65_534, gid_t.max) == 0
            #expect(isGiven)
            refuses()
            unsafe _ = chown(file, 0, gid_t.max)
        }
        #expect(try !ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network).isEmpty)
        #expect(network.state == before)
    }

    @Test("A process that ends at any operation, before or after it, leaves nothing that cleaning up does not undo")
    func crashWhileMaking() throws {
        let count = plan.count
        for operations in 1...count {
            for doesLast in [false, true] {
                let network = FakeNetwork(before)
                network.life = (operations, doesLast)
                let ledger = try ledger(network)
                #expect(throws: FakeNetwork.death) { try ledger.apply(plan) }
                network.life = (.max, false)
                let summary = try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
                // Routes that follow each other are written down together.
                #expect((operations...count).contains(summary.count))
                #expect(network.state == before, "operation \(operations), done: \(doesLast)")
                #expect(folder.files.isEmpty)
            }
        }
    }

    @Test("So does one that ends while it undoes, or cleans up")
    func crashWhileUndoing() throws {
        for operations in 1...plan.count {
            for doesLast in [false, true] {
                let network = FakeNetwork(before)
                let ledger = try ledger(network)
                try ledger.apply(plan)
                network.life = (operations, doesLast)
                #expect(throws: LinuxNetworkError.self) { try ledger.undoAll() }
                // Once more at the same point, in cleaning up.
                network.life = (operations, doesLast)
                _ = try? ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
                network.life = (.max, false)
                _ = try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
                #expect(network.state == before, "operation \(operations), done: \(doesLast)")
                #expect(folder.files.isEmpty)
            }
        }
    }

    @Test("A truncated journal is cleaned up as far as it is complete")
    func tornJournal() throws {
        let network = FakeNetwork(before)
        try ledger(network).apply(plan)
        let text = try folder.bytes("cvt0")
        let lineEnds = text.indices.filter { text[$0] == UInt8(ascii: "\n") }
        for cut in stride(from: lineEnds[1], through: text.count, by: 3) {
            // A change whose entry is incomplete was not made.
            let wholeLines = lineEnds.count { $0 <= cut } - 1
            let other = FakeNetwork(before)
            let scratch = try JournalFolder()
            let twin = try ChangeLedger(
                name: "cvt0", directory: scratch.directory, system: other, owner: LinuxSamples.dead)
            try twin.apply(Array(plan.prefix(wholeLines)))
            try scratch.write(Array(text.prefix(cut)), "cvt0")
            _ = try ChangeLedger.cleanUp(name: "cvt0", directory: scratch.directory, system: other)
            #expect(other.state == before, "cut at \(cut)")
        }
    }

    @Test("The next start cleans up before it makes anything")
    func restart() throws {
        let network = FakeNetwork(before)
        try ledger(network).apply(plan)
        let second = try ledger(network)
        #expect(network.state == before)
        try second.apply(plan)
        try second.undoAll()
        #expect(network.state == before)
    }

    @Test("A start may keep the firewall that a crash has left, without a moment in between")
    func keptFirewall() throws {
        let network = FakeNetwork(before)
        try ledger(network).apply(plan)
        let made = network.log.count
        let second = try ChangeLedger(
            name: "cvt0", directory: folder.directory, system: network, owner: LinuxSamples.dead,
            keepsFirewall: true)
        #expect(network.state.tables.count == 1)
        #expect(network.state.routes == before.routes)
        try second.apply(plan)
        #expect(
            !network.log[made...].contains(.undo(.firewall(FirewallTable(name: LinuxSamples.table.name, body: "")))))
        // It crashes as well.
        _ = try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
        #expect(network.state == before)
        #expect(folder.files.isEmpty)
    }

    @Test("Without settings only the firewall may stay, until everything is undone")
    func blocked() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        try ledger.apply([.firewall(LinuxSamples.table)])
        #expect(network.state.tables.count == 1)
        network.state.tables = [:]
        #expect(network.state == before)
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test("The journal of a process that lives is refused, by cleaning up and by a start")
    func livingOwner() throws {
        let network = FakeNetwork(before)
        let first = try ledger(network, owner: .current)
        try first.apply(plan)
        let error = LinuxNetworkError(.tunnelRunning(name: "cvt0", processID: getpid()))
        #expect(throws: error) { try ledger(network) }
        #expect(throws: error) {
            try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
        }
        #expect(network.state != before)
        try first.undoAll()
        #expect(network.state == before)
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

    @Test("A journal on a full disk does not stop the rules that hold packets back, and lists them once there is space")
    func fullDisk() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        try ledger.apply(plan)
        let rule = Change.rule(.prohibition(isIPv6: false, priority: 5, mark: 51_820))
        ledger.journal.refusal = ENOSPC
        #expect(try ledger.holdBack(by: [rule]).isEmpty)
        #expect(network.state.rules.count == 4)
        #expect(try folder.directory.read("cvt0")?.pending.count == plan.count)
        network.state.rules = before.rules
        #expect(try ledger.holdBack(by: [rule]).isEmpty)
        #expect(network.state.rules.count == before.rules.count + 1)
        network.failing = { $0 == .make(rule) }
        network.state.rules = before.rules
        #expect(try ledger.holdBack(by: [rule]).map(\.change) == [rule])
        network.failing = { _ in false }
        #expect(try ledger.holdBack(by: [rule]).isEmpty)
        try ledger.apply(plan + [rule])
        #expect(try folder.directory.read("cvt0")?.pending.count == plan.count + 1)
        try ledger.remove([rule])
        try ledger.undoAll()
        #expect(network.state == before)
    }

    @Test("An error names at most eight steps that were not undone")
    func shortError() {
        let error = LinuxNetworkError(.incompleteUndo(steps: (0..<5000).map { "route \($0)" }))
        #expect(error.description.contains("route 0; ") && error.description.contains("; and 4992 more"))
        #expect(error.description.utf8.count < 500)
    }

    @Test("A journal stays short however often the network changes")
    func journalLength() throws {
        let network = FakeNetwork(before)
        let ledger = try ledger(network)
        var longest = 0
        for index in 0..<3000 {
            let route = Change.route(Route(to: try IPPrefix("10.\(index % 200).0.0/16"), interface: 7))
            try ledger.apply(plan + [route])
            if index % 100 == 0 {
                longest = max(longest, try Data(contentsOf: URL(fileURLWithPath: folder.directory.file("cvt0"))).count)
            }
        }
        #expect(longest > 100_000 && longest < 2 * ChangeJournal.growth, "\(longest) bytes")
        // The short journal lists every change that is still to be undone.
        #expect(
            try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network).count > plan.count / 2)
        #expect(network.state == before)
    }

    @Test("Tunnels that start at the same moment have different numbers")
    func numbers() throws {
        let network = FakeNetwork(before)
        var numbers: Set<UInt32> = []
        for index in 0..<4 {
            let ledger = try ledger(network, "cvt\(index)", owner: .current)
            let number = try ledger.reserve { others in
                #expect(others == numbers)
                return UInt32(51_820 + others.count)
            }
            numbers.insert(number)
            // It is kept until the tunnel's end.
            try ledger.apply(index == 0 ? plan : [])
            try ledger.apply([])
            #expect(try ledger.reserve { _ in 1 } == number)
        }
        #expect(numbers == [51_820, 51_821, 51_822, 51_823])
    }

    @Test("The number in a firewall that a crash has left stays with it")
    func numberOfKeptFirewall() throws {
        let network = FakeNetwork(before)
        let dead = try ledger(network)
        _ = try dead.reserve { _ in 51_820 }
        try dead.apply(plan)
        // Taken over, cleaned up under a guard, and taken over again: no other tunnel gets the number meanwhile.
        for _ in 0..<2 {
            let next = try ChangeLedger(
                name: "cvt0", directory: folder.directory, system: network, owner: LinuxSamples.dead,
                keepsFirewall: true)
            #expect(try next.reserve { _ in 1 } == 51_820)
            #expect(
                try ledger(network, "cvt1").reserve { others in others.contains(51_820) ? 51_821 : 51_820 } == 51_821)
            try folder.directory.hold(HeldPolicy(policy: .everything, isUntilReleased: true), "cvt0")
            _ = try ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
            _ = try ChangeLedger.cleanUp(name: "cvt1", directory: folder.directory, system: network)
            #expect(network.state.tables.count == 1)
        }
        folder.directory.release("cvt0")
        #expect(
            try !ChangeLedger.cleanUp(name: "cvt0", directory: folder.directory, system: network)
                .contains { $0.contains("51820") })
        #expect(folder.files.isEmpty)
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

    @Test("A change that another process replaced is left alone")
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

    @Test("A start undoes the changes that the kernel shows of a killed server whose journal was deleted")
    func remains() throws {
        let network = FakeNetwork(before)
        let step = Change.setting(path: LinuxSamples.setting, value: "1")
        network.state.settings[LinuxSamples.setting] = "1"
        network.state.tables[LinuxSamples.table.name] = LinuxSamples.table.body
        network.remains["cvt0"] = [(.firewall(LinuxSamples.table), .nothing), (step, .setting("0"))]
        let ledger = try ledger(network)
        #expect(network.log == [.undo(step), .undo(.firewall(LinuxSamples.table))])
        #expect(network.state == before)
        // The new server's own changes are undone to the value before the killed one.
        network.remains = [:]
        try ledger.apply([step])
        try ledger.undoAll()
        #expect(network.state == before)
        #expect(folder.files.isEmpty)
    }

    @Test("If such a change cannot be undone, the start fails, and the next one tries again")
    func remainsFail() throws {
        let network = FakeNetwork(before)
        let step = Change.setting(path: LinuxSamples.setting, value: "1")
        network.state.settings[LinuxSamples.setting] = "1"
        network.remains["cvt0"] = [(step, .setting("0"))]
        network.failing = { $0 == .undo(step) }
        #expect(throws: LinuxNetworkError.self) { _ = try ledger(network) }
        network.failing = { _ in false }
        network.remains = [:]
        _ = try ledger(network)
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

    @Test("A setting of two servers with one folder of journals is suspended once neither has its firewall")
    func bothLost() throws {
        let network = FakeNetwork(before)
        let step = Change.setting(path: LinuxSamples.setting, value: "1")
        let ledgers = [try ledger(network, "cvt0"), try ledger(network, "cvt1")]
        for ledger in ledgers { try ledger.apply([step]) }
        network.servers = ["cvt1"]
        try ledgers[0].suspend([step])
        #expect(network.state.settings[LinuxSamples.setting] == "1")
        network.servers = []
        for ledger in ledgers {
            try ledger.suspend([step])
            #expect(network.state == before)
            try ledger.restore([step])
            #expect(network.state.settings[LinuxSamples.setting] == "1")
        }
        for ledger in ledgers { try ledger.undoAll() }
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
