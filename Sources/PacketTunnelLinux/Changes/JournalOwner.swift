// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// Which process a journal belongs to. A process number is used again; together with the time that the process started
/// at it is not.
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
    /// No process: what the journal tells of waits for one to take it over.
    static let nobody = JournalOwner(processID: 0, startTime: 0)

    /// This process.
    package static var current: JournalOwner {
        JournalOwner(processID: getpid(), startTime: ProcessRecord.read(getpid())?.startTime ?? 0)
    }

    /// Whether the process is still there. One that was killed and is still ending is waited for, some seconds at most: the kernel
    /// may still be at what it did last.
    package func isAlive() -> Bool {
        guard let record = ProcessRecord.read(processID), record.startTime == startTime else { return false }
        guard record.isEnding else { return true }
        let deadline = LaneClock.now() + Self.secondsToEnd * LaneClock.nanosecondsPerSecond
        if ChildProcess.wait(forEndOf: processID, until: deadline) { return false }
        // It may be gone although there was nothing to wait by.
        guard let last = ProcessRecord.read(processID), last.startTime == startTime else { return false }
        return !last.isZombie
    }

    /// What remains of a killed process is its memory and its devices: it takes milliseconds. Other tunnels wait meanwhile.
    private static let secondsToEnd: Int64 = 2
}
