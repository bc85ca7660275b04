// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Rows of text in columns: the first to the left, the others to the right.
package struct TextTable {
    private var rows: [[String]] = []

    /// A table whose first row names its columns.
    package init(_ header: [String]) { rows = [header] }

    /// Adds a row.
    package mutating func add(_ row: [String]) { rows.append(row) }

    /// The lines of the table, without spaces at their ends, with a rule under the first.
    package var lines: [String] {
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in
            rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
        }
        var lines = rows.map { row in
            row.enumerated().map { column, cell in
                let space = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 ? cell + space : space + cell
            }.joined(separator: "  ").trimmingSpacesAtEnd
        }
        lines.insert(widths.map { String(repeating: "-", count: $0) }.joined(separator: "  "), at: 1)
        return lines
    }
}

extension String {
    /// The text without the spaces that it ends with.
    var trimmingSpacesAtEnd: String {
        var text = Substring(self)
        while text.last == " " { text.removeLast() }
        return String(text)
    }

    /// The text with spaces behind it, up to `width` characters.
    package func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(width - count, 0))
    }
}
