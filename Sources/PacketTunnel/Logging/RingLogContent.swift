// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelSystem

/// The bytes of an open log file that several processes change at the same time.
///
/// The file is read and written by system calls and never mapped. Another program may truncate it at any time, like
/// logrotate's `copytruncate`, and an access to a mapped page behind the new end of the file would kill the process with
/// SIGBUS. A writer that finds the file truncated restores its size before its next record.
final class RingLogContent: Sendable {
    /// The header fields that change.
    struct Counters: Equatable {
        /// The last sequence number handed out.
        var last: UInt64
        /// The last sequence number that was cleared away.
        var cleared: UInt64
    }

    private struct State {
        /// The last sequence number that this process handed out or found.
        var last: UInt64 = 0
        /// Whether another process held the file's lock for longer than ``patience``. It may be a stopped process.
        var isLockStuck = false
    }

    /// The longest time that a writer waits for the file's lock. A running process holds it for microseconds.
    private static let patience: Duration = .milliseconds(100)

    private let file: OwnedDescriptor
    private let geometry: RingLogGeometry
    private let state = Mutex(State())

    /// Takes over an open file of this geometry.
    init(_ file: consuming OwnedDescriptor, _ geometry: RingLogGeometry) {
        self.file = file
        self.geometry = geometry
    }

    // MARK: - Bytes

    /// Reads at most `count` bytes; fewer, or none, if the file ends before them.
    func read(_ count: Int, at offset: Int) -> [UInt8] {
        RingLogStorage.read(file.number, count, at: offset)
    }

    /// Writes bytes over those in the file.
    /// - Returns: whether all of them were written.
    @discardableResult
    func write(_ bytes: [UInt8], at offset: Int) -> Bool {
        RingLogStorage.write(file.number, bytes, at: offset)
    }

    // MARK: - The counters

    /// The counters in the file; `nil` while the file is truncated.
    var counters: Counters? { RingLogStorage.counters(file.number) }

    /// The last sequence number handed out; 0 while the file is truncated.
    var lastSequence: UInt64 { counters?.last ?? 0 }

    /// Changes both counters.
    func setCounters(_ counters: Counters) {
        write(counters.bytes, at: RingLogGeometry.lastSequenceOffset)
    }

    /// Remembers the number of the last record that the log had when it was opened.
    func recordLast(_ sequence: UInt64) {
        state.withLock { $0.last = sequence }
    }

    /// Hides each record up to `sequence`.
    func setCleared(_ sequence: UInt64) {
        _ = RingLogStorage.write(file.number, sequence, at: RingLogGeometry.clearedOffset)
    }

    /// Hands out sequence numbers, and restores the file first if it was truncated.
    /// - Returns: the first of `count` numbers; `nil` if the file can be neither used nor restored, for example on a full disk.
    func reserve(_ count: Int) -> UInt64? {
        state.withLock { state in
            let isLocked = lock(&state)
            defer { if isLocked { _ = flock(file.number, LOCK_UN) } }
            guard let present = intactCounters ?? restore(state) else { return nil }
            let last = present.last &+ UInt64(count)
            guard RingLogStorage.write(file.number, last, at: RingLogGeometry.lastSequenceOffset) else { return nil }
            state.last = last
            return present.last &+ 1
        }
    }

    /// Takes the file's lock, which each process holds for microseconds while it hands out numbers.
    ///
    /// A writer does not wait for long, because a process that was stopped while it holds the lock would block every
    /// writer. Two writers without the lock may take the same number, which costs one of their records.
    /// - Returns: whether this process has the lock.
    private func lock(_ state: inout State) -> Bool {
        let reason = FileLock.acquire(file.number, within: state.isLockStuck ? .zero : Self.patience)
        state.isLockStuck = reason == EWOULDBLOCK
        return reason == 0
    }

    // MARK: - Truncation

    /// The counters of a file with the right size and a header; `nil` if the file was truncated.
    private var intactCounters: Counters? {
        guard FileStatus(of: file.number)?.size == geometry.fileByteCount else { return nil }
        return RingLogStorage.counters(file.number)
    }

    /// Restores the size and the header of the file. Numbers continue after the last one that this process knows, so
    /// that readers that follow the log find the next record.
    /// - Returns: the counters; `nil` if the system refused a step.
    private func restore(_ state: State) -> Counters? {
        let size = FileStatus(of: file.number)?.size ?? 0
        var counters = Counters(last: state.last, cleared: state.last)
        if let present = RingLogStorage.counters(file.number) {
            counters.last = max(state.last, present.last)
            // Extra bytes at the end are harmless. A follower would wait for each missing slot, so hide those.
            counters.cleared = size > geometry.fileByteCount ? present.cleared : counters.last
        }
        guard RingLogStorage.format(file.number, geometry, counters) == nil else { return nil }
        return counters
    }
}

extension RingLogContent.Counters {
    /// The counters as stored in the header.
    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.appendLittleEndian(last)
        bytes.appendLittleEndian(cleared)
        return bytes
    }
}
