// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import Testing
import TunnelSystem

@Suite("Figures, tables and JSON")
struct OutputTests {
    @Test(
        "A number is rounded to the given decimal places, with commas between thousands",
        arguments: [
            (0.0, 0, "0"), (1234.5678, 2, "1,234.57"), (0.05, 3, "0.050"), (-0.004, 2, "0.00"), (-1.5, 1, "-1.5"),
            (999.9996, 3, "1,000.000"), (.infinity, 1, "-"), (.nan, 1, "-"), (1e300, 0, "-"),
        ])
    func decimals(value: Double, places: Int, text: String) {
        #expect(Figure.decimal(value, places: places) == text)
    }

    @Test(
        "Bytes are shown in the largest suitable unit",
        arguments: [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_234_567, "1.2 MB"), (5_000_000_000_000, "5.0 TB")])
    func bytes(count: Int, text: String) {
        #expect(Figure.bytes(count) == text)
    }

    @Test("Durations and rates have decimal places that depend on their size")
    func durations() {
        #expect(Figure.milliseconds(.microseconds(62)) == "0.062 ms")
        #expect(Figure.milliseconds(.microseconds(12_346)) == "12.35 ms")
        #expect(Figure.milliseconds(.seconds(2)) == "2,000.0 ms")
        #expect(Figure.seconds(.milliseconds(1_260)) == "1.3 s")
        #expect(Figure.rate(12_340_000) == "12.3 Mbit/s")
        #expect(Figure.rate(3_456_000_000) == "3,456 Mbit/s")
    }

    @Test("A table aligns numbers right and other text left")
    func table() {
        var table = TextTable(["", "client", "server", "address", "seen"])
        table.add(["packets", "12", "3,456,789", "10.66.0.2", "-"])
        table.add(["x", "1", "0.5 kB", "fd00::1, 10.66.0.3", "12 s ago"])
        table.add(["y", "-"])
        #expect(
            table.lines == [
                "         client     server  address                 seen",
                "-------  ------  ---------  ------------------  --------",
                "packets      12  3,456,789  10.66.0.2                  -",
                "x             1     0.5 kB  fd00::1, 10.66.0.3  12 s ago",
                "y             -",
            ])
    }

    @Test("JSON keeps the order of members, escapes text, and rejects numbers that are not finite")
    func json() {
        let document: JSON = [
            "z": .array([.integer(1), .null, true]), "a": .string("\"\\\n\u{1}é"), "n": .decimal(1234.5, places: 2),
            "i": .decimal(.infinity, places: 1), "empty": .object([]), "none": .array([]),
        ]
        #expect(
            document.text == """
                {
                  "z": [
                    1,
                    null,
                    true
                  ],
                  "a": "\\"\\\\\\n\\u0001é",
                  "n": 1234.50,
                  "i": null,
                  "empty": {},
                  "none": []
                }
                """)
    }

    @Test(
        "Escape codes are written only to a terminal, unless NO_COLOR is set or the terminal is dumb",
        arguments: [
            (true, "xterm", "", true), (false, "xterm", "", false), (true, "xterm", "1", false),
            (true, "dumb", "", false),
            (true, "", "", false),
        ])
    func escapeCodes(isTerminal: Bool, term: String, noColor: String, allowed: Bool) {
        let environment = ["TERM": term, "NO_COLOR": noColor]
        #expect(Console.allowsEscapeCodes(isTerminal: isTerminal) { environment[$0] } == allowed)
    }

    @Test("A document can be written in one line")
    func line() {
        let json: JSON = ["a": .array([.integer(1), .null]), "b\n": ["c": "d\"e"]]
        #expect(json.line == #"{"a":[1,null],"b\n":{"c":"d\"e"}}"#)
        #expect(JSON.array([]).line == "[]")
    }
}
