// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// Puts saved results together: prints the aims, and writes all results, tables and plots to a folder.
enum ReportCommand {
    static func run(_ arguments: [String]) throws {
        var rest = arguments[...]
        var folder: String?
        var files: [String] = []
        var mustBeComplete = false
        while let argument = rest.popFirst() {
            if argument == "--into" {
                guard let path = rest.popFirst() else { throw UsageError(message: "--into needs a folder") }
                folder = path
            } else if argument == "--complete" {
                mustBeComplete = true
            } else {
                files.append(argument)
            }
        }
        guard !files.isEmpty else { throw UsageError(message: "report needs files of results") }
        let all = try files.flatMap { try Results.load($0) }
        if let folder {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        }
        // The profile has its own files, because another command measures it.
        let results = all.filter { $0.title != ProfilePage.title }
        if let folder, let profile = all.first(where: { $0.title == ProfilePage.title }) {
            try profile.save(to: "\(folder)/where.json")
            try write(profile.profilePage, "where.md", into: folder)
            print("written to \(folder): where.json, where.md")
        }
        guard !results.isEmpty else { return }
        printAims(results)
        let missing = Aim.all.filter { ($0.value(results) ?? .nan).isNaN }.map(\.title)
        guard missing.isEmpty || !mustBeComplete else {
            throw BenchmarkError("not measured: \(missing.joined(separator: "; "))")
        }
        guard let folder else { return }
        try Results.save(results, to: "\(folder)/results.json")
        try write(MarkdownTables.text(results), "tables.md", into: folder)
        var plots = ["results.json", "tables.md"]
        for (name, plot) in [("tunnels.svg", Plots.tunnels(results)), ("stages.svg", Plots.stages(results))] {
            guard let plot else { continue }
            try write(plot, name, into: folder)
            plots.append(name)
        }
        print("\nwritten to \(folder): \(plots.joined(separator: ", "))")
    }

    private static func write(_ text: String, _ name: String, into folder: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: folder).appendingPathComponent(name), options: .atomic)
    }

    private static func printAims(_ results: [Results]) {
        let rows = [["Aim", "", "measured", ""]] + Aim.all.map { $0.cells(results) }
        let widths = (0..<4).map { column in rows.map { $0[column].count }.max() ?? 0 }
        print("")
        for row in rows {
            let cells = zip(row, widths).map { $0.padding(toLength: $1, withPad: " ", startingAt: 0) }
            print(cells.joined(separator: "   "))
        }
    }
}
