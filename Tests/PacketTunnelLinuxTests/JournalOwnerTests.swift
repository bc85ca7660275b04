// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing
import TunnelIO
import TunnelSystem

@testable import PacketTunnelLinux

@Suite("A journal's owner", .timeLimit(.minutes(1)))
struct JournalOwnerTests {
    @Test("This process lives; one with its number that started at another time does not")
    func alive() {
        #expect(JournalOwner.current.isAlive())
        #expect(JournalOwner.current.startTime > 0)
        let other = JournalOwner(processID: getpid(), startTime: JournalOwner.current.startTime + 1)
        #expect(!other.isAlive())
        #expect(!LinuxSamples.dead.isAlive())
    }

    @Test(
        "A process whose name holds parentheses and spaces is read rightly; a zombie, one that exits and one that was killed are ending"
    )
    func status() throws {
        func read(_ start: String, flags: Int = 0x40_0000, thread: UInt64 = 0, whole: UInt64 = 0) -> ProcessRecord? {
            let fields = (4...52).map { $0 == 9 ? String(flags) : $0 == 22 ? "4711" : "0" }.joined(separator: " ")
            let signals = [("SigPnd", thread), ("ShdPnd", whole)].map { "\($0):\t00000000\(String($1, radix: 16))\n" }
            return ProcessRecord(
                stat: Array("\(start) \(fields)".utf8),
                status: Array("Name:\tShdPnd:\t1\n\(signals.joined())SigBlk:\t0\n".utf8))
        }
        #expect(read("12 (a ) R 1) S")?.startTime == 4711)
        #expect(read("12 (a ) R 1) S")?.isEnding == false)
        #expect(read("12 (a) Z", flags: 0x40_0004)?.isZombie == true)
        #expect(read("12 (a) Z", flags: 0x40_0004)?.isEnding == true)
        #expect(read("12 (a) R", flags: 0x40_0004)?.isEnding == true)
        #expect(read("12 (a) R", flags: 0x40_0400)?.isEnding == true)
        #expect(read("12 (a) S", thread: 0x100)?.isEnding == true)
        #expect(read("12 (a) R", whole: 0x100)?.isEnding == true)
        #expect(read("12 (a) S", thread: 0x4000, whole: 0x4000)?.isEnding == false)
        #expect(read("12 (a) S", flags: -1) == nil)
        let status = Array("SigPnd:\t0\nShdPnd:\t0\n".utf8)
        #expect(ProcessRecord(stat: Array("12 (a".utf8), status: status) == nil)
        #expect(ProcessRecord(stat: Array("12 (a) S 1 2 3".utf8), status: status) == nil)
        // Without the lines of signals a process that runs still does.
        let own = try SmallFile.read("/proc/self/stat") ?? []
        for lines in ["SigPnd:\t0\nShdPnd:\t0\n", "SigPnd:\t0\n", "ShdPnd:\tno\n", ""] {
            #expect(ProcessRecord(stat: own, status: Array(lines.utf8))?.isEnding == false)
        }
    }

    @Test("A process that was killed is not alive from that moment on")
    func killed() throws {
        for _ in 0..<50 {
            let child = try ChildProcess("/bin/sleep", arguments: ["sleep", "60"], environment: [])
            let record = try #require(ProcessRecord.read(child.id))
            let owner = JournalOwner(processID: child.id, startTime: record.startTime)
            #expect(owner.isAlive())
            kill(child.id, SIGKILL)
            #expect(!owner.isAlive())
            _ = child.wait(until: .max)
        }
    }
}
