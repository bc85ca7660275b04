// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Deadline queue")
struct DeadlineQueueTests {
    @Test("Deadlines come out in order, equal ones by id, and only once they are due")
    func order() {
        var queue = DeadlineQueue()
        #expect(queue.earliest == nil)
        for (id, deadline) in [(4, 30), (1, 10), (9, 20), (0, 20), (7, 40)] as [(Int32, Int64)] {
            queue.set(id, deadline)
        }
        #expect(queue.count == 5)
        #expect(queue.earliest?.id == 1)
        #expect(queue.earliest?.deadline == 10)
        #expect(queue.popExpired(9) == nil)
        #expect(queue.popExpired(10) == 1)
        #expect(queue.popExpired(10) == nil)
        #expect([queue.popExpired(100), queue.popExpired(100), queue.popExpired(100)] == [0, 9, 4])
        #expect(queue.popExpired(.max) == 7)
        #expect(queue.popExpired(.max) == nil)
        #expect(queue.count == 0)
    }

    @Test("Setting moves an entry, and an ID is present at most once")
    func moving() {
        var queue = DeadlineQueue()
        queue.set(3, 100)
        queue.set(5, 50)
        queue.set(3, 10)
        #expect(queue.count == 2)
        #expect(queue.earliest?.id == 3)
        queue.set(3, 500)
        #expect(queue.earliest?.id == 5)
        #expect(queue.deadline(of: 3) == 500)
        queue.remove(5)
        queue.remove(5)
        #expect(queue.deadline(of: 5) == nil)
        #expect(queue.count == 1)
        queue.set(3, .min)
        #expect(queue.popExpired(.min) == 3)
    }

    @Test("Ids that are not there are ignored")
    func unknownIDs() {
        var queue = DeadlineQueue()
        queue.set(2, 1)
        for id in [-1, 0, 3, .max] as [Int32] {
            queue.remove(id)
            #expect(queue.deadline(of: id) == nil)
        }
        #expect(queue.count == 1)
    }

    @Test("Random operations agree with a sorted list", arguments: [21, 22, 23, 24] as [UInt64])
    func againstReference(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = DeadlineQueue()
        var reference: [Int32: Int64] = [:]
        var now: Int64 = 0
        var differences = 0
        for _ in 0..<5_000 {
            let id = Int32(random.int(in: 0..<120))
            switch random.int(in: 0..<10) {
            case 0..<6:
                let deadline = now + Int64(random.int(in: 0...50))
                queue.set(id, deadline)
                reference[id] = deadline
            case 6..<8:
                queue.remove(id)
                reference[id] = nil
            default:
                now += Int64(random.int(in: 0...5))
                let due = reference.filter { $0.value <= now }.min { ($0.value, $0.key) < ($1.value, $1.key) }
                if queue.popExpired(now) != due?.key { differences += 1 }
                if let due { reference[due.key] = nil }
            }
            if queue.count != reference.count || queue.earliest?.deadline != reference.values.min() { differences += 1 }
            if queue.deadline(of: id) != reference[id] { differences += 1 }
        }
        #expect(differences == 0)
    }
}
