// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Testing

@testable import PacketTunnelLinux

@Suite("A journal's text")
struct JournalLineTests {
    static func records() throws -> [JournalRecord] {
        let network = FakeNetwork(try LinuxSamples.network())
        var records: [JournalRecord] = [.owner(LinuxSamples.dead, version: ChangeJournal.version)]
        for (index, step) in try LinuxSamples.plan().enumerated() {
            guard let previous = network.previousState(step) else { continue }
            records.append(.entry(ChangeEntry(id: index, step.withoutBody, previous)))
        }
        return records + [.undone(id: 3)]
    }

    @Test("Every kind of entry is read as it was written, one line each")
    func roundTrip() throws {
        for record in try Self.records() {
            let line = try #require(JournalLine.encode(record))
            #expect(line.last == UInt8(ascii: "\n"))
            #expect(line.dropLast().allSatisfy { $0 != UInt8(ascii: "\n") })
            #expect(JournalLine.decode(line.dropLast()) == record)
        }
    }

    @Test(
        "A setting outside /proc/sys is rejected, even with a valid checksum",
        arguments: [
            "/etc/passwd", "/proc/sys", "/proc/sys/", "/proc/sys/../../etc/passwd", "/proc/sys/net/./x",
            "/proc/sys//net",
            "proc/sys/net", "/proc/sysrq-trigger", "",
        ])
    func settings(_ path: String) throws {
        let record = JournalRecord.entry(ChangeEntry(id: 1, .setting(path: path, value: "1"), .setting("0")))
        let contents = JournalLine.read(try #require(JournalLine.encode(record)))
        #expect(contents.pending.isEmpty && contents.damagedLines == 1)
    }

    @Test("The checksum is CRC-32 of IEEE 802.3")
    func checksum() {
        // The check value of the catalogue of CRC algorithms.
        #expect(JournalLine.checksum(Array("123456789".utf8)[...]) == 0xcbf4_3926)
    }

    @Test("A line that was cut at any byte does not count, and nothing before it is lost")
    func tornLines() throws {
        let records = try Self.records().dropLast()
        let lines = try records.map { try #require(JournalLine.encode($0)) }
        for last in 1..<lines.count {
            let whole = lines[..<last].flatMap { $0 }
            for cut in 0...lines[last].count {
                let contents = JournalLine.read(whole + lines[last].prefix(cut))
                // The line feed itself is not missed.
                let isWhole = cut >= lines[last].count - 1
                #expect(contents.pending.count == last - (isWhole ? 0 : 1))
                #expect(contents.owner == LinuxSamples.dead)
                #expect(contents.damagedLines == (isWhole || cut == 0 ? 0 : 1))
            }
        }
    }

    @Test("A changed byte makes its line not count, and no other")
    func damage() throws {
        let lines = try Self.records().dropLast().map { try #require(JournalLine.encode($0)) }
        let text = lines.flatMap { $0 }
        for index in text.indices where text[index] != UInt8(ascii: "\n") {
            var damaged = text
            damaged[index] ^= 0x01
            guard damaged[index] != UInt8(ascii: "\n") else { continue }
            let contents = JournalLine.read(damaged)
            // Hexadecimal digits of either case are the same number.
            let intact = contents.pending.count + (contents.owner == nil ? 0 : 1)
            #expect(intact == lines.count - 1, "byte \(index)")
        }
    }

    @Test("An undone change is not pending")
    func undone() throws {
        let text = try Self.records().flatMap { try #require(JournalLine.encode($0)) }
        let contents = JournalLine.read(text)
        #expect(contents.pending.count == (try LinuxSamples.plan().count) - 1)
        #expect(!contents.pending.contains { $0.id == 3 })
    }
}

extension Change {
    /// The change as a journal has it: a firewall's table by its name only.
    fileprivate var withoutBody: Change {
        guard case .firewall(let table) = self else { return self }
        return .firewall(FirewallTable(name: table.name, body: ""))
    }
}
