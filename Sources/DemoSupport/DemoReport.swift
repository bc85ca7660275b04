// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelIO
package import TunnelSystem

/// The error that ended a demonstration early, as a clause.
package struct DemoFailure: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// The figures and the closing lines of a demonstration.
package struct DemoReport {
    /// The reason for the early end, or `nil` if each step succeeded.
    package var failure: String?
    private var figures: [String: JSON] = [:]
    private var lines: [String] = []
    private var pings = (lost: 0, sent: 0)
    private let start = LaneClock.now()
    private var end: Int64?

    package init() {}

    /// A figure for the document; `null` if no step has set it.
    package subscript(name: String) -> JSON {
        get { figures[name] ?? .null }
        set { figures[name] = newValue }
    }

    /// A number for the document; 0 if no step has set it.
    package func number(_ name: String) -> JSON { figures[name] ?? .integer(0) }

    /// Adds a series of pings to the figures.
    package mutating func add(_ name: String, _ series: Pings) {
        self[name] = series.json
        pings = (pings.lost + series.lost, pings.sent + series.sent)
    }

    /// Adds the number of lost pings of all series to the closing lines.
    package mutating func summarizePings() { summarize("pings lost", "\(pings.lost) of \(pings.sent)") }

    /// Adds a closing line.
    package mutating func summarize(_ name: String, _ value: String) {
        lines.append("  \(name.padded(to: 26)) \(value)")
    }

    /// Stops the clock, and adds the time to the closing lines.
    package mutating func close() {
        end = LaneClock.now()
        summarize("time", Figure.seconds(elapsed))
    }

    private var elapsed: Duration { .nanoseconds((end ?? LaneClock.now()) - start) }

    /// The closing lines.
    package var summary: [String] { ["", "Summary"] + lines }

    /// The figures as one JSON document.
    /// - Parameters:
    ///   - mode: The kind of demonstration.
    ///   - first: The members before the elapsed time.
    ///   - members: The members after it.
    package func document(
        mode: String, first: [(String, JSON)] = [], _ members: KeyValuePairs<String, JSON>
    ) -> JSON {
        let opening: [(String, JSON)] = [
            ("ok", .bool(failure == nil)), ("error", failure.map { .string($0) } ?? .null),
            ("version", .string(programVersion)), ("mode", .string(mode)),
        ]
        let time = ("elapsedSeconds", JSON.decimal(elapsed.milliseconds / 1000, places: 3))
        return .object(of: opening + first + [time] + members.map { ($0.key, $0.value) })
    }
}
