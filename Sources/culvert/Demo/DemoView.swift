// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport

/// Shows the steps of a demonstration as they happen.
protocol DemoView: AnyObject {
    /// Shows what this is.
    func open(_ title: String)
    /// Shows that a step has begun.
    func begin(_ step: String)
    /// Shows how far the present step is.
    func progress(_ text: String)
    /// Shows what came of the present step.
    func finish(_ text: String)
    /// Shows why the present step failed.
    func fail(_ text: String)
    /// Shows lines as they are.
    func show(_ lines: [String])
}

/// Shows nothing: for output that is one document.
final class SilentView: DemoView {
    func open(_ title: String) {}
    func begin(_ step: String) {}
    func progress(_ text: String) {}
    func finish(_ text: String) {}
    func fail(_ text: String) {}
    func show(_ lines: [String]) {}
}

/// The width that the names of steps are padded to.
private let stepWidth = 15

/// One line for each step, when it is over. No escape codes.
final class PlainView: DemoView {
    private let console: Console
    private var step = ""

    init(console: Console) { self.console = console }

    func open(_ title: String) {
        console.line(title)
        console.line()
    }

    func begin(_ step: String) { self.step = step }

    func progress(_ text: String) {}

    func finish(_ text: String) { console.line("ok      \(step.padded(to: stepWidth)) \(text)") }

    func fail(_ text: String) { console.line("FAILED  \(step.padded(to: stepWidth)) \(text)") }

    func show(_ lines: [String]) { for line in lines { console.line(line) } }
}

/// Redraws the line of the present step on a terminal, in colour.
final class LiveView: DemoView {
    private enum Colour: String {
        case red = "31"
        case green = "32"
        case cyan = "36"
        case faint = "2"
        case bold = "1"
    }

    private static let spinner: [Character] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]

    private let console: Console
    private var step = ""
    private var frame = 0

    init(console: Console) { self.console = console }

    func open(_ title: String) {
        console.line(paint(title, .bold))
        console.line()
    }

    func begin(_ step: String) {
        self.step = step
        redraw("", ended: false, mark: nil)
    }

    func progress(_ text: String) {
        frame += 1
        redraw(text, ended: false, mark: nil)
    }

    func finish(_ text: String) { redraw(text, ended: true, mark: paint("✓", .green)) }

    func fail(_ text: String) { redraw(text, ended: true, mark: paint("✗", .red)) }

    func show(_ lines: [String]) { for line in lines { console.line(line) } }

    private func redraw(_ text: String, ended: Bool, mark: String?) {
        let spinner = LiveView.spinner[frame % LiveView.spinner.count]
        let room = console.columns - stepWidth - 6
        // A line that the terminal wraps could not be redrawn; the last state of a step may wrap.
        let shown = ended || text.count <= room ? text : String(text.prefix(max(room, 0)))
        let start = mark ?? paint(String(spinner), .cyan)
        console.write(
            .output,
            "\r\u{1b}[2K  \(start) \(paint(step.padded(to: stepWidth), .bold)) \(shown)" + (ended ? "\n" : ""))
    }

    private func paint(_ text: String, _ colour: Colour) -> String {
        "\u{1b}[\(colour.rawValue)m\(text)\u{1b}[0m"
    }
}
