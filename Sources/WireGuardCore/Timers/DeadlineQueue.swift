// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The deadlines of many timers, earliest first. It is a binary heap over small integer IDs, each of which has at most
/// one deadline.
///
/// Setting, moving and removing a deadline take time logarithmic in the number of deadlines; reading takes constant
/// time. Equal deadlines are returned in the order of their IDs, so that runs are reproducible.
package struct DeadlineQueue: ~Copyable, Sendable {
    private struct Entry {
        var deadline: Int64
        var id: Int32

        static func < (a: Entry, b: Entry) -> Bool {
            a.deadline != b.deadline ? a.deadline < b.deadline : a.id < b.id
        }
    }

    private var heap = BlockArray<Entry>()
    /// The heap position of each id, or -1.
    private var positions = BlockArray<Int32>()

    /// An empty queue.
    package init() {}

    /// The number of deadlines.
    package var count: Int { heap.count }

    /// The earliest deadline, in nanoseconds, and its ID.
    package var earliest: (id: Int32, deadline: Int64)? {
        heap.count > 0 ? (heap[0].id, heap[0].deadline) : nil
    }

    /// The deadline of an id; `nil` if it has none.
    package func deadline(of id: Int32) -> Int64? {
        position(of: id).map { heap[$0].deadline }
    }

    /// Sets or replaces the deadline of an ID. IDs are small numbers from zero.
    package mutating func set(_ id: Int32, _ deadline: Int64) {
        precondition(id >= 0, "an id is never negative")
        let entry = Entry(deadline: deadline, id: id)
        if let position = position(of: id) {
            settle(entry, at: position)
            return
        }
        positions.extend(to: Int(id) + 1, with: -1)
        heap.append(entry)
        settle(entry, at: heap.count - 1)
    }

    /// Removes the deadline of an ID, if it has one.
    package mutating func remove(_ id: Int32) {
        guard let position = position(of: id) else { return }
        positions[Int(id)] = -1
        let last = heap.removeLast()
        if position < heap.count { settle(last, at: position) }
    }

    /// Removes the earliest deadline if it is not after `now`, and returns its ID.
    package mutating func popExpired(_ now: Int64) -> Int32? {
        guard let first = earliest, first.deadline <= now else { return nil }
        remove(first.id)
        return first.id
    }

    private func position(of id: Int32) -> Int? {
        guard id >= 0, Int(id) < positions.count, positions[Int(id)] >= 0 else { return nil }
        return Int(positions[Int(id)])
    }

    /// Moves `entry` up or down from the hole at `position` to its place in the heap.
    private mutating func settle(_ entry: Entry, at position: Int) {
        var hole = position
        while hole > 0 {
            let parent = (hole - 1) / 2
            guard entry < heap[parent] else { break }
            put(heap[parent], at: hole)
            hole = parent
        }
        while true {
            var child = hole * 2 + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1] < heap[child] { child += 1 }
            guard heap[child] < entry else { break }
            put(heap[child], at: hole)
            hole = child
        }
        put(entry, at: hole)
    }

    private mutating func put(_ entry: Entry, at position: Int) {
        heap[position] = entry
        positions[Int(entry.id)] = Int32(truncatingIfNeeded: position)
    }
}
