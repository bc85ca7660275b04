// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A row of values as bars of one character each.
package enum Sparkline {
    private static let bars: [Character] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]

    /// The bars of the last `width` values, scaled from zero to the largest of them; empty without values.
    package static func text(_ values: [Double], width: Int) -> String {
        let shown = values.suffix(max(width, 0))
        guard let largest = shown.max() else { return "" }
        return String(
            shown.map { value in
                guard largest > 0, value > 0 else { return bars[0] }
                let level = Int((value / largest * Double(bars.count - 1)).rounded())
                return bars[min(max(level, 0), bars.count - 1)]
            })
    }
}
