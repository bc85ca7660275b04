// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Limits the log lines about a frequent event: the first few of a minute, and later the number of those left out.
package struct BoundedLog: Sendable {
    private let most: Int
    private var windowStart = Int64.min
    private var said = 0
    private var unsaid = 0

    private static let window: Int64 = 60_000_000_000

    /// - Parameter most: lines for each minute.
    package init(most: Int = 20) { self.most = most }

    /// Returns the lines to log for one event: none, or the event's line, preceded at the start of a minute by a line
    /// with the number of events that were left out before.
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
