// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing

/// The guides `docs/migrating-from-*.md`: each public name of Culvert in their tables of old and new names exists.
@Suite("Migration guides")
struct MigrationGuideTests {
    /// The systems that apps migrate from, as in the names of the guides' files.
    static let systems = ["pia", "bestvpn", "tun-rs", "tunnelmonitorkit", "pinguard", "wireguardkit"]

    /// A row of a table of names.
    struct Row {
        var line: Int
        /// The first cell.
        var old: String
        /// The second cell.
        var new: String

        /// The texts between backquotes in the second cell that have the form of a name.
        var names: [String] {
            new.split(separator: "`", omittingEmptySubsequences: false).enumerated().filter {
                !$0.offset.isMultiple(of: 2)
            }
            .map { String($0.element) }.filter { PublicDeclarations.Name($0) != nil }
        }

        /// Whether it states that no counterpart exists, such as "none: the system does this".
        var statesThatThereIsNone: Bool { new.lowercased().replacing("*", with: "").hasPrefix("none") }
    }

    static func guide(_ system: String) -> URL { SampleTests.root.appending(path: "docs/migrating-from-\(system).md") }

    /// Returns the rows of the tables whose second heading names Culvert. A table of differences has reasons in its third
    /// column, and lists no names.
    static func rows(_ lines: [String]) -> [Row] {
        var rows: [Row] = []
        var isTable = false
        for (index, line) in lines.enumerated() {
            let cells = line.replacing("\\|", with: "\u{1}").split(separator: "|", omittingEmptySubsequences: false)
                .map { $0.replacing("\u{1}", with: "|").trimmingCharacters(in: .whitespaces) }
            guard line.hasPrefix("|"), cells.count > 3 else {
                isTable = false
                continue
            }
            if lines.indices.contains(index + 1),
                lines[index + 1].hasPrefix("|--") || lines[index + 1].hasPrefix("| --")
            {
                isTable = cells[2].contains("Culvert") && cells[3] != "Reason"
            } else if isTable, cells[1].contains("`") {
                rows.append(Row(line: index + 1, old: cells[1], new: cells[2]))
            }
        }
        return rows
    }

    /// Returns a text for each row without a counterpart that exists.
    static func problems(_ rows: [Row], _ declarations: PublicDeclarations) -> [String] {
        rows.flatMap { row in
            if row.names.isEmpty, !row.statesThatThereIsNone {
                return [
                    "line \(row.line): \(row.old) has no counterpart; list one as `Type.member`, or begin with \"none\""
                ]
            }
            return row.names.filter { !declarations.contains($0) }.map {
                "line \(row.line): no public declaration is named \($0); names of other packages belong in the third column"
            }
        }
    }

