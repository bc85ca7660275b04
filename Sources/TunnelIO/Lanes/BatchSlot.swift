// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// One batch, which the first free thread seals or opens: a worker, or the lane that owns it.
///
/// The stage determines who may use the other members: the lane while the slot is idle or done, or the thread that runs it
/// while it runs.
final class BatchSlot: @unchecked Sendable {
    private enum Stage {
        static let idle: UInt8 = 0
        static let waiting: UInt8 = 1
        static let running: UInt8 = 2
        static let done: UInt8 = 3
    }

    /// The batch that was read or received.
    let source: PacketBatch
    /// The batch for the sealed packets of `source`; `nil` if datagrams are opened in place.
    let sealed: PacketBatch?
    let steps: any TransportSteps
    private let stage = Atomic<UInt8>(Stage.idle)
    /// The threads that wait for the batch.
    private let finished = Monitor(())

    /// - Parameter sealed: `nil` for a slot of datagrams.
    init(source: PacketBatch, sealed: PacketBatch?, steps: any TransportSteps) {
        self.source = source
        self.sealed = sealed
        self.steps = steps
    }

    /// Marks the planned batch as ready, so that a thread can process it.
    func offer() {
        stage.store(Stage.waiting, ordering: .sequentiallyConsistent)
    }

    /// Processes the batch, unless another thread has started to.
    func runIfWaiting() {
        guard
            stage.compareExchange(
                expected: Stage.waiting, desired: Stage.running, ordering: .sequentiallyConsistent
            ).exchanged
        else { return }
        if let sealed {
            steps.seal(source, into: sealed)
        } else {
            steps.open(source)
        }
        finished.update { _ in
            stage.store(Stage.done, ordering: .sequentiallyConsistent)
            return true
        }
    }

    var isDone: Bool { stage.load(ordering: .acquiring) == Stage.done }

    /// Does the work here, or waits for the thread that does it.
    func finish() {
        runIfWaiting()
        if !isDone { finished.wait { _ in isDone ? () : nil } }
    }

    /// Makes the slot ready for the next batch.
    func reset() {
        source.removeAll()
        sealed?.removeAll()
        stage.store(Stage.idle, ordering: .relaxed)
    }
}
