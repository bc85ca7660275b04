// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Returning memory after a burst.
///
/// When a lane has used more than its working set, it sets a timer. If no batch went beyond the working set before the timer
/// expires, the pages beyond it are returned to the system. An idle lane has no timer.
extension LaneCore {
    /// The lane's record of its use of pages.
    struct PageUse {
        var timer: EventLoop.Timer?
        var isTimerSet = false
    }

    /// The memory that a batch keeps: a few packets, and a few slots for datagrams. A lane with little traffic does not go
    /// beyond it.
    static let workingPacketBytes = 64 << 10
    static let workingDatagramBytes = 2 * LaneConfiguration.largestDatagram

    /// Whether anything was used beyond the working set.
    private var isBeyondWorkingSet: Bool {
        packets.reach > Self.workingPacketBytes || outgoing.reach > Self.workingPacketBytes
            || incoming.reach > Self.workingDatagramBytes
    }

    /// Makes the timer. Call it once, before the loop runs.
    func preparePageReturn() {
        pageUse.timer = loop.makeTimer { [unowned self] in returnPagesIfIdle() }
    }

    /// Sets the timer if there is memory to return. Call it after each round.
    @inline(__always)
    func noticePageUse() {
        if !pageUse.isTimerSet, isBeyondWorkingSet { setPageTimer() }
    }

    private func setPageTimer() {
        guard let timer = pageUse.timer else { return }
        pageUse.isTimerSet = true
        for batch in [packets, outgoing, incoming] { batch.forgetReach() }
        loop.set(timer, deadline: LaneClock.now() + configuration.pageReturnDelay.laneNanoseconds)
    }

    private func returnPagesIfIdle() {
        pageUse.isTimerSet = false
        guard !isBeyondWorkingSet else { return setPageTimer() }
        packets.releasePages(beyond: Self.workingPacketBytes)
        outgoing.releasePages(beyond: Self.workingPacketBytes)
        incoming.releasePages(beyond: Self.workingDatagramBytes)
        // Returns the heap memory of waiting packets, handshakes and configuration.
        PageAdvice.trimHeap()
        counts.pageReturns.add(1)
    }
}
