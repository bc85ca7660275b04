// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// docs/trust-pinning.md names a test for each hole and each feature. A name that is nobody's proves nothing.
@Suite("Tests that the documentation names")
struct NamedTestsTests {
    private static let package = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The functions of each suite.
    private static func suites() throws -> [String: Set<Substring>] {
        var suites: [String: Set<Substring>] = [:]
        for folder in ["TrustPinningTests", "TrustPinningNIOTests", "CulvertTests"] {
            let path = package.appending(path: "Tests/\(folder)")
            for name in try FileManager.default.contentsOfDirectory(atPath: path.path) where name.hasSuffix(".swift") {
                let text = String(decoding: try Data(contentsOf: path.appending(path: name)), as: UTF8.self)
                var suite = ""
                var isTest = false
                for line in text.split(separator: "\n") {
                    let words = line.split { !$0.isLetter && !$0.isNumber && $0 != "@" && $0 != "_" }
                    if !line.hasPrefix(" "), let place = words.firstIndex(of: "struct"), place + 1 < words.count {
                        suite = String(words[place + 1])
                        suites[suite, default: []] = []
                    }
                    if words.first == "@Test" { isTest = true }
                    guard isTest, let place = words.firstIndex(of: "func"), place + 1 < words.count else { continue }
                    suites[suite, default: []].insert(words[place + 1])
                    isTest = false
                }
            }
        }
        return suites
    }

    @Test("are there, each of them")
    func named() throws {
        let suites = try Self.suites()
        let text = String(
            decoding: try Data(contentsOf: Self.package.appending(path: "docs/trust-pinning.md")), as: UTF8.self)
        var count = 0
        for heading in ["## What others got wrong", "## What TrustKit has"] {
            let start = try #require(text.firstRange(of: heading))
            let section = text[start.upperBound...].split(separator: "\n## ", maxSplits: 1)[0]
            let rows = section.split(separator: "\n").filter { $0.hasPrefix("| ") }.dropFirst()
            for row in rows {
                let cells = row.split(separator: "|", omittingEmptySubsequences: false)
                var suite = "KnownHolesTests"
                let names = cells[cells.count - 2].split(separator: "`", omittingEmptySubsequences: false)
                    .enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
                // Swizzling is what there is none of.
                #expect(!names.isEmpty || row.contains("none:"), "\(row)")
                for name in names {
                    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
                    if let first = parts.first, first.hasSuffix("Tests") { suite = String(first) }
                    let functions = try #require(suites[suite], "no suite \(suite)")
                    if parts.count == 2 || !name.hasSuffix("Tests") {
                        #expect(functions.contains(parts[parts.count - 1]), "no test \(name) in \(suite)")
                    }
                    #expect(!functions.isEmpty, "\(suite)")
                    count += 1
                }
            }
        }
        #expect(count > 50)
    }
}
