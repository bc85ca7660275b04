// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The batches in progress of one lane and direction, oldest first. The lane plans them in the order of their arrival,
/// threads process them in any order, and ``oldest(waits:)`` returns them in the order of their arrival.
///
/// Only the lane's thread uses it. It allocates all memory in `init`.
final class BatchPipeline {
    private let slots: [BatchSlot]
    private let workers: BatchWorkers
    private var first = 0
    private(set) var count = 0

    /// The most batches in progress.
    static let depth = 4

    init(workers: BatchWorkers, makeSlot: () throws(TunnelIOError) -> BatchSlot) throws(TunnelIOError) {
        self.workers = workers
        var slots: [BatchSlot] = []
        for _ in 0..<Self.depth { slots.append(try makeSlot()) }
        self.slots = slots
    }

    var isEmpty: Bool { count == 0 }
    var isFull: Bool { count == Self.depth }

    /// The slot for the next batch; there must be one.
    var next: BatchSlot { slots[(first + count) % Self.depth] }

    /// Starts the planned batch in ``next``.
    /// - Parameter isLast: whether no other batch follows immediately. If so, no worker gets the batch: the lane has
    ///   nothing else to do and processes it.
    func submit(isLast: Bool) {
        let slot = next
        count += 1
        slot.offer()
        if !isLast { workers.offer(slot) }
    }

    /// Returns the oldest batch in progress if it is done. Otherwise finishes it first if `waits` is true, or returns
    /// `nil` if `waits` is false. Returns `nil` if no batch is in progress.
    func oldest(waits: Bool) -> BatchSlot? {
        guard count > 0 else { return nil }
        let slot = slots[first]
        if waits { slot.finish() }
        return slot.isDone ? slot : nil
    }

    /// Removes the oldest batch, so that its slot is free.
    func removeOldest() {
        slots[first].reset()
        first = (first + 1) % Self.depth
        count -= 1
    }

    // MARK: - Memory

    /// Whether a batch used more than this many bytes since ``forgetReach()``.
    func isBeyond(_ bytes: Int) -> Bool {
        slots.contains { $0.source.reach > bytes || ($0.sealed?.reach ?? 0) > bytes }
    }

    func forgetReach() {
        for slot in slots {
            slot.source.forgetReach()
            slot.sealed?.forgetReach()
        }
    }

    /// Returns memory to the system. No batch may be in progress.
    func releasePages(beyond bytes: Int) {
        for slot in slots {
            slot.source.releasePages(beyond: bytes)
            slot.sealed?.releasePages(beyond: bytes)
        }
    }
}
