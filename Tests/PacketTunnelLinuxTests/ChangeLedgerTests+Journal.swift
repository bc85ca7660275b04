// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnel
import Testing

@testable import PacketTunnelLinux

/// The journal: its permissions, its size, and the cleanup after a crash.
extension ChangeLedgerTests {
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

    @Test("A journal stays short after any number of changes of the network")
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
        // The short journal lists every change that must still be undone.
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
        // Taken over, cleaned up under a guard, and taken over again: no other tunnel gets the number in this time.
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
}
