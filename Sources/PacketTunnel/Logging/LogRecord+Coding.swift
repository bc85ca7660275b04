// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging

/// The bytes of a record; integers are big-endian.
///
/// | Bytes | Field |
/// |---|---|
/// | 1 | version: 1 |
/// | 1 | level, 0 (trace) to 6 (critical) |
/// | 1 | origin |
/// | 1 | 1 if the label, the message or a field was cut |
/// | 8 | time |
/// | 4 | process |
/// | 2, n | label |
/// | 4, n | message |
/// | 2 | number of fields |
/// | 2, n, 2, n | key and value of each field |
extension LogRecord {
    private static let fixedByteCount = 24

    /// Encodes the record in at most `limit` bytes. Text that is too long is cut at its end, and the message states the
    /// cut.
    func encoded(limit: Int) -> [UInt8] {
        let label = Self.prefix(of: label, byteCount: min(255, max(0, (limit - Self.fixedByteCount) / 4)))
        let fieldsByteCount = fields.reduce(0) { $0 + 4 + $1.key.utf8.count + $1.value.utf8.count }
        let room = max(0, limit - Self.fixedByteCount - label.count)
        // Fields may use a quarter of the space, and whatever the message leaves free.
        let messageRoom = max(room - min(fieldsByteCount, room / 4), 0)
        var isCut = isCut || label.count < self.label.utf8.count
        var text = Array(message.utf8)
        if text.count > messageRoom {
            isCut = true
            let mark = "... [\(text.count) bytes in all]"
            text = Self.prefix(of: message, byteCount: max(0, messageRoom - mark.utf8.count))
            text += mark.utf8.prefix(messageRoom - text.count)
        }
        var (encodedFields, count) = ([UInt8](), UInt16(0))
        for field in fields {
            let left = room - text.count - encodedFields.count - 4
            let key = Self.prefix(of: field.key, byteCount: min(255, max(0, left)))
            let value = Self.prefix(of: field.value, byteCount: min(Int(UInt16.max), max(0, left - key.count)))
            if key.count < field.key.utf8.count || value.count < field.value.utf8.count { isCut = true }
            guard left >= 0, count < .max, !key.isEmpty || field.key.isEmpty else { break }
            encodedFields.appendBigEndian(UInt16(truncatingIfNeeded: key.count))
            encodedFields += key
            encodedFields.appendBigEndian(UInt16(truncatingIfNeeded: value.count))
            encodedFields += value
            count += 1
        }
        if Int(count) < fields.count { isCut = true }

        var bytes: [UInt8] = []
        bytes.reserveCapacity(limit)
        bytes.append(1)
        bytes.append(UInt8(truncatingIfNeeded: Logger.Level.allCases.firstIndex(of: level) ?? 0))
        bytes.append(origin.rawValue)
        bytes.append(isCut ? 1 : 0)
        bytes.appendBigEndian(UInt64(bitPattern: time))
        bytes.appendBigEndian(UInt32(bitPattern: processID))
        bytes.appendBigEndian(UInt16(truncatingIfNeeded: label.count))
        bytes += label
        bytes.appendBigEndian(UInt32(truncatingIfNeeded: text.count))
        bytes += text
        bytes.appendBigEndian(count)
        bytes += encodedFields
        return bytes
    }

    /// Decodes a record. Returns `nil` if the bytes are not one.
    init?(decoding bytes: [UInt8], sequence: UInt64) {
        var reader = Reader(bytes: bytes)
        guard reader.integer(UInt8.self) == 1, let level = reader.integer(UInt8.self),
            Logger.Level.allCases.indices.contains(Int(level)), let origin = reader.integer(UInt8.self),
            let isCut = reader.integer(UInt8.self), let time = reader.integer(UInt64.self),
            let processID = reader.integer(UInt32.self),
            let label = reader.text(reader.integer(UInt16.self)),
            let message = reader.text(reader.integer(UInt32.self)),
            let count = reader.integer(UInt16.self)
        else { return nil }
        var fields: [Field] = []
        for _ in 0..<count {
            guard let key = reader.text(reader.integer(UInt16.self)),
                let value = reader.text(reader.integer(UInt16.self))
            else { return nil }
            fields.append(Field(key, value))
        }
        guard reader.isAtEnd else { return nil }
        self.init(
            time: Int64(bitPattern: time), level: Logger.Level.allCases[Int(level)],
            origin: LogOrigin(rawValue: origin) ?? .other, processID: Int32(bitPattern: processID), label: label,
            message: message, fields: fields)
        self.sequence = sequence
        self.isCut = isCut != 0
    }

    /// The UTF-8 bytes of as many whole characters of `text` as fit.
    private static func prefix(of text: String, byteCount: Int) -> [UInt8] {
        guard text.utf8.count > byteCount else { return Array(text.utf8) }
        var bytes = Array(text.utf8.prefix(byteCount + 1))
        // Cut before a byte that begins a character.
        while let last = bytes.last, last & 0xc0 == 0x80 { bytes.removeLast() }
        return Array(bytes.dropLast())
    }

    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        var isAtEnd: Bool { position == bytes.count }

        mutating func integer<Integer: FixedWidthInteger & UnsignedInteger>(_ type: Integer.Type) -> Integer? {
            let count = Integer.bitWidth / 8
            guard bytes.count - position >= count else { return nil }
            defer { position += count }
            return bytes.bigEndian(type, at: position)
        }

        mutating func text<Count: FixedWidthInteger>(_ count: Count?) -> String? {
            guard let count, let count = Int(exactly: count), bytes.count - position >= count else { return nil }
            defer { position += count }
            return String(decoding: bytes[position..<position + count], as: UTF8.self)
        }
    }
}
