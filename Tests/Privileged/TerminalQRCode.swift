// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation

    /// A QR code that was drawn on a terminal, as a scanner's camera would see it.
    struct TerminalQRCode {
        /// Rows of dark modules.
        private let rows: [[Bool]]
        private static let signs: [Character: (Bool, Bool)] = [
            "█": (false, false), "▀": (false, true), "▄": (true, false), " ": (true, true),
        ]

        /// Finds the code in a program's output: the lines of block characters, each of which contains two rows.
        init?(_ output: String) {
            let lines = output.split(separator: "\n").filter {
                $0.contains("█") && $0.allSatisfy { Self.signs[$0] != nil }
            }
            guard let width = lines.map(\.count).max(), width > 20 else { return nil }
            rows = lines.flatMap { line -> [[Bool]] in
                let pairs = line.compactMap { Self.signs[$0] }
                return [pairs.map(\.0), pairs.map(\.1)]
            }
        }

        /// The code as an image (PBM), with modules of four by four pixels.
        private var picture: Data {
            let side = 4
            let lines = rows.flatMap { row -> [String] in
                let line = row.map { String(repeating: $0 ? "1 " : "0 ", count: side) }.joined()
                return Array(repeating: line, count: side)
            }
            let width = (rows.first?.count ?? 0) * side
            return Data("P1\n\(width) \(lines.count)\n\(lines.joined(separator: "\n"))\n".utf8)
        }

        /// Returns zbar's reading of the code.
        func decoded() throws -> String {
            let folder = try TemporaryFolder()
            return try withExtendedLifetime(folder) {
                let file = folder.path + "/code.pbm"
                try picture.write(to: URL(fileURLWithPath: file))
                let text = try PrivilegedTests.run(
                    ["zbarimg", "--quiet", "--raw", "--nodbus", "-Sdisable", "-Sqrcode.enable", file]
                ).output
                // zbarimg adds a newline to its output.
                guard text.hasSuffix("\n") else { throw CommandFailure(description: "zbarimg says: \(text)") }
                return String(text.dropLast())
            }
        }
    }
#endif
