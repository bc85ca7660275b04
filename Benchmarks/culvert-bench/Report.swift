// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// Rows as an aligned table.
enum Report {
    static func printTable(_ rows: [Row]) {
        var suite = ""
        let width = max(rows.map(\.name.count).max() ?? 0, 20)
        for row in rows {
            if row.suite != suite {
                suite = row.suite
                print("\n\(suite)")
                print(
                    "  " + pad("", width) + right("median", 13) + right("min", 13) + right("max", 13) + "  unit")
            }
            print(line(row, width))
        }
    }

    private static func line(_ row: Row, _ width: Int) -> String {
        let spread =
            row.least == row.greatest
            ? right("", 26) : right(number(row.least), 13) + right(number(row.greatest), 13)
        return "  " + pad(row.name, width) + right(number(row.median), 13) + spread + "  " + row.unit.rawValue
            + (row.note.map { "  (\($0))" } ?? "")
    }

    /// Three significant digits, and no more than that after the point.
    static func number(_ value: Double) -> String {
        guard value.isFinite else { return "-" }
        let magnitude = value.magnitude
        let digits = magnitude >= 100 || magnitude == 0 ? 0 : magnitude >= 10 ? 1 : magnitude >= 1 ? 2 : 3
        return String(format: "%.\(digits)f", value)
    }

    private static func pad(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private static func right(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }
}

/// The machine's properties, without which figures have little value.
struct Machine: Codable {
    var processor: String
    var cores: Int
    var system: String
    var kernel: String
    var isRelease: Bool

    static var present: Machine {
        Machine(
            processor: processorName ?? "unknown", cores: ProcessInfo.processInfo.activeProcessorCount,
            system: ProcessInfo.processInfo.operatingSystemVersionString, kernel: kernelName ?? "",
            isRelease: isReleaseBuild)
    }

    var line: String {
        ["\(processor)", "\(cores) cores", system, kernel, isRelease ? "release" : "DEBUG: figures mean nothing"]
            .filter { !$0.isEmpty }.joined(separator: ", ")
    }

    private static var processorName: String? {
        guard let text = try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8) else { return nil }
        let line = text.split(separator: "\n").first { $0.hasPrefix("model name") }
        return line?.split(separator: ":").last.map { $0.trimmingCharacters(in: .whitespaces) }
    }

    private static var kernelName: String? {
        guard let text = try? String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8) else { return nil }
        return "Linux \(text.trimmingCharacters(in: .whitespacesAndNewlines))"
    }

    private static var isReleaseBuild: Bool {
        var isDebug = false
        assert(
            {
                isDebug = true
                return true
            }())
        return !isDebug
    }
}
