// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Peer directory")
struct PeerDirectoryTests {
    @Test(
        "The directory agrees with a dictionary in any order of changes, even if many hashes are equal",
        arguments: [1, 16, 4_096, UInt32.max])
    func random(_ mostHash: UInt32) {
        var random = SeededGenerator(seed: UInt64(mostHash))
        var directory = PeerDirectory()
        var expected: [Int32: UInt32] = [:]
        var free = Array(Int32(0)..<600)
        for round in 0..<6_000 {
            // The table grows, then shrinks to nothing, then grows again.
            let grows = round / 1_500 % 2 == 0
            if random.int(in: 0..<4) == 0 ? !grows : grows, let slot = free.popLast() {
                let hash = UInt32(truncatingIfNeeded: random.next()) % mostHash
                directory.insert(slot, hash: hash)
                expected[slot] = hash
            } else if let slot = expected.keys.randomElement(using: &random), let hash = expected[slot] {
                directory.remove(slot, hash: hash)
                expected[slot] = nil
                free.append(slot)
            }
            guard round % 50 == 0 else { continue }
            #expect(directory.count == expected.count)
            var missing = 0
            for (slot, hash) in expected where directory.slot(hash: hash, where: { $0 == slot }) != slot {
                missing += 1
            }
            for slot in free where directory.slot(hash: 0, where: { $0 == slot }) != nil { missing += 1 }
            #expect(missing == 0)
        }
    }

    @Test("Each addition moves at most 16 positions and prepares at most 32, and none is left when the directory grows")
    func steps() {
        var random = SeededGenerator(seed: 1)
        var directory = PeerDirectory()
        var hashes: [UInt32] = []
        var (growths, most, mostPrepared, unfinished) = (0, 0, 0, 0)
        for slot in Int32(0)..<70_000 {
            let (before, unprepared) = (directory.remaining, directory.unprepared)
            let hash = UInt32(truncatingIfNeeded: random.next())
            directory.insert(slot, hash: hash)
            hashes.append(hash)
            if directory.remaining > before {
                growths += 1
                if before > 0 || unprepared > 0 { unfinished += 1 }
            } else {
                most = max(most, before - directory.remaining)
                mostPrepared = max(mostPrepared, unprepared - directory.unprepared)
            }
            // The oldest entry is the first to be moved.
            if directory.slot(hash: hashes[0], where: { $0 == 0 }) != 0 { unfinished += 1 }
        }
        #expect(growths >= 10 && unfinished == 0)
        #expect(most == PeerDirectory.step && mostPrepared == 2 * PeerDirectory.step)
        var missing = 0
        for slot in hashes.indices where directory.slot(hash: hashes[slot], where: { $0 == slot }) != Int32(slot) {
            missing += 1
        }
        #expect(missing == 0 && directory.remaining > 0)
    }

    @Test("A slot with another hash is not removed")
    func otherHash() {
        var directory = PeerDirectory()
        directory.insert(3, hash: 5)
        directory.remove(3, hash: 6)
        directory.remove(4, hash: 5)
        #expect(directory.count == 1 && directory.slot(hash: 5) { $0 == 3 } == 3)
        #expect(directory.slot(hash: 5) { _ in false } == nil)
    }
}
