// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import TunnelSystem

@Suite("Reading JSON") struct JSONReaderTests {
    private func read(_ text: String, depth: Int = 64, isWhole: Bool = false) throws -> JSON {
        try JSON.read(Array(text.utf8), depth: depth, isWhole: isWhole)
    }

    @Test("A document is read with its members in their order, and written again unchanged")
    func order() throws {
        let text = #"{"b":[1,-2,true,false,null,"x"],"a":{"d":{},"c":[]},"e":0.5}"#
        let json = try read(text)
        #expect(json.line == text)
        #expect(json["a"]?["c"] == .array([]) && json["e"] == .number("0.5") && json["f"] == nil)
        #expect(try read(json.text) == json)
        #expect(try read(" [ 1 , 2 ]\r\n\t") == .array([.integer(1), .integer(2)]))
    }

    @Test("Integers in any form are integers, and other numbers keep their text")
    func numbers() throws {
        for (text, value) in [
            ("0", 0), ("-0", 0), ("2.0", 2), ("2e3", 2000), ("-1", -1), ("9223372036854775807", Int64.max),
            ("-9223372036854775808", .min), ("0e999999999999999999999", 0), ("-0.00", 0), ("120e-1", 12),
            ("-1.20e1", -12),
            ("9007199254740992.0", 1 << 53),
        ] { #expect(try read(text) == .integer(value), "\(text)") }
        for text in [
            "0.5", "1e99", "9223372036854775808", "-1.25E-3", "1e-400", "1.00000000000000000001",
            "4.99999999999999999999",
            "9007199254740992.5", "12e-1", "1e-999999999999999999999",
        ] {
            #expect(try read(text) == .number(text), "\(text)")
        }
    }

    @Test("Whole numbers only: fractions, exponents and large numbers are refused")
    func wholeNumbers() throws {
        #expect(try read("[1,-1,0]", isWhole: true) == .array([.integer(1), .integer(-1), .integer(0)]))
        for text in ["2.0", "2e3", "-0", "9223372036854775808"] {
            #expect(throws: JSONError.self, "\(text)") { try read(text, isWhole: true) }
        }
    }

    @Test("Escapes are read, surrogate pairs together")
    func escapes() throws {
        #expect(try read(#""\"\\\/\b\f\n\r\t\u0041\ud83d\ude00é""#) == .string("\"\\/\u{8}\u{c}\n\r\tA😀é"))
        // A text that is written with escapes is read unchanged.
        let text = JSON.string("a\u{0}\u{7f}\u{202e}\"\\\n😀")
        #expect(try read(text.line) == text)
    }

    @Test("A member's name has at most 1,024 bytes, quotation marks included")
    func longNames() throws {
        func text(_ length: Int) -> String { "{\"" + String(repeating: "a", count: length - 2) + "\":1}" }
        #expect(try read(text(1_024)) != .null)
        #expect(throws: JSONError.self) { try read(text(1_025)) }
    }

    @Test("An object with two members of one name is refused, even if one is written with an escape")
    func repeatedNames() {
        for (text, name) in [
            (#"{"a":1,"a":1}"#, "a"), (#"{"a":1,"\u0061":2}"#, "a"), (#"[{"b":{"c":1,"d":2,"c":3}}]"#, "c"),
            ("{\"e\u{301}\":1,\"\u{e9}\":2}", "é"), (#"{"":1,"":2}"#, ""),
        ] {
            let error = #expect(throws: JSONError.self, "\(text)") { try read(text) }
            #expect(error?.repeatedName == name, "\(text)")
        }
        #expect(throws: Never.self) { try read(#"{"a":{"a":1},"b":[{"a":1},{"a":"a\":1,\"a"}]}"#) }
    }

    @Test("A byte order mark is refused with its name and the fix, and permitted in a text")
    func byteOrderMark() throws {
        for text in ["\u{feff}{}", "\u{feff}"] {
            let error = #expect(throws: JSONError.self) { try read(text) }
            #expect(error?.position == 0 && error?.problem.contains("byte order mark") == true)
            #expect(error?.problem.contains("save the text as UTF-8 without it") == true)
        }
        #expect(try read("\"\u{feff}\"") == "\u{feff}")
    }

    @Test("The error of a repeated name has the path of the member")
    func repeatedPaths() {
        for (text, path) in [
            (#"{"a":1,"a":1}"#, "a"), (#"{"x":{"y":{"a":1,"a":2}}}"#, "x.y.a"),
            (#"[{"b":[[],[{"c":1,"c":3}]]}]"#, "[0].b[1][0].c"),
        ] {
            let error = #expect(throws: JSONError.self, "\(text)") { try read(text) }
            #expect(error?.repeatedPath == path, "\(text)")
        }
        let malformed = #expect(throws: JSONError.self) { try read(#"{"a":[1,}]}"#) }
        #expect(malformed?.repeatedPath == nil)
    }

    @Test(
        "A text that is not JSON is refused",
        arguments: [
            "", " ", "{", "[", "\"", "[1,]", "{\"a\":1,}", "{\"a\"}", "{a:1}", "{\"a\" 1}", "[1 2]", "{}{}", "[]x",
            "nul", "TRUE",
            "NaN", "Infinity", "01", "-", "+1", ".5", "1.", "1e", "1e+", "0x1", "1e999", "'a'", "// a\n1", "\u{feff}1",
            "\"a\nb\"", "\"\u{1}\"", #""\x""#, #""\u12""#, #""\u12g4""#, #""\ud83d""#, #""\ude00""#, #""\ud83d\u0041""#,
            #""\"#, #"{"a":1,,"b":2}"#,
        ])
    func malformed(text: String) {
        let error = #expect(throws: JSONError.self) { try read(text) }
        #expect(error.map { $0.position <= text.utf8.count } == true && error?.repeatedName == nil)
    }

    @Test("Bytes that are not UTF-8, and other encodings, are refused")
    func encodings() {
        for bytes: [UInt8] in [
            [0x22, 0xff, 0x22], [0x22, 0xc0, 0x80, 0x22], [0x22, 0xed, 0xa0, 0x80, 0x22], [0x7b, 0, 0x7d, 0],
            [0, 0x7b, 0, 0x7d],
        ] { #expect(throws: JSONError.self, "\(bytes)") { try JSON.read(bytes) } }
    }

    @Test("Nesting is accepted to its limit and refused one deeper")
    func nesting() throws {
        func nested(_ count: Int) -> String {
            String(repeating: "[", count: count) + "1" + String(repeating: "]", count: count)
        }
        for limit in [1, 16, 64] {
            #expect(throws: Never.self) { try read(nested(limit), depth: limit) }
            let error = #expect(throws: JSONError.self) { try read(nested(limit + 1), depth: limit) }
            #expect(error?.position == limit)
            #expect(throws: JSONError.self) {
                try read(String(repeating: #"{"a":"#, count: limit + 1) + "1", depth: limit)
            }
        }
        // No nesting that a caller sends exhausts the stack.
        #expect(throws: JSONError.self) { try read(String(repeating: "[", count: 1_000_000)) }
    }

    @Test("No prefix of a document is a document, and no changed byte stops the reader")
    func mutations() throws {
        let bytes = Array(#"{"a":[1,2.5,"\u00e9\n"],"b":{"c":null,"d":true}}"#.utf8)
        for count in bytes.indices { #expect(throws: JSONError.self) { try JSON.read(Array(bytes[..<count])) } }
        var accepted = 0
        for index in bytes.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = bytes
                changed[index] = byte
                // Each accepted value can be written, and reading it again gives an equal value.
                guard let json = try? JSON.read(changed) else { continue }
                accepted += 1
                #expect(try JSON.read(Array(json.line.utf8)) == json)
            }
        }
        #expect(accepted >= bytes.count)
    }
}
