// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// The process that a journal belongs to. Process numbers are reused; a number together with the start time of its process is
/// unique.
package struct JournalOwner: Hashable, Sendable, Codable {
    /// The process.
    package var processID: Int32
    /// When it started, in clock ticks since the machine did.
    package var startTime: UInt64

    package init(processID: Int32, startTime: UInt64) {
        self.processID = processID
        self.startTime = startTime
    }
}

extension JournalOwner {
    /// No process: the changes in the journal wait for a process that takes them over.
    static let nobody = JournalOwner(processID: 0, startTime: 0)

    /// This process.
    package static var current: JournalOwner {
        JournalOwner(processID: getpid(), startTime: ProcessRecord.read(getpid())?.startTime ?? 0)
    }

    /// Whether the process runs. Waits a few seconds at most for a killed process to end: the kernel may still carry out its
    /// last call.
    package func isAlive() -> Bool {
        guard let record = ProcessRecord.read(processID), record.startTime == startTime else { return false }
        guard record.isEnding else { return true }
        let deadline = LaneClock.now() + Self.secondsToEnd * LaneClock.nanosecondsPerSecond
        if ChildProcess.wait(forEndOf: processID, until: deadline) { return false }
        // The process may have ended although it could not be waited for.
        guard let last = ProcessRecord.read(processID), last.startTime == startTime else { return false }
        return !last.isZombie
    }

    /// The end of a killed process frees its memory and devices, which takes milliseconds. Other tunnels wait for it.
    private static let secondsToEnd: Int64 = 2
}
