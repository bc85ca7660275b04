// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A log of bounded size in a file that several processes write and read at the same time.
///
/// New records replace the oldest. If a process dies while it writes a record, or a page never reaches the disk, only
/// the affected records are lost: readers omit them, and never read them as other text. The file has mode 0600, and its
/// full size from the beginning. If another program truncates the file, the next record restores its size, and the
/// earlier records are lost.
///
/// Records are appended unchanged. ``RedactingLogHandler`` removes secrets from its records.
public final class RingLogFile: Sendable {
    /// The treatment of a file that is not a log or is damaged.
    public enum InvalidFilePolicy: Hashable, Sendable {
        /// Throw.
        case fail
        /// Put an empty log in its place. Processes that have the old file open keep writing to that.
        case recreate
    }

    /// The file.
    public let path: String
    /// The layout of the file. An existing file keeps its layout, whatever the caller requested.
    public let geometry: RingLogGeometry
    /// Whether records can be appended.
    public let isWritable: Bool

    let content: RingLogContent
    private let appending = Mutex(())

    /// Opens the log at `path` for reading and writing, and creates it if it does not exist.
    /// - Parameters:
    ///   - path: The path of the file.
    ///   - geometry: The size of a new file.
    ///   - policy: The treatment of an unusable file.
    /// - Throws: ``RingLogError`` if the file is not usable or a system call fails.
    public init(
        path: String, geometry: RingLogGeometry = .standard, ifInvalid policy: InvalidFilePolicy = .fail
    ) throws(RingLogError) {
        let opened: (RingLogContent, RingLogGeometry)
        do throws(RingLogError) {
            opened = try RingLogStorage.open(path, geometry)
        } catch {
            guard policy == .recreate, error.isMendedByRecreating else { throw error }
            opened = try RingLogStorage.replace(path, geometry)
        }
        self.path = path
        (content, self.geometry) = opened
        isWritable = true
        repair()
    }

    /// Opens the log at `path` for reading only. An empty file, such as one that was truncated, is a log of the
    /// standard size without records.
    /// - Throws: ``RingLogError`` if the file is not usable or a system call fails, for example with `ENOENT`.
    public init(readingFrom path: String) throws(RingLogError) {
        self.path = path
        (content, geometry) = try RingLogStorage.openForReading(path)
        isWritable = false
    }

    /// Appends a record. The end of a record that is too long is cut, and the record states this.
    /// - Returns: The sequence number of the record; `nil` if the log is open for reading only, or if the file was
    ///   truncated and cannot be restored.
    @discardableResult
    public func append(_ record: LogRecord) -> UInt64? {
        guard isWritable else { return nil }
        let bytes = record.encoded(limit: geometry.maximumRecordByteCount)
        let parts = max(1, (bytes.count + geometry.slotCapacity - 1) / geometry.slotCapacity)
        return appending.withLock { _ in
            guard let first = content.reserve(parts) else { return nil }
            for part in 0..<parts {
                let start = part * geometry.slotCapacity
                let payload = bytes[start..<min(start + geometry.slotCapacity, bytes.count)]
                let sequence = first &+ UInt64(part)
                let slot = RingLogSlot(sequence: sequence, part: UInt8(part), parts: UInt8(parts), payload: payload)
                content.write(slot.encoded(), at: geometry.slotOffset(sequence))
            }
            return first
        }
    }

    /// All complete records, oldest first.
    public func records() -> [LogRecord] {
        let cleared = content.counters?.cleared ?? 0
        var slots: [RingLogSlot] = []
        forEachSlot { if $0.sequence > cleared { slots.append($0) } }
        slots.sort { $0.sequence < $1.sequence }
        var assembly = RingLogAssembly()
        return slots.compactMap { assembly.add($0) }
    }

    /// Hides every present record, in every process.
    public func clear() {
        guard isWritable else { return }
        content.setCleared(content.lastSequence)
    }

    /// All records as text, one line each. Further lines of a message are indented.
    public func exportText() -> String {
        records().map { "\($0)\n" }.joined()
    }

    /// All records as JSON, one object in each line.
    public func exportJSONLines() -> String {
        records().map { "\($0.json)\n" }.joined()
    }

    // MARK: - Slots

    /// The contents of the slot of a sequence number, if they are complete.
    func slot(of sequence: UInt64) -> RingLogSlot? {
        RingLogSlot(decoding: content.read(geometry.slotByteCount, at: geometry.slotOffset(sequence)))
    }

    /// The number of slots that one system call reads.
    private static let slotsPerRead = 256

    /// Visits each complete slot that is at its place, in file order.
    private func forEachSlot(_ body: (RingLogSlot) -> Void) {
        let (size, count) = (geometry.slotByteCount, geometry.slotCount)
        for start in stride(from: 0, to: count, by: Self.slotsPerRead) {
            let bytes = content.read(
                min(Self.slotsPerRead, count - start) * size, at: geometry.slotOffset(UInt64(start) + 1))
            for (place, offset) in stride(from: 0, to: bytes.count, by: size).enumerated() {
                guard let slot = RingLogSlot(decoding: Array(bytes[offset..<min(offset + size, bytes.count)])),
                    (slot.sequence &- 1) % UInt64(count) == UInt64(start + place)
                else { continue }
                body(slot)
            }
        }
    }

    /// Makes new numbers continue after those of the present records, even if the header was damaged.
    private func repair() {
        var last: UInt64 = 0
        forEachSlot { last = max(last, $0.sequence) }
        guard var counters = content.counters else { return }
        let before = counters
        // A number that is far ahead is harmless unless it could overflow.
        if counters.last < last || counters.last > last + (1 << 48) { counters.last = last }
        if counters.cleared > counters.last { counters.cleared = 0 }
        if counters != before { content.setCounters(counters) }
        content.recordLast(counters.last)
    }
}
