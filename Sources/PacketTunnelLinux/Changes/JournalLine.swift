// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials

/// An entry of a journal.
package enum JournalRecord: Hashable, Sendable, Codable {
    /// The first entry: the owner of the journal.
    case owner(JournalOwner, version: Int)
    /// A change that is about to be made.
    case entry(ChangeEntry)
    /// The change of the entry with this number was undone.
    case undone(id: Int)
}

/// The text format of a journal: one entry per line, as `CHECKSUM JSON`. The checksum is CRC-32 (IEEE 802.3) in eight
/// hexadecimal digits.
///
/// A line that was written only in part or damaged later does not match its checksum and is ignored. An entry is
/// written before its change is made, so every change that needs undoing is in a complete line.
package enum JournalLine {
    /// The entry as a line, with its line feed.
    package static func encode(_ record: JournalRecord) -> [UInt8]? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(record) else { return nil }
        let bytes = [UInt8](json)
        let digits = String(checksum(bytes[...]), radix: 16)
        let padding = [UInt8](repeating: UInt8(ascii: "0"), count: 8 - digits.utf8.count)
        return padding + Array(digits.utf8) + [UInt8(ascii: " ")] + bytes + [UInt8(ascii: "\n")]
    }

    /// Decodes a line without its line feed. Returns `nil` if the line is incomplete or damaged.
    package static func decode(_ line: ArraySlice<UInt8>) -> JournalRecord? {
        let digits = line.prefix(8)
        guard line.count > 9, line[line.startIndex + 8] == UInt8(ascii: " "),
            let expected = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { return nil }
        let json = line.dropFirst(9)
        guard checksum(json) == expected else { return nil }
        return record(Data(json))
    }

    /// Decodes a JSON entry of this version or the previous one; `nil` if a journal may not contain the entry.
    private static func record(_ json: Data) -> JournalRecord? {
        let decoder = JSONDecoder()
        let record =
            (try? decoder.decode(JournalRecord.self, from: json))
            ?? (try? decoder.decode(JournalVersion1.self, from: json)).map { .entry($0.entry) }
        if case .entry(let entry) = record, !entry.change.isTrusted { return nil }
        return record
    }

    /// The contents of a journal.
    package struct Contents: Hashable, Sendable {
        /// The owner of the journal, or `nil` if its first line is not valid.
        package var owner: JournalOwner?
        /// The changes that are not undone, in the order in which they were made.
        package var pending: [ChangeEntry] = []
        /// The number of incomplete or damaged lines.
        package var damagedLines = 0
        /// Whether the owner and every line are valid.
        var isWhole: Bool { owner != nil && damagedLines == 0 }
    }

    /// Reads a whole journal.
    package static func read(_ text: [UInt8]) -> Contents {
        var contents = Contents()
        for line in text.split(separator: UInt8(ascii: "\n")) {
            switch decode(line) {
            case .owner(let owner, _): contents.owner = owner
            case .entry(let entry): contents.pending.append(entry)
            case .undone(let id): contents.pending.removeAll { $0.id == id }
            case nil: contents.damagedLines += 1
            }
        }
        return contents
    }

    /// Computes the CRC-32 with the polynomial 0xedb88320, bit by bit, because lines are short and few.
    static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        var remainder = UInt32.max
        for byte in bytes {
            remainder ^= UInt32(byte)
            for _ in 0..<8 { remainder = remainder >> 1 ^ (remainder & 1 == 0 ? 0 : 0xedb8_8320) }
        }
        return ~remainder
    }
}
