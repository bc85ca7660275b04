// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing

@Suite("The table of what others have for Apple's platforms")
struct ParityTests {
    /// The test files by the suites that they declare.
    private static func suites() throws -> [String: String] {
        var suites: [String: String] = [:]
        let tests = Samples.root.appendingPathComponent("Tests")
        let files = try #require(FileManager.default.enumerator(at: tests, includingPropertiesForKeys: nil))
        for case let file as URL in files where file.pathExtension == "swift" {
            let text = try String(contentsOf: file, encoding: .utf8)
            for match in text.matches(of: /(?:struct|class) (\w+Tests)\b/) {
                suites[String(match.1), default: ""] += text
            }
        }
        return suites
    }

    @Test("names tests that exist, in all rows but those that say why not")
    func testsExist() throws {
        let file = Samples.root.appendingPathComponent("docs/apple-parity.md")
        let suites = try Self.suites()
        var count = 0
        for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") where line.hasPrefix("| ") {
            let columns = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard columns.count >= 3, !columns[2].isEmpty, columns[2] != "Test" else {
                #expect(line.contains("not offered") || line.hasPrefix("| Theirs"), "\(line)")
                continue
            }
            let parts = columns[2].trimmingCharacters(in: ["`"]).split(separator: ".")
            let text = try #require(parts.first.flatMap { suites[String($0)] }, "\(columns[2])")
            if let name = parts.dropFirst().first { #expect(text.contains("func \(name)("), "\(columns[2])") }
            count += 1
        }
        #expect(count > 50)
    }
}
