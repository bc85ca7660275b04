// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Synchronization

/// The AEAD alone on one thread, and on two that run together, each with its own key and buffers. A library that writes
/// memory of the process for each message, as ipsec-mb writes `imb_errno`, may be slower on two.
enum AEADThreads {
    private static let byteCount = 1424

    static func suites(isQuick: Bool) -> [Suite] {
        [Suite(name: "AEAD on one thread and on two together, \(byteCount)-byte messages") { _ in cases() }]
    }

    private static func cases() -> [Case] {
        [(1, "one thread"), (2, "two threads")].flatMap { count, threads -> [Case] in
            let lists = (0..<count).map { _ in rawAEADs(byteCount: byteCount) }
            return lists[0].indices.compactMap { index in
                let aeads = lists.map { $0[index].aead }
                // It allocates for each message, so the rows would compare the allocator.
                if aeads[0] is PublicAPI { return nil }
                return Case(name: "\(lists[0][index].name) seal and open, \(threads)", unit: .nanosecondsPerPacket) {
                    mean(aeads, $0)
                }
            }
        }
    }

    /// Seals and opens on one thread for each of these, all together.
    /// - Returns: The mean time of a message on a thread.
    private static func mean(_ list: [any RawAEAD], _ duration: Int) -> Double {
        // Each thread uses one element.
        nonisolated(unsafe) let list = list
        let count = unsafe list.count
        let began = Atomic(0)
        let total = Mutex(0.0)
        let done = DispatchSemaphore(value: 0)
        for index in 0..<count {
            Thread.detachNewThread {
                let aead = unsafe list[index]
                // A thread that begins alone would measure a processor without the other one's work.
                began.add(1, ordering: .relaxed)
                while began.load(ordering: .relaxed) < count {}
                let time = timed(duration, count: Batch.count) {
                    aead.seal()
                    aead.open()
                }
                total.withLock { $0 += time }
                done.signal()
            }
        }
        for _ in 0..<count { done.wait() }
        return total.withLock { $0 } / Double(count)
    }
}
