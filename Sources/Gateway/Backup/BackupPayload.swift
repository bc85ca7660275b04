// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// The files in a backup, one after another. Each is the length of its name in one byte, the name, the length of its
/// content in 8 bytes (little-endian), and the content.
enum BackupPayload {
    /// The bytes before the content of a file.
    static func head(_ name: String, size: Int) -> [UInt8] {
        [UInt8(clamping: name.utf8.count)] + Array(name.utf8)
            + (0..<8).map { UInt8(truncatingIfNeeded: size >> (8 * $0)) }
    }

    /// A part of the payload.
    enum Piece {
        /// A file begins. Its name is valid and unique.
        case file(String, size: Int)
        /// The next bytes of this file.
        case bytes(ArraySlice<UInt8>)
    }

    /// Reads a payload as its bytes arrive.
    struct Reader {
        private var head: [UInt8] = []
        /// The number of bytes of the current file that have not arrived.
        private var missing = 0
        private(set) var names: Set<String> = []

        /// Passes the next bytes on, in pieces.
        mutating func read(
            _ bytes: [UInt8], _ receive: (Piece) throws(GatewayDirectoryError) -> Void
        ) throws(GatewayDirectoryError) {
            var rest = bytes[...]
            while !rest.isEmpty {
                if missing > 0 {
                    let part = rest.prefix(missing)
                    rest = rest.dropFirst(part.count)
                    missing -= part.count
                    try receive(.bytes(part))
                } else {
                    let part = rest.prefix((head.first.map { Int($0) + 9 } ?? 1) - head.count)
                    rest = rest.dropFirst(part.count)
                    head += part
                    if let length = head.first, head.count == Int(length) + 9 { try receive(begin()) }
                }
            }
        }

        private mutating func begin() throws(GatewayDirectoryError) -> Piece {
            let name = String(decoding: head.dropFirst().dropLast(8), as: UTF8.self)
            guard FileName.isValid(name), names.insert(name).inserted else {
                throw BackupFormat.damaged("the name of a file in it is not valid or not unique")
            }
            let size = head.suffix(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            guard let size = Int(exactly: size) else { throw BackupFormat.damaged("a file in it is truncated") }
            head = []
            missing = size
            return .file(name, size: size)
        }

        /// Checks that the payload has ended with the end of a file.
        func finish() throws(GatewayDirectoryError) {
            guard head.isEmpty, missing == 0 else { throw BackupFormat.damaged("a file in it is truncated") }
        }
    }
}
