// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A log of bounded size in a file that several processes write to and read from at the same time.
///
/// The newest records push out the oldest. A process that dies in the middle of a record, or a page that never reached
/// the disk, costs the records it hits and no others: they are left out, and never read as something else. The file has
/// mode 0600 and its whole size from the beginning.
///
/// Nothing is taken out of what is appended here; RingLogHandler does that.
public final class RingLogFile: Sendable {
    /// What to do with a file that is no log or a damaged one.
    public enum InvalidFilePolicy: Hashable, Sendable {
        /// Throw.
        case fail
        /// Put an empty log in its place. Processes that have the old file open keep writing to that.
        case recreate
    }

    /// The file.
    public let path: String
    /// Its size. That of a file that was there already counts, whatever was asked for.
    public let geometry: RingLogGeometry
    /// Whether records can be appended.
    public let isWritable: Bool

    let mapping: RingLogMapping
    private let appending = Mutex(())

    /// Opens the log at `path` for reading and writing, and makes it when there is none.
    /// - Parameters:
    ///   - path: where the file is.
    ///   - geometry: the size of a new file.
    ///   - policy: what to do with a file that cannot be used.
    /// - Throws: what is wrong with the file, or what the system refused.
    public init(
        path: String, geometry: RingLogGeometry = .standard, ifInvalid policy: InvalidFilePolicy = .fail
    ) throws(RingLogError) {
        let opened: (RingLogMapping, RingLogGeometry)
        do throws(RingLogError) {
            opened = try RingLogStorage.open(path, geometry)
        } catch {
            guard policy == .recreate, error.isMendedByRecreating else { throw error }
            opened = try RingLogStorage.replace(path, geometry)
        }
        self.path = path
        (mapping, self.geometry) = opened
        isWritable = true
        repair()
    }

    /// Opens the log at `path` for reading only.
    /// - Throws: what is wrong with the file, or what the system refused, such as `ENOENT`.
    public init(readingFrom path: String) throws(RingLogError) {
        self.path = path
        (mapping, geometry) = try RingLogStorage.openForReading(path)
        isWritable = false
    }

    /// Appends a record; of one that is too long the end is cut, which it says.
    /// - Returns: its sequence number; nil when the log is open for reading only.
    @discardableResult
    public func append(_ record: LogRecord) -> UInt64? {
        guard isWritable else { return nil }
        let bytes = record.encoded(limit: geometry.maximumRecordByteCount)
        let parts = max(1, (bytes.count + geometry.slotCapacity - 1) / geometry.slotCapacity)
        return appending.withLock { _ in
            let first = mapping.reserve(parts)
            for part in 0..<parts {
                let start = part * geometry.slotCapacity
                let payload = bytes[start..<min(start + geometry.slotCapacity, bytes.count)]
                let sequence = first &+ UInt64(part)
                let slot = RingLogSlot(sequence: sequence, part: UInt8(part), parts: UInt8(parts), payload: payload)
                mapping.write(slot.encoded()[...], at: geometry.slotOffset(sequence))
            }
            return first
        }
    }

    /// All records that are whole, oldest first.
    public func records() -> [LogRecord] {
        let cleared = mapping.cleared
        var slots: [RingLogSlot] = []
        for index in 0..<geometry.slotCount {
            guard let slot = slot(at: index), slot.sequence > cleared else { continue }
            slots.append(slot)
        }
        slots.sort { $0.sequence < $1.sequence }
        var assembly = RingLogAssembly()
        return slots.compactMap { assembly.add($0) }
    }

    /// Hides every record that is there now, in every process.
    public func clear() {
        guard isWritable else { return }
        mapping.cleared = mapping.lastSequence
    }

    /// All records as text, one line each; of a message with several lines those after the first are indented.
    public func exportText() -> String {
        records().map { "\($0)\n" }.joined()
    }

    /// All records as JSON, one object in each line.
    public func exportJSONLines() -> String {
        records().map { "\($0.json)\n" }.joined()
    }

    // MARK: - Slots

    /// What is in the slot of a sequence number, if that is whole.
    func slot(of sequence: UInt64) -> RingLogSlot? {
        RingLogSlot(decoding: mapping.read(geometry.slotByteCount, at: geometry.slotOffset(sequence)))
    }

    private func slot(at index: Int) -> RingLogSlot? {
        let sequence = UInt64(index) + 1
        guard let slot = slot(of: sequence),
            (slot.sequence &- 1) % UInt64(geometry.slotCount) == UInt64(index)
        else { return nil }
        return slot
    }

    /// Makes sure that new records come after those that are there, should the header have been damaged.
    private func repair() {
        var last: UInt64 = 0
        for index in 0..<geometry.slotCount { last = max(last, slot(at: index)?.sequence ?? 0) }
        let stated = mapping.lastSequence
        // A number that is far ahead is no harm, unless it is so far that it would overflow one day.
        if stated < last || stated > last + (1 << 48) { mapping.lastSequence = last }
        if mapping.cleared > mapping.lastSequence { mapping.cleared = 0 }
    }
}
