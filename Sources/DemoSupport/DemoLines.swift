// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import TunnelSystem

/// Shows the lines that namespaces.sh reports (its first comment describes them), and keeps their figures.
package struct DemoLines {
    package private(set) var report = DemoReport()
    private let view: DemoView
    private var clock = ContinuousClock.now

    package init(view: DemoView) { self.view = view }

    /// Shows a line.
    package mutating func show(_ line: String) {
        let words = line.split(separator: "\t").map(String.init)
        let time = Figure.milliseconds(max(ContinuousClock.now - clock, .zero))
        func text(_ index: Int) -> String {
            guard words.count > index else { return "" }
            return words[index].split(separator: "{time}", omittingEmptySubsequences: false).joined(separator: time)
        }
        let numbers = words.dropFirst(2).compactMap { Double($0) }
        switch words.first {
        case "title": view.open(text(1))
        case "begin":
            clock = .now
            view.begin(text(1))
        case "clock": clock = .now + .seconds(words.dropFirst().first.flatMap { Double($0) } ?? 0)
        case "finish": view.finish(text(1))
        case "fail":
            report.failure = report.failure ?? text(1)
            view.fail(text(1))
        case "pings":
            guard numbers.count >= 2 else { return }
            let pings = Pings(
                sent: Int(numbers[0]), answered: Int(numbers[1]), times: Array(numbers.dropFirst(2).prefix(3)))
            // The first one is not one of the pings whose losses are counted.
            if text(1) == "firstPing" { report[text(1)] = pings.json } else { report.add(text(1), pings) }
            view.finish(pings.text)
        case "transfer":
            guard let megabits = numbers.first else { return }
            let (rate, again) = (Figure.rate(megabits * 1e6), numbers.dropFirst().first.map { Int($0) })
            report[text(1)] = [
                "megabitsPerSecond": .decimal(megabits, places: 1),
                "retransmissions": again.map { .integer($0) } ?? .null,
            ]
            report.summarize(text(1), rate)
            view.finish("\(rate) of TCP payload" + (again.map { ", \(Figure.grouped($0)) segments sent again" } ?? ""))
        case "without":
            report[text(1)] = false
            view.finish("left out: \(text(2))")
        case "figure": report[text(1)] = numbers.first.map { .integer(Int($0)) } ?? .null
        case "summary": report.summarize(text(1), text(2))
        default: break
        }
    }

    /// Ends the report, and shows the closing lines if each step succeeded.
    /// - Parameter failure: The reason for the early end, or `nil`; a reason that the script reported comes first.
    package mutating func close(_ failure: String?) {
        guard failure == nil else {
            report.failure = report.failure ?? failure
            return
        }
        report.summarizePings()
        report.close()
        view.show(report.summary)
    }
}