    /// The declarations of all products, and the names in culvert.h.
    static let declarations: PublicDeclarations = {
        var declarations = PublicDeclarations()
        let manifest = SampleTests.lines(of: SampleTests.root.appending(path: "Package.swift"))
        let table = manifest.drop { !$0.hasPrefix("let libraries: Table") }.prefix { $0 != "]" }
        for module in table.compactMap({ $0.wholeMatch(of: #/ {4}"(\w+)": .*/#)?.output.1 }).map(String.init) {
            for file in SampleTests.files(in: "Sources/\(module)", ".swift") where !file.path.contains(".docc/") {
                declarations.add(SampleTests.lines(of: file).joined(separator: "\n"), of: module)
            }
        }
        let header = SampleTests.root.appending(path: "Sources/CCulvert/include/culvert.h")
        declarations.add(header: SampleTests.lines(of: header).joined(separator: "\n"))
        return declarations
    }()

    @Test("Each name in a guide's tables exists", arguments: systems)
    func names(system: String) {
        let rows = Self.rows(SampleTests.lines(of: Self.guide(system)))
        #expect(rows.count >= 5, "no table of docs/migrating-from-\(system).md has Culvert as its second heading")
        for problem in Self.problems(rows, Self.declarations) {
            Issue.record("docs/migrating-from-\(system).md: \(problem)")
        }
    }

    @Test("Each guide is in the list and in README.md")
    func listed() {
        let files = SampleTests.files(in: "docs", ".md").map(\.lastPathComponent).filter { $0.hasPrefix("migrating") }
        #expect(Set(files).isSubset(of: Self.systems.map { "migrating-from-\($0).md" }))
        let readme = SampleTests.lines(of: SampleTests.root.appending(path: "README.md")).joined()
        for system in Self.systems { #expect(readme.contains("(docs/migrating-from-\(system).md)"), "\(system)") }
    }

    @Test("A wrong name, a row without a counterpart and a wrong label are found")
    func planted() {
        let guide = """
            | Old | Culvert | Notes |
            |---|---|---|
            | `A` | `TrustEvaluator`, `TrustEvaluator.update(_:)` | `anything` |
            | `B` | `TrustEvaluatr` | |
            | `C` | `TrustEvaluator.updates(_:)` | |
            | `D` | `TrustEvaluator.update(policies:)` | |
            | `E` | | |
            | `F` | none: the app has no use for it | |
            | `G` | `culvert_packets_nothing` or `culvert pin show` | |
            | text | `TrustEvaluatr` | |

            | Old | Culvert | Reason |
            |---|---|---|
            | `A` | `true` | |
            """
        let problems = Self.problems(
            Self.rows(guide.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)),
            Self.declarations)
        #expect(problems.map { $0.prefix { $0 != ":" } } == ["line 4", "line 5", "line 6", "line 7", "line 9"])
    }

    @Test(
        "Names of types, members, functions, cases and the C library are known, and those of internal declarations are not"
    )
    func known() {
        let names = [
            "TrustPinning", "PinningPolicy.Mode.strict", "Pin(_:_:)", "Pin(_:_:role:scope:)",
            "PinnedSession.data(for:)",
            "ClientIdentities.set(_:for:in:)", "TrustPinning.Pin", "PacketTunnelProvider.sleep()",
            "TunnelManager<Provider>",
            "TunnelManager.start(_:)", ".includingSubdomains", "culvert_wait", "PinnedSessionError.untrusted",
        ]
        for name in names { #expect(Self.declarations.contains(name), "\(name)") }
        let others = [
            "Pin(_:)", "TrustProcedure", "PinnedSession.data()", "Mode", "CTunnelSystem", "culvert_nothing", "a b",
        ]
        for name in others { #expect(!Self.declarations.contains(name), "\(name)") }
    }

    @Test("Declarations are read from source text")
    func scanning() {
        var declarations = PublicDeclarations()
        declarations.add(
            ##"""
            /* public func comment() /* nested */ */
            @available(macOS 15, *) public struct Outer<T: Sequence>: Sendable where T.Element == Int {
                public static let text = "\(a("}")) {"
                public static let raw = #"\("# // public let late
                public private(set) var count: Int { didSet { func inner() {} } }
                let hidden = { 1 }
                #if os(Linux)
                    public init?(_ value: Int = 1, at place: [Int: (Int, Int)] = [:]) {}
                #endif
                public enum Kind: Int { case first = -1, second; case pair(Int, of: Int) }
                enum Internal { public static func f() {} }
                public static func < (a: Outer, b: Outer) -> Bool { true }
                public class func last<U>(_ f: (U) -> Void, with `default`: Int) {}
            }
            public protocol Base { func required(); associatedtype Item }
            extension Base { public func added() {}; func own() {} }
            public final class Child: Base { public typealias Short = Outer.Kind }
            public extension Child { func everywhere() {} }
            """##, of: "Sample")
        let names = [
            "Outer", "Outer.text", "Outer.raw", "Outer.count", "Outer()", "Outer(_:)", "Outer(at:)", "Outer(_:at:)",
            "Outer.Kind.first", "Outer.Kind.second", "Outer.Kind.pair(_:of:)", "Outer.last(_:with:)", "Base.required()",
            "Child.required()", "Child.added()", "Child.everywhere()", "Child.Short.second", "Sample.Outer",
        ]
        for name in names { #expect(declarations.contains(name), "\(name)") }
        let others = [
            "comment()", "Outer.late", "Outer.hidden", "Outer.inner()", "inner()", "Outer.Internal",
            "Outer.Internal.f()",
            "Base.own()", "Outer(in:)", "Outer.last(_:)", "Outer.Kind.third",
        ]
        for name in others { #expect(!declarations.contains(name), "\(name)") }
    }
}
