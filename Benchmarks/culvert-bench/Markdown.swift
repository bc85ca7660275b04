// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Parts of Markdown pages.
enum Markdown {
    /// A table. The first row is its head.
    static func table(_ rows: [[String]]) -> String {
        guard let head = rows.first else { return "" }
        let lines = rows.map { "| " + $0.map { $0.replacing("|", with: "/") }.joined(separator: " | ") + " |" }
        return ([lines[0], "|" + String(repeating: "---|", count: head.count)] + lines.dropFirst())
            .joined(separator: "\n")
    }

    /// The median of a row, and its range if there are several values.
    static func cell(_ row: Row) -> String {
        let median = Report.number(row.median)
        if row.least == row.greatest { return median }
        return "\(median) [\(Report.number(row.least))-\(Report.number(row.greatest))]"
    }

    /// The names without repetitions, in the order of their first use.
    static func unique(_ names: [String]) -> [String] {
        var seen: Set<String> = []
        return names.filter { seen.insert($0).inserted }
    }
}
