// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import CommandLineSupport

/// Shows the steps of a demonstration as they happen.
package final class DemoView {
    package enum Style {
        /// Shows nothing: for output that is one document.
        case silent
        /// One line for each step, when it is over. No escape codes.
        case plain
        /// Redraws the line of the present step on a terminal, in colour.
        case live
    }

    /// The width that the names of steps are padded to.
    private static let stepWidth = 15
    private static let spinner: [Character] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]

    private let style: Style
    private let console: Console
    private let paint: Paint
    private var (step, frame) = ("", 0)

    package init(_ style: Style, console: Console) {
        (self.style, self.console, paint) = (style, console, Paint(console))
    }

    /// Shows the title.
    package func open(_ title: String) { show([style == .live ? paint(title, .bold) : title, ""]) }

    /// Shows that a step has begun.
    package func begin(_ step: String) {
        self.step = step
        if style == .live { redraw("", mark: nil) }
    }

    /// Shows how far the present step is.
    package func progress(_ text: String) {
        frame += 1
        if style == .live { redraw(text, mark: nil) }
    }

    /// Shows the result of the present step, or the reason for its failure.
    package func finish(_ text: String, isFailure: Bool = false) {
        if style == .live { return redraw(text, mark: isFailure ? paint("✗", .red) : paint("✓", .green)) }
        show(["\(isFailure ? "FAILED" : "ok    ")  \(step.padded(to: Self.stepWidth)) \(text)"])
    }

    /// Shows lines without a change.
    package func show(_ lines: [String]) {
        guard style != .silent else { return }
        for line in lines { console.line(line) }
    }

    /// - Parameter mark: The mark of the step's result, or `nil` while the step continues.
    private func redraw(_ text: String, mark: String?) {
        let room = console.columns - Self.stepWidth - 6
        // A line that the terminal wraps could not be redrawn; the last state of a step may wrap.
        let shown = mark != nil || text.count <= room ? text : String(text.prefix(max(room, 0)))
        let start = mark ?? paint(String(Self.spinner[frame % Self.spinner.count]), .cyan)
        let name = paint(step.padded(to: Self.stepWidth), .bold)
        console.write(.output, "\r\u{1b}[2K  \(start) \(name) \(shown)" + (mark == nil ? "" : "\n"))
    }
}
