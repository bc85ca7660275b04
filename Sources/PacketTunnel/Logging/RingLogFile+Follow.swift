// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension RingLogFile {
    /// Returns the records of the log as they are written, by any process.
    ///
    /// It polls the log; a poll without new records costs one read of memory. A reader that is slower than the writers
    /// misses records, and continues with the oldest one that remains. The sequence ends when its task is cancelled.
    /// - Parameters:
    ///   - includesPast: Whether the sequence begins with the records that the log contains now. If not, it begins with
    ///     the next one.
    ///   - interval: The polling interval.
    ///   - clock: The clock of the interval.
    public func follow(
        includingPast includesPast: Bool = false, every interval: Duration = .milliseconds(200),
        clock: any Clock<Duration> = ContinuousClock()
    ) -> RingLogRecords {
        RingLogRecords(
            file: self, position: (includesPast ? content.counters?.cleared : content.counters?.last) ?? 0,
            interval: interval, clock: clock)
    }

    /// The records after the one with the number `sequence`, as they are written.
    package func follow(
        after sequence: UInt64, every interval: Duration = .milliseconds(200),
        clock: any Clock<Duration> = ContinuousClock()
    ) -> RingLogRecords {
        RingLogRecords(file: self, position: sequence, interval: interval, clock: clock)
    }
}

/// The records of a log as they are written.
public struct RingLogRecords: AsyncSequence, Sendable {
    let file: RingLogFile
    let position: UInt64
    let interval: Duration
    let clock: any Clock<Duration>

    /// Takes records one at a time.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private var cursor: RingLogCursor
        private var ready: ArraySlice<LogRecord> = []
        private let interval: Duration
        private let clock: any Clock<Duration>

        fileprivate init(_ records: RingLogRecords) {
            cursor = RingLogCursor(file: records.file, position: records.position)
            interval = records.interval
            clock = records.clock
        }

        /// The next record; `nil` if the task is cancelled.
        public mutating func next() async -> LogRecord? {
            if ready.isEmpty { ready = await nextRecords() ?? [] }
            return Task.isCancelled ? nil : ready.popFirst()
        }

        /// All new records, at least one; `nil` if the task is cancelled.
        mutating func nextRecords() async -> ArraySlice<LogRecord>? {
            while !Task.isCancelled {
                let records = cursor.read()
                guard records.isEmpty else { return records[...] }
                do { try await clock.sleep(for: interval, tolerance: nil) } catch { return nil }
            }
            return nil
        }
    }

    /// Begins to follow.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(self)
    }
}

/// The position of a reader of the log.
struct RingLogCursor {
    /// The number of polls for which the cursor waits for a reserved number. Its writer is about to write, or has died.
    private static let patience = 5

    private let file: RingLogFile
    /// The last sequence number that the cursor read or skipped.
    private var position: UInt64
    private var assembly = RingLogAssembly()
    private var misses = 0

    init(file: RingLogFile, position: UInt64) {
        self.file = file
        self.position = position
    }

    /// Returns the new complete records, at most all records of the log.
    mutating func read() -> [LogRecord] {
        // Without counters the file is truncated until the next record is written.
        guard let counters = file.content.counters else { return [] }
        let (last, cleared) = (counters.last, counters.cleared)
        let count = UInt64(file.geometry.slotCount)
        // The header may have been repaired or the log cleared, so adjust the position.
        if position > last { position = last }
        position = Swift.max(position, cleared > last ? 0 : cleared)
        if last - position > count { position = last - count }
        var records: [LogRecord] = []
        while position < last {
            let sequence = position + 1
            let slot = file.slot(of: sequence)
            if let slot, slot.sequence == sequence {
                if let record = assembly.add(slot) { records.append(record) }
            } else if (slot?.sequence ?? 0) <= sequence {
                // The slot is not written yet, or is torn.
                misses += 1
                guard misses > Self.patience else { return records }
            }
            misses = 0
            position = sequence
        }
        return records
    }
}
