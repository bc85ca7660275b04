// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The size and the layout of a log file.
///
/// The file is a header of 4096 bytes, followed by slots of equal size. A record occupies one slot or several
/// consecutive ones, with consecutive sequence numbers. The slot of a sequence number is `(sequence - 1) % slotCount`.
/// A reader ignores each slot whose checksum, which also covers the sequence number, is wrong.
///
/// Header, little-endian:
///
/// | Offset | Bytes | Field |
/// |---|---|---|
/// | 0 | 8 | `CULVLOG1` |
/// | 8 | 4 | version: 1 |
/// | 12 | 4 | bytes of a slot |
/// | 16 | 4 | number of slots |
/// | 20 | 4 | checksum of these 20 bytes |
/// | 64 | 8 | the last sequence number handed out; changed under the file's lock |
/// | 72 | 8 | the last sequence number that was cleared away |
///
/// Slot:
///
/// | Offset | Bytes | Field |
/// |---|---|---|
/// | 0 | 8 | checksum of the other bytes that are used |
/// | 8 | 8 | sequence number, from 1 |
/// | 16 | 2 | bytes of the record in this slot |
/// | 18 | 1 | position of this slot in the record, from 0 |
/// | 19 | 1 | number of slots of the record |
/// | 24 | | the bytes |
public struct RingLogGeometry: Hashable, Sendable {
    /// Bytes of a slot: 64 to 4096, a multiple of 8.
    public let slotByteCount: Int
    /// How many slots there are: 8 to 1,048,576.
    public let slotCount: Int

    /// 4096 slots of 256 bytes, a file of about 1 MiB.
    public static let standard = RingLogGeometry(slotByteCount: 256, slotCount: 4096)

    /// A size; values out of range become the nearest in range.
    public init(slotByteCount: Int = 256, slotCount: Int = 4096) {
        self.slotByteCount = min(max(slotByteCount, 64), 4096) / 8 * 8
        self.slotCount = min(max(slotCount, 8), 1 << 20)
    }

    static let headerByteCount = 4096
    static let slotHeaderByteCount = 24
    static let version: UInt32 = 1
    static let magic = Array("CULVLOG1".utf8)
    static let lastSequenceOffset = 64
    static let clearedOffset = 72

    var fileByteCount: Int { Self.headerByteCount + slotCount * slotByteCount }
    var slotCapacity: Int { slotByteCount - Self.slotHeaderByteCount }
    /// A record takes at most an eighth of the file.
    var maximumParts: Int { min(32, slotCount / 8) }
    /// The maximum size of a record that is not cut, in bytes.
    public var maximumRecordByteCount: Int { slotCapacity * maximumParts }

    func slotOffset(_ sequence: UInt64) -> Int {
        Self.headerByteCount + Int((sequence &- 1) % UInt64(slotCount)) * slotByteCount
    }

    // MARK: - The header

    /// Whether a header is empty or zero, as in a file that was truncated or whose creator died before it wrote the
    /// header.
    static func isBlank(_ header: [UInt8]) -> Bool { header.allSatisfy { $0 == 0 } }

    var headerBytes: [UInt8] {
        var bytes = Self.magic
        for value in [Self.version, UInt32(slotByteCount), UInt32(slotCount)] { bytes.appendLittleEndian(value) }
        bytes.appendLittleEndian(UInt32(truncatingIfNeeded: RingLogChecksum.of(bytes[...])))
        return bytes
    }

    /// Reads a header.
    /// - Parameter fileByteCount: the size of the whole file.
    init(header: [UInt8], fileByteCount: Int, path: String) throws(RingLogError) {
        guard header.count >= 24, header.starts(with: Self.magic) else { throw .foreign(path: path) }
        let version = header.littleEndian(UInt32.self, at: 8)
        guard version == Self.version else { throw .unsupportedVersion(path: path, version: version) }
        guard header.littleEndian(UInt32.self, at: 20) == UInt32(truncatingIfNeeded: RingLogChecksum.of(header[..<20]))
        else {
            throw .corrupt(path: path, reason: "the checksum of its header is wrong")
        }
        self.init(
            slotByteCount: Int(header.littleEndian(UInt32.self, at: 12)),
            slotCount: Int(header.littleEndian(UInt32.self, at: 16)))
        guard self.headerBytes.elementsEqual(header.prefix(24)) else {
            throw .corrupt(path: path, reason: "its header states an impossible size")
        }
        guard fileByteCount == self.fileByteCount else {
            throw .corrupt(path: path, reason: "has \(fileByteCount) bytes and should have \(self.fileByteCount)")
        }
    }
}

/// The checksum that detects torn records. It does not protect against a writer of the file.
enum RingLogChecksum {
    /// Returns the checksum. It mixes eight bytes at a time into all 64 bits.
    static func of(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        var hash: UInt64 = 0x9e37_79b9_7f4a_7c15 ^ UInt64(bytes.count)
        var (word, shift): (UInt64, UInt64) = (0, 0)
        for byte in bytes {
            word |= UInt64(byte) << shift
            shift += 8
            if shift == 64 {
                hash = mix(hash ^ word)
                (word, shift) = (0, 0)
            }
        }
        return mix(hash ^ word)
    }

    private static func mix(_ value: UInt64) -> UInt64 {
        var mixed = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}

extension [UInt8] {
    mutating func appendLittleEndian<Integer: FixedWidthInteger>(_ value: Integer) {
        for shift in stride(from: 0, to: Integer.bitWidth, by: 8) {
            append(UInt8(truncatingIfNeeded: value >> Integer(truncatingIfNeeded: shift)))
        }
    }

    /// The caller must have checked the bounds.
    func littleEndian<Integer: FixedWidthInteger>(_ type: Integer.Type, at offset: Int) -> Integer {
        var value: Integer = 0
        for byte in self[offset..<offset + Integer.bitWidth / 8].reversed() {
            value = value << 8 | Integer(truncatingIfNeeded: byte)
        }
        return value
    }
}
