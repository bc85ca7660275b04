// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
package import TunnelSystem

/// The flow of a demonstration: its steps, the figures of its document, and its closing lines.
package final class DemoReport {
    /// The reason for the early end, or `nil` if each step succeeded.
    package private(set) var failure: String?
    /// Whether the reason is that the task was cancelled.
    package private(set) var isInterrupted = false
    package let view: DemoView
    /// The figures as one document.
    package private(set) var json: JSON
    private var summary: [(name: String, value: String)] = []
    private var pings = (lost: 0, sent: 0)
    private let start = ContinuousClock.now
    /// The time that `{time}` in a line of the script counts from.
    private var clock = ContinuousClock.now

    /// - Parameter members: The members of the document before the first step.
    package init(_ view: DemoView, _ members: JSON) {
        (self.view, json) = (view, ["ok": true, "error": .null, "version": .string(programVersion)])
        guard case .object(let members) = members else { return }
        for member in members { self[member.name] = member.value }
    }

    /// Runs the demonstration, and shows the closing lines if each step succeeded.
    /// - Returns: The exit status.
    package func run(_ body: (DemoReport) async throws -> Void) async -> Int32 {
        try? await steps { try await body(self) }
        let elapsed = ContinuousClock.now - start
        self["elapsedSeconds"] = .decimal(elapsed.milliseconds / 1000, places: 3)
        guard failure == nil else { return isInterrupted ? ExitStatus.interrupted : ExitStatus.failure }
        summarize("time", Figure.seconds(elapsed))
        view.show(["", "Summary"] + summary.map { "  \($0.name.padded(to: 26)) \($0.value)" })
        return ExitStatus.success
    }

    /// Takes steps, and records their failure before it throws: the user may interrupt the caller's removal.
    package func steps(_ body: () async throws -> Void) async throws {
        do { try await body() } catch {
            let reason = (error as? CommandFailure)?.text ?? "\(error)"
            if failure == nil { fail(Task.isCancelled ? "interrupted" : reason) }
            throw error
        }
    }

    /// Shows a step.
    /// - Parameter body: Takes the step; returns its result, in words.
    package func step(_ name: String, _ body: () async throws -> String) async throws {
        try Task.checkCancellation()
        view.begin(name)
        view.finish(try await body())
    }

    private func fail(_ text: String) {
        if failure == nil {
            (failure, isInterrupted) = (text, Task.isCancelled)
            (self["ok"], self["error"]) = (false, .string(text))
        }
        view.finish(text, isFailure: true)
    }

    // MARK: - Figures and closing lines

    /// A figure of the document, by the names on the way to it: `ping.ipv4`.
    package subscript(path: String) -> JSON {
        get { path.split(separator: ".").reduce(json) { $0[String($1)] ?? .null } }
        set { Self.set(newValue, at: path.split(separator: ".")[...], in: &json) }
    }

    private static func set(_ value: JSON, at path: ArraySlice<Substring>, in json: inout JSON) {
        guard let name = path.first.map(String.init) else {
            json = value
            return
        }
        var members = if case .object(let members) = json { members } else { [JSON.Member]() }
        let index = members.firstIndex { $0.name == name } ?? members.endIndex
        if index == members.endIndex { members.append(JSON.Member(name: name, value: .null)) }
        set(value, at: path.dropFirst(), in: &members[index].value)
        json = .object(members)
    }

    /// Adds a closing line, in place of one with this name.
    /// - Returns: The value.
    @discardableResult
    package func summarize(_ name: String, _ value: String) -> String {
        summary.removeAll { $0.name == name }
        summary.append((name, value))
        return value
    }

    /// Adds a closing line with a time.
    /// - Returns: The time, in words.
    package func summarize(_ name: String, _ time: Duration) -> String { summarize(name, Figure.milliseconds(time)) }

    /// Adds a series of pings, which ends its step. A single first ping is not one of those whose losses are counted.
    package func add(_ path: String, _ series: Pings) {
        self[path] = series.json
        view.finish(series.text)
        guard series.sent > 1 else {
            summarize("first ping", series.times.first.map { Figure.decimal($0, places: 3) + " ms" } ?? "-")
            return
        }
        pings = (pings.lost + series.lost, pings.sent + series.sent)
        summarize("pings lost", "\(pings.lost) of \(pings.sent)")
    }

    // MARK: - namespaces.sh

    /// Shows a line that namespaces.sh reports; its first comment describes them.
    package func show(_ line: String) {
        let words = line.split(separator: "\t").map(String.init)
        let time = Figure.milliseconds(max(ContinuousClock.now - clock, .zero))
        func text(_ index: Int) -> String {
            guard words.count > index else { return "" }
            return words[index].split(separator: "{time}", omittingEmptySubsequences: false).joined(separator: time)
        }
        // `Int` would trap for more.
        let numbers = words.dropFirst(2).compactMap { Double($0) }.filter { $0.magnitude < 1e15 }
        switch words.first {
        case "title": view.open(text(1))
        case "begin":
            clock = .now
            view.begin(text(1))
        case "clock": clock = .now + .seconds(words.dropFirst().first.flatMap { Double($0) } ?? 0)
        case "finish": view.finish(text(1))
        case "fail": fail(text(1))
        case "pings" where numbers.count >= 2:
            let times = Array(numbers.dropFirst(2).prefix(3))
            add(text(1), Pings(sent: Int(numbers[0]), answered: Int(numbers[1]), times: times))
        case "transfer" where !numbers.isEmpty:
            let (rate, again) = (Figure.rate(numbers[0] * 1e6), numbers.dropFirst().first.map { Int($0) })
            self[text(1)] = [
                "megabitsPerSecond": .decimal(numbers[0], places: 1),
                "retransmissions": again.map { .integer($0) } ?? .null,
            ]
            summarize(text(2), rate)
            view.finish("\(rate) of TCP payload" + (again.map { ", \(Figure.grouped($0)) segments sent again" } ?? ""))
        case "without":
            self[text(1)] = .null
            view.finish("left out: \(text(2))")
        case "traffic" where numbers.count == 2:
            let (sent, received) = (Int(numbers[0]), Int(numbers[1]))
            self[text(1)] = ["bytesSent": .integer(sent), "bytesReceived": .integer(received)]
            summarize("WireGuard sent, received", "\(Figure.bytes(sent)), \(Figure.bytes(received))")
        case "figure": self[text(1)] = numbers.first.map { .integer(Int($0)) } ?? .null
        case "summary": summarize(text(1), text(2))
        default: break
        }
    }
}

