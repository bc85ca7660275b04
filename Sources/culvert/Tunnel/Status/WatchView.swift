// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import PacketTunnel
import TunnelSystem

/// The output of `status --watch`.
protocol WatchView: AnyObject {
    /// Shows an update of the tunnel.
    func show(_ tunnel: TunnelSnapshot)
    /// Shows the reason that there are no more updates.
    func end(_ text: String)
}

/// Prints one line for each update: for pipes.
final class LineWatchView: WatchView {
    private let console: Console
    private let json: Bool

    init(_ console: Console, json: Bool) {
        (self.console, self.json) = (console, json)
    }

    func show(_ tunnel: TunnelSnapshot) {
        guard !json else {
            console.line(tunnel.watchJSON.line)
            return
        }
        func amount(_ sign: String, _ bytes: UInt64?, _ rate: Double?) -> String {
            "\(sign) \(bytes.map { Figure.bytes($0) } ?? "-") (\(rate.map { StatusText.rate($0) } ?? "-"))"
        }
        console.line(
            [
                tunnel.name, tunnel.state, tunnel.endpoint ?? "-", "handshake \(StatusText.age(tunnel.handshakeAge))",
                amount("received", tunnel.receivedBytes, tunnel.rates?.received),
                amount("sent", tunnel.sentBytes, tunnel.rates?.sent),
            ].joined(separator: "  "))
    }

    func end(_ text: String) {
        // The text is not JSON, so it is written to standard error.
        if json { console.problem(text) } else { console.line(text) }
    }
}

/// A view that is redrawn in place: for terminals.
final class LiveWatchView: WatchView {
    private let console: Console
    private let size: () -> TerminalSize
    private let text: StatusText
    private var received: [Double] = []
    private var sent: [Double] = []
    private var lineCount = 0
    /// The terminal's size when the lines were drawn.
    private var drawn: TerminalSize?
    private var hasEnded = false

    /// - Parameter size: the size of the terminal, which may change.
    init(_ console: Console, size: @escaping () -> TerminalSize) {
        self.console = console
        self.size = size
        text = StatusText(paint: Paint(console))
        // Hides the cursor.
        console.write(.output, "\u{1b}[?25l")
    }

    deinit { restore() }

    func show(_ tunnel: TunnelSnapshot) {
        if let rates = tunnel.rates {
            received.append(rates.received)
            sent.append(rates.sent)
            for _ in 0..<max(0, received.count - 512) {
                received.removeFirst()
                sent.removeFirst()
            }
        }
        let size = size()
        // The cursor is below the last line, which takes a row as well.
        draw(Self.fitted(lines(tunnel, width: max(size.columns, 1)), rows: max(size.rows - 1, 1)), size)
    }

    func end(_ text: String) {
        restore()
        if !text.isEmpty { console.line(text) }
    }

    private func restore() {
        guard !hasEnded else { return }
        hasEnded = true
        console.write(.output, "\u{1b}[?25h")
    }

    /// The order in which lines are left out if there are few rows: the first of these first.
    private enum Rank: Int {
        case hint, graph, traffic, fact, state
    }

    private typealias Line = (rank: Rank, text: String)

    private static func fitted(_ lines: [Line], rows: Int) -> [String] {
        var lines = lines
        while lines.count > rows, let least = lines.map(\.rank.rawValue).min() {
            guard let index = lines.lastIndex(where: { $0.rank.rawValue == least }) else { break }
            lines.remove(at: index)
        }
        return lines.map(\.text)
    }

    /// The lines of an update, none longer than the terminal is wide.
    private func lines(_ tunnel: TunnelSnapshot, width: Int) -> [Line] {
        func fitted(_ text: String) -> String { String(text.prefix(width)) }
        let name = fitted(tunnel.name + "  ")
        var lines: [Line] = [(.state, text.paint(name, .bold) + text.stateText(tunnel, width: width - name.count))]
        func add(_ key: String, _ value: String) { lines.append((.fact, fitted("  \(key.padded(to: 12))\(value)"))) }
        if let error = tunnel.report?.status.error { add("error", error.message) }
        add("endpoint", tunnel.endpoint ?? "not known yet")
        add("handshake", StatusText.age(tunnel.handshakeAge))
        graph("received", "▼", received, tunnel.receivedBytes, .green, width, &lines)
        graph("sent", "▲", sent, tunnel.sentBytes, .cyan, width, &lines)
        lines.append((.hint, text.paint(fitted("  Ctrl-C ends this view; the tunnel stays up"), .grey)))
        return lines
    }

    private func graph(
        _ key: String, _ sign: String, _ values: [Double], _ bytes: UInt64?, _ colour: Paint.Colour, _ width: Int,
        _ lines: inout [Line]
    ) {
        let rate = values.last.map { StatusText.rate($0) } ?? "-"
        let total = bytes.map { Figure.bytes($0) } ?? "-"
        let head = "  \(key.padded(to: 12))\(sign) \(rate.padded(to: 14))\(total.padded(to: 10))"
        let peak = values.max().map { "  peak \(StatusText.rate($0))" } ?? ""
        lines.append((.traffic, String((head + peak).prefix(width))))
        let indent = String("  ".prefix(width - 1))
        lines.append((.graph, indent + text.paint(Sparkline.text(values, width: min(width - 3, 120)), colour)))
    }

    /// Replaces the lines that were drawn before, in one write.
    private func draw(_ lines: [String], _ size: TerminalSize) {
        var output = ""
        if let drawn, drawn != size {
            // The terminal has wrapped the former lines in an unknown way.
            output = "\u{1b}[2J\u{1b}[H"
        } else if lineCount > 0 {
            output = "\u{1b}[\(lineCount)A"
        }
        for line in lines { output += "\r\u{1b}[2K\(line)\n" }
        // Clears the rest of a longer former output.
        output += "\u{1b}[J"
        lineCount = lines.count
        drawn = size
        console.write(.output, output)
    }
}
