// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing

/// The table of minimum systems in docs/apple.md.
@Suite("Minimum systems")
struct MinimumSystemsTests {
    /// The rows of the table: module, blockers of iOS 17, blockers of iOS 15.
    private static let rows: [[String]] = {
        let page = SampleTests.lines(of: SampleTests.root.appending(path: "docs/apple.md"))
        let section = page.drop { $0 != "## Minimum systems" }.dropFirst().prefix { !$0.hasPrefix("## ") }
        return section.filter { $0.hasPrefix("| `") }.map { line in
            line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().map {
                $0.trimmingCharacters(in: .whitespaces)
            }
        }
    }()

    /// The code of a module, without comments.
    private static func code(of module: String) -> String {
        SampleTests.files(in: "Sources/\(module)", ".swift").filter { !$0.path.contains(".docc/") }.flatMap {
            SampleTests.lines(of: $0).filter { !$0.drop { $0 == " " }.hasPrefix("//") }
        }.joined(separator: "\n")
    }

    @Test("Each module that exists on Apple's platforms has a row with its blockers")
    func blockers() {
        let manifest = SampleTests.lines(of: SampleTests.root.appending(path: "Package.swift"))
        let table = manifest.drop { !$0.hasPrefix("let libraries: Table") }.prefix { $0 != "]" }
        let products = Set(table.compactMap { $0.wholeMatch(of: #/ {4}"(\w+)": .*/#)?.output.1 }.map(String.init))
        let listed = Set(Self.rows.map { $0[0].filter { $0 != "`" } })
        // These are for Linux, or need NIO, which apps on Apple's platforms do not use.
        #expect(products.subtracting(listed) == ["PacketTunnelLinux", "TrustPinningNIO", "Gateway"])
        for row in Self.rows {
            let module = row[0].filter { $0 != "`" }
            // A row for a module that is not merged yet is not compared.
            guard products.contains(module) else { continue }
            let code = Self.code(of: module)
            #expect(code.contains("import Synchronization") == row[1].contains("`Synchronization`"), "\(module)")
            #expect(code.contains(#/\bUInt128\b/#) == row[1].contains("`UInt128`"), "\(module)")
            #expect(code.contains("AsyncSequence<") == row[1].contains("`AsyncSequence<"), "\(module)")
            #expect(code.contains(#/\b(Duration|ContinuousClock)\b/#) == row[2].contains("`Duration`"), "\(module)")
        }
    }

    @Test("The page states the minimum systems of the manifest")
    func floors() {
        let manifest = SampleTests.lines(of: SampleTests.root.appending(path: "Package.swift"))
        let platforms = manifest.first { $0.contains("platforms: [.macOS(") } ?? ""
        #expect(platforms.contains("[.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)]"))
        let page = SampleTests.lines(of: SampleTests.root.appending(path: "docs/apple.md"))
        #expect(
            page.contains { $0.hasPrefix("Every module needs macOS 15, iOS 18, tvOS 18, watchOS 11 or visionOS 2.") })
    }
}
