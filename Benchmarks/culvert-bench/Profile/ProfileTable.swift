// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The figures of all rounds and contenders.
struct ProfileTable {
    private var titles: [String] = []
    private var units: [String: Unit] = [:]
    private let contenders: [String]
    private var samples: [String: [String: [Double]]] = [:]

    /// - Parameter contenders: their names; the first is compared with the others.
    init(contenders: [String]) { self.contenders = contenders }

    /// Adds the figures of one round of one contender.
    mutating func add(_ contender: String, _ figures: [ProfileFigure]) {
        for figure in figures {
            let title = figure.title
            if units.updateValue(figure.unit, forKey: title) == nil { titles.append(title) }
            samples[title, default: [:]][contender, default: []].append(figure.value)
        }
    }

    /// A row for each figure and contender, without the figures that are zero for all of them.
    var rows: [Row] {
        titles.flatMap { title -> [Row] in
            guard let unit = units[title] else { return [] }
            let rows = contenders.map { Row(title, $0, unit, samples: samples[title]?[$0] ?? []) }
            return rows.contains { $0.greatest.isFinite && $0.greatest > 0 } ? rows : []
        }
    }
}

/// The page about the processor time of one gigabyte.
enum ProfilePage {
    /// The title of its results.
    static let title = "where"

    /// - Parameters:
    ///   - origin: the machine, the date, the settings and the versions.
    ///   - rows: the rows of ``ProfileTable``, those of the contender that the others are compared with first.
    static func text(origin: String, rows: [Row]) -> String {
        let parts = [
            "# Processor time of one gigabyte",
            "Written by `scripts/bench where`; [README.md](README.md#processor-time-per-gigabyte) explains the rows.",
            origin,
            "## Processor time",
            tables(rows.filter { isTime($0.unit) }),
            "## System calls, switches and packets",
            tables(rows.filter { !isTime($0.unit) }),
        ]
        return parts.filter { !$0.isEmpty }.joined(separator: "\n\n") + "\n"
    }

    private static func isTime(_ unit: Unit) -> Bool {
        unit == .secondsPerGigabyte || unit == .percent || unit == .gigabitsPerSecond
    }

    /// The least value that has a row. Totals include the smaller values.
    private static func least(_ unit: Unit) -> Double {
        switch unit {
        case .secondsPerGigabyte: 0.01
        case .perGigabyte: 100
        default: 0
        }
    }

    /// A table for each part: the contenders side by side, and the differences of the first to each other one.
    private static func tables(_ rows: [Row]) -> String {
        let names = Markdown.unique(rows.map(\.name))
        let titles = Markdown.unique(rows.map(\.suite))
        let parts = Markdown.unique(titles.map { split($0).part })
        return parts.compactMap { part -> String? in
            var table = [[part] + names + names.dropFirst().map { "more than \($0)" }]
            for title in titles where split(title).part == part {
                let group = rows.filter { $0.suite == title }
                guard let first = group.first, group.contains(where: { $0.median >= least(first.unit) }) else {
                    continue
                }
                table.append(
                    ["\(split(title).name), \(first.unit.rawValue)"]
                        + names.map { name in group.first { $0.name == name }.map(Markdown.cell) ?? "" }
                        + group.dropFirst().map { difference(first, $0) })
            }
            return table.count > 1 ? Markdown.table(table) : nil
        }.joined(separator: "\n\n")
    }

    private static func split(_ title: String) -> (part: String, name: String) {
        guard let range = title.firstRange(of: ProfileFigure.separator) else { return ("", title) }
        return (String(title[..<range.lowerBound]), String(title[range.upperBound...]))
    }

    /// The median of the differences, round by round.
    private static func difference(_ first: Row, _ other: Row) -> String {
        guard first.samples.count == other.samples.count else { return "" }
        let row = Row(first.suite, "", first.unit, samples: zip(first.samples, other.samples).map { $0 - $1 })
        let text = Report.number(row.median.magnitude)
        return row.median > 0 ? "+\(text)" : row.median < 0 ? "-\(text)" : text
    }
}
