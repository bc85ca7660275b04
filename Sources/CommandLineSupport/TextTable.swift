// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A table of text. Numbers are aligned right; the first column and other text are aligned left.
package struct TextTable {
    private var rows: [[String]] = []

    /// A table whose first row names its columns.
    package init(_ header: [String]) { rows = [header] }

    /// Adds a row.
    package mutating func add(_ row: [String]) { rows.append(row) }

    /// The lines of the table, without trailing spaces, with a rule under the header.
    package var lines: [String] {
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in
            rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
        }
        let hasFigures = (0..<columns).map { column in
            let cells = rows.dropFirst().compactMap { column < $0.count ? $0[column] : nil }.filter {
                $0 != "-" && $0 != "never"
            }
            return column > 0 && !cells.isEmpty && cells.allSatisfy(Self.isFigure)
        }
        var lines = rows.map { row in
            row.enumerated().map { column, cell in
                let space = String(repeating: " ", count: widths[column] - cell.count)
                return hasFigures[column] ? space + cell : cell + space
            }.joined(separator: "  ").trimmingSpacesAtEnd
        }
        lines.insert(widths.map { String(repeating: "-", count: $0) }.joined(separator: "  "), at: 1)
        return lines
    }

    /// Whether a cell is a number with or without a unit, such as `3,456 Mbit/s`.
    private static func isFigure(_ cell: String) -> Bool {
        let number = cell.prefix { $0 != " " }
        return number.first?.isNumber == true && number.allSatisfy { $0.isNumber || $0 == "," || $0 == "." }
            && number.count { $0 == "." } <= 1
    }
}

extension String {
    /// The text without trailing spaces.
    var trimmingSpacesAtEnd: String {
        var text = Substring(self)
        while text.last == " " { text.removeLast() }
        return String(text)
    }

    /// The text, filled with spaces to `width` characters.
    package func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(width - count, 0))
    }
}
