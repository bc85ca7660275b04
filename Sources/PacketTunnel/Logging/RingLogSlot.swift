// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The content of one slot.
struct RingLogSlot {
    var sequence: UInt64
    /// The position of the slot in its record.
    var part: UInt8
    /// The number of parts of the record.
    var parts: UInt8
    var payload: ArraySlice<UInt8>

    /// An upper bound for sequence numbers that no log reaches; sums with it do not overflow.
    private static let lastPossibleSequence: UInt64 = 1 << 62

    init(sequence: UInt64, part: UInt8, parts: UInt8, payload: ArraySlice<UInt8>) {
        self.sequence = sequence
        self.part = part
        self.parts = parts
        self.payload = payload
    }

    func encoded() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(RingLogGeometry.slotHeaderByteCount + payload.count)
        bytes.appendLittleEndian(UInt64(0))
        bytes.appendLittleEndian(sequence)
        bytes.appendLittleEndian(UInt16(truncatingIfNeeded: payload.count))
        bytes.append(part)
        bytes.append(parts)
        bytes.appendLittleEndian(UInt32(0))
        bytes += payload
        var checksum: [UInt8] = []
        checksum.appendLittleEndian(RingLogChecksum.of(bytes[8...]))
        bytes.replaceSubrange(..<8, with: checksum)
        return bytes
    }

    /// Reads a slot; `nil` if it is empty, torn or being written.
    init?(decoding bytes: [UInt8]) {
        let header = RingLogGeometry.slotHeaderByteCount
        guard bytes.count >= header else { return nil }
        let sequence = bytes.littleEndian(UInt64.self, at: 8)
        let end = header + Int(bytes.littleEndian(UInt16.self, at: 16))
        let (part, parts) = (bytes[18], bytes[19])
        guard (1...Self.lastPossibleSequence).contains(sequence), end <= bytes.count, part < parts,
            bytes.littleEndian(UInt64.self, at: 0) == RingLogChecksum.of(bytes[8..<end])
        else { return nil }
        self.init(sequence: sequence, part: part, parts: parts, payload: bytes[header..<end])
    }
}

/// Assembles records from slots in the order of their sequence numbers.
struct RingLogAssembly {
    private var first: UInt64 = 0
    private var parts: UInt8 = 0
    private var next: UInt8 = 0
    private var bytes: [UInt8] = []

    /// Adds a slot and returns the record that it completes, or `nil`. A record with a missing slot is dropped.
    mutating func add(_ slot: RingLogSlot) -> LogRecord? {
        if slot.part == 0 {
            (first, parts, next, bytes) = (slot.sequence, slot.parts, 0, [])
        }
        guard slot.part == next, slot.parts == parts, slot.sequence == first &+ UInt64(slot.part), parts > 0 else {
            parts = 0
            return nil
        }
        bytes += slot.payload
        next += 1
        guard next == parts else { return nil }
        parts = 0
        return LogRecord(decoding: bytes, sequence: first)
    }
}
