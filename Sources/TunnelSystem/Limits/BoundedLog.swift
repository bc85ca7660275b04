// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Says what happens often, at a bounded rate: the first few of a minute, and how many more there were.
package struct BoundedLog: Sendable {
    private let most: Int
    private var windowStart = Int64.min
    private var said = 0
    private var unsaid = 0

    private static let window: Int64 = 60_000_000_000

    /// - Parameter most: lines for each minute.
    package init(most: Int = 20) { self.most = most }

    /// The lines to write for one event: none, the event's, or that and one about those that were left out.
    package mutating func lines(_ text: @autoclosure () -> String, at now: Int64) -> [String] {
        var lines: [String] = []
        if windowStart == .min || now - windowStart >= Self.window {
            if unsaid > 0 { lines.append("\(unsaid) more were refused meanwhile") }
            (windowStart, said, unsaid) = (now, 0, 0)
        }
        if said < most {
            said += 1
            lines.append(text())
        } else {
            unsaid += 1
        }
        return lines
    }
}
