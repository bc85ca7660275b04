// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Results as Markdown.
enum MarkdownTables {
    static func text(_ results: [Results]) -> String {
        var parts = ["# Measured figures", "Written by `make bench`; [README.md](README.md) tells how to repeat it."]
        parts.append(origin(results))
        parts.append("## Aims\n\n" + table([["Aim", "", "Measured", ""]] + Aim.all.map { $0.cells(results) }))
        for result in results {
            parts.append(result.title == "tunnel" ? tunnels(result.rows) : suites(result))
        }
        return parts.joined(separator: "\n\n") + "\n"
    }

    private static func origin(_ results: [Results]) -> String {
        guard let first = results.first else { return "" }
        var lines = ["\(first.machine.line); \(first.date)."]
        for result in results where !result.settings.isEmpty { lines.append("- \(result.title): \(result.settings)") }
        for (name, version) in results.flatMap({ Array($0.programs) }).sorted(by: { $0.key < $1.key }) {
            lines.append("- \(name): \(version)")
        }
        return lines.enumerated().map { $0 == 0 && lines.count > 1 ? $1 + "\n" : $1 }.joined(separator: "\n")
    }

    /// Contenders side by side.
    private static func tunnels(_ rows: [Row]) -> String {
        let names = unique(rows.filter { $0.unit != .ratio }.map(\.name))
        let ratios = unique(rows.filter { $0.unit == .ratio }.map(\.name))
        var table = [
            ["Median [least-greatest]"] + names + ratios.map { "ratio to \($0.split(separator: "/ ").last ?? "")" }
        ]
        for suite in unique(rows.map(\.suite)) {
            let group = rows.filter { $0.suite == suite }
            guard let unit = group.first?.unit.rawValue else { continue }
            table.append(
                ["\(suite), \(unit)"]
                    + (names + ratios).map { name in group.first { $0.name == name }.map(cell) ?? "" })
        }
        return "## Whole tunnels\n\n" + self.table(table)
    }

    private static func suites(_ result: Results) -> String {
        let heading = ["inside": "Inside", "stages": "Stages", "allocations": "Allocations", "gateway": "Gateway"][
            result.title]
        var parts = ["## \(heading ?? result.title)"]
        for suite in unique(result.rows.map(\.suite)) {
            let group = result.rows.filter { $0.suite == suite }
            let rows = group.map { [$0.name, cell($0), $0.unit.rawValue, $0.note ?? ""] }
            parts.append(table([[suite, "Median [least-greatest]", "", ""]] + rows))
        }
        return parts.joined(separator: "\n\n")
    }

    private static func cell(_ row: Row) -> String {
        let median = Report.number(row.median)
        if row.least == row.greatest { return median }
        return "\(median) [\(Report.number(row.least))-\(Report.number(row.greatest))]"
    }

    private static func table(_ rows: [[String]]) -> String {
        guard let head = rows.first else { return "" }
        let lines = rows.map { "| " + $0.map { $0.replacing("|", with: "/") }.joined(separator: " | ") + " |" }
        return ([lines[0], "|" + String(repeating: "---|", count: head.count)] + lines.dropFirst())
            .joined(separator: "\n")
    }

    private static func unique(_ names: [String]) -> [String] {
        var seen: Set<String> = []
        return names.filter { seen.insert($0).inserted }
    }
}
