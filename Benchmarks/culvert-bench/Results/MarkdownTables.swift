// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Results as Markdown.
enum MarkdownTables {
    static func text(_ results: [Results]) -> String {
        var parts = ["# Measured figures", "Written by `make bench`; [README.md](README.md) tells how to repeat it."]
        parts.append(origin(results))
        parts.append("## Aims\n\n" + Markdown.table([["Aim", "", "Measured", ""]] + Aim.all.map { $0.cells(results) }))
        for result in results {
            parts.append(result.title == "tunnel" ? tunnels(result.rows) : suites(result))
        }
        return parts.joined(separator: "\n\n") + "\n"
    }

    /// The machine, the date, the settings and the versions of the programs.
    static func origin(_ results: [Results]) -> String {
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
        let names = Markdown.unique(rows.filter { $0.unit != .ratio }.map(\.name))
        let ratios = Markdown.unique(rows.filter { $0.unit == .ratio }.map(\.name))
        var table = [
            ["Median [least-greatest]"] + names + ratios.map { "ratio to \($0.split(separator: "/ ").last ?? "")" }
        ]
        for suite in Markdown.unique(rows.map(\.suite)) {
            let group = rows.filter { $0.suite == suite }
            guard let unit = group.first?.unit.rawValue else { continue }
            table.append(
                ["\(suite), \(unit)"]
                    + (names + ratios).map { name in group.first { $0.name == name }.map(Markdown.cell) ?? "" })
        }
        return "## Whole tunnels\n\n" + Markdown.table(table)
    }

    private static func suites(_ result: Results) -> String {
        let heading = ["inside": "Inside", "stages": "Stages", "allocations": "Allocations", "gateway": "Gateway"][
            result.title]
        var parts = ["## \(heading ?? result.title)"]
        for suite in Markdown.unique(result.rows.map(\.suite)) {
            let group = result.rows.filter { $0.suite == suite }
            let rows = group.map { [$0.name, Markdown.cell($0), $0.unit.rawValue, $0.note ?? ""] }
            parts.append(Markdown.table([[suite, "Median [least-greatest]", "", ""]] + rows))
        }
        return parts.joined(separator: "\n\n")
    }
}

extension Results {
    /// The page of a profile.
    var profilePage: String { ProfilePage.text(origin: MarkdownTables.origin([self]), rows: rows) }
}
