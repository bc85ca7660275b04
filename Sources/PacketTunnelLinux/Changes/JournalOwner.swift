// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// The process that owns a journal. Process IDs are reused, but a process ID together with its start time is unique.
package struct JournalOwner: Hashable, Sendable, Codable {
    /// The process ID.
    package var processID: Int32
    /// The start time of the process, in clock ticks since the machine started.
    package var startTime: UInt64

    package init(processID: Int32, startTime: UInt64) {
        self.processID = processID
        self.startTime = startTime
    }
}

extension JournalOwner {
    /// No process. The changes in the journal wait for a process that takes them over.
    static let nobody = JournalOwner(processID: 0, startTime: 0)

    /// This process.
    package static var current: JournalOwner {
        JournalOwner(processID: getpid(), startTime: ProcessRecord.read(getpid())?.startTime ?? 0)
    }

    /// Whether the process runs. Waits a few seconds at most for a killed process to end, because the kernel may still
    /// execute its last system call.
    package func isAlive() -> Bool {
        guard let record = ProcessRecord.read(processID), record.startTime == startTime else { return false }
        guard record.isEnding else { return true }
        let deadline = LaneClock.now() + Self.secondsToEnd * LaneClock.nanosecondsPerSecond
        if ChildProcess.wait(forEndOf: processID, until: deadline) { return false }
        // Waiting may have failed although the process ended, so check again.
        guard let last = ProcessRecord.read(processID), last.startTime == startTime else { return false }
        return !last.isZombie
    }

    /// The time limit for a killed process to end, in seconds. The kernel needs milliseconds to free its memory and
    /// devices. Other tunnels wait meanwhile.
    private static let secondsToEnd: Int64 = 2
}