/// The result of a series of pings.
package struct Pings {
    package var sent: Int
    package var answered: Int
    /// The least, mean and longest round trip in milliseconds; empty if no ping was answered.
    package var times: [Double] = []

    package var lost: Int { sent - answered }

    package var text: String {
        let words = times.isEmpty ? ["-", "-", "-"] : times.map { Figure.decimal($0, places: 3) }
        return "\(answered) of \(sent) answered, round trip \(words.joined(separator: " / ")) ms (min / mean / max)"
    }

    package var json: JSON {
        func time(_ index: Int) -> JSON { times.count > index ? .decimal(times[index], places: 4) : .null }
        return [
            "sent": .integer(sent), "answered": .integer(answered), "lost": .integer(lost),
            "minimumMilliseconds": time(0), "meanMilliseconds": time(1), "maximumMilliseconds": time(2),
        ]
    }
}

extension Pings {
    /// Creates the figures of a series.
    /// - Parameter roundTrips: The time of each answered ping, in milliseconds.
    package init(sent: Int, roundTrips: [Double]) {
        var times: [Double] = []
        if let least = roundTrips.min(), let most = roundTrips.max() {
            times = [least, roundTrips.reduce(0, +) / Double(roundTrips.count), most]
        }
        self.init(sent: sent, answered: roundTrips.count, times: times)
    }
}
