// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import Testing

@Suite("Sparklines")
struct SparklineTests {
    @Test("A sparkline scales to its largest value and shows the latest values that fit")
    func sparkline() {
        #expect(Sparkline.text([0, 1, 7], width: 10) == "▁▂█")
        #expect(Sparkline.text([9, 0, 4, 8], width: 3) == "▁▅█")
        #expect(Sparkline.text([0, 0], width: 5) == "▁▁")
        #expect(Sparkline.text([], width: 5) == "")
        #expect(Sparkline.text([1], width: -1) == "")
    }
}
