// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The lines of code that are compiled for Apple's systems, and where they run, after `#if`.
struct Counts {
    /// A build: its system, and which modules it finds. None are named where they are all but Linux's.
    private struct Build {
        var system: String
        var modules: Set<String>?

        static let ordinary: Set = [
            "Glibc", "Foundation", "FoundationEssentials", "FoundationNetworking", "Dispatch", "CCryptoBoringSSL",
            "Observation",
        ]
        static let notApple: Set = [
            "Glibc", "Musl", "FoundationEssentials", "FoundationNetworking", "CCryptoBoringSSL", "Android", "Bionic",
            "WinSDK",
        ]

        /// Whether `#if` with this condition is taken. Traits are on; DEBUG does not matter.
        func takes(_ condition: some StringProtocol) -> Bool {
            var words = condition.components(separatedBy: "//")[0].matches(of: #/&&|\|\||!|\(|\)|[\w.]+|>=|<|,/#).map {
                String($0.output)
            }[...]
            return either(&words)
        }

        private func either(_ words: inout ArraySlice<String>) -> Bool {
            var result = both(&words)
            while words.first == "||" {
                words.removeFirst()
                let next = both(&words)
                result = result || next
            }
            return result
        }

        private func both(_ words: inout ArraySlice<String>) -> Bool {
            var result = one(&words)
            while words.first == "&&" {
                words.removeFirst()
                let next = one(&words)
                result = result && next
            }
            return result
        }

        private func one(_ words: inout ArraySlice<String>) -> Bool {
            guard let word = words.popFirst() else { return true }
            if word == "!" { return !one(&words) }
            if word == "(" {
                let result = either(&words)
                _ = words.popFirst()
                return result
            }
            guard words.first == "(", let end = words.firstIndex(of: ")") else { return true }
            let argument = words.dropFirst().first ?? ""
            words = words[(end + 1)...]
            switch word {
            case "canImport": return modules?.contains(argument) ?? !Self.notApple.contains(argument)
            case "os": return argument.lowercased() == system
            default: return true
            }
        }

        /// The numbers of the lines with code that it compiles.
        func lines(_ text: String, isSwift: Bool) -> Set<Int> {
            var found: Set<Int> = []
            var stack: [(isTaken: Bool, hasBeen: Bool)] = []
            for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
                let word = line.drop { $0 == " " }
                if isSwift, word.hasPrefix("#if") {
                    let isTaken = takes(word.dropFirst(3))
                    stack.append((isTaken, isTaken))
                } else if isSwift, word.hasPrefix("#elseif"), let last = stack.popLast() {
                    let isTaken = !last.hasBeen && takes(word.dropFirst(7))
                    stack.append((isTaken, last.hasBeen || isTaken))
                } else if isSwift, word.hasPrefix("#else"), let last = stack.popLast() {
                    stack.append((!last.hasBeen, true))
                } else if isSwift, word.hasPrefix("#endif") {
                    _ = stack.popLast()
                } else if stack.allSatisfy(\.isTaken), !word.isEmpty, !word.hasPrefix("//") {
                    found.insert(number)
                }
            }
            return found
        }
    }

    /// Writes the counts, the omissions, and the foundations of the stand-ins into the page, and prints the counts.
    static func write(_ plan: Plan) throws {
        let page = "\(root)/docs/apple.md"
        let counts = try table(plan)
        var whole = try read(page)
        for (name, text) in [("counts", counts), ("signatures", try signatures()), ("left out", leftOut(plan))] {
            guard let begin = whole.range(of: "<!-- \(name): scripts/apple --counts -->\n"),
                let end = whole.range(of: "<!-- end of \(name) -->")
            else { throw Failed("\(page) has no place for the \(name)") }
            whole.replaceSubrange(begin.upperBound..<end.lowerBound, with: text)
        }
        try whole.write(toFile: page, atomically: true, encoding: .utf8)
        print(counts, terminator: "")
    }

    /// Without backquotes: the check of named tests would expect each of these tests in every build.
    private static func leftOut(_ plan: Plan) -> String { plan.leftOut("macos").map { "- \($0)\n" }.joined() }

    /// The pages of documentation that each stand-in names.
    private static func signatures() throws -> String {
        let site = "https://developer.apple.com/documentation/"
        let rows = try files(in: standIns, ".swift").compactMap { file -> String? in
            let pages = try read(file).split { $0 == " " || $0 == "\n" }.filter { $0.hasPrefix(site) }.map {
                let page = $0.dropFirst(site.count).trimmingCharacters(in: [",", "."])
                return "[\(page)](\(site)\(page))"
            }
            return pages.isEmpty
                ? nil : "| `\(file.dropFirst(standIns.count + 1))` | \(pages.joined(separator: ", ")) |\n"
        }
        return "| File in `Tests/StandIns` | Pages |\n|---|---|\n" + rows.joined()
    }

    private static func table(_ plan: Plan) throws -> String {
        let apple = ["macos", "ios"].map { system in
            (Build(system: system), Set(plan.ownModules(system).flatMap(\.files)))
        }
        let here = Build(system: "linux", modules: Build.ordinary)
        let frameworks: Set = ["NetworkExtension", "Network", "Security", "os"]
        let withStandIns = Build(system: "linux", modules: Build.ordinary.union(frameworks))
        let names = try FileManager.default.contentsOfDirectory(atPath: "\(root)/Sources").sorted()
        var totals = [0, 0, 0, 0, 0]
        var rows: [(String, [Int])] = []
        for folder in names.map({ "Sources/\($0)" }) + ["Examples/AppleTunnel", "Examples/PinnedApp"] {
            let isApples = ["PacketTunnelApple", "ProvisioningApple", "AppleTunnel", "PinnedApp"].contains(
                folder.lastPart)
            var counts = [0, 0, 0, 0, 0]
            for file in files(in: "\(root)/\(folder)", ".swift", ".c") where !file.contains("/Elsewhere/") {
                let text = try read(file)
                let isSwift = file.hasSuffix(".swift")
                let theirs = apple.filter { $1.contains(file) }.reduce(into: Set<Int>()) {
                    $0.formUnion($1.0.lines(text, isSwift: isSwift))
                }
                let ordinary = isApples ? [] : here.lines(text, isSwift: isSwift)
                // Views are compiled only.
                let isView = ["App", "SwiftUI", "UIKit"].contains(file.folder.lastPart)
                let standing = isView ? [] : withStandIns.lines(text, isSwift: isSwift).subtracting(ordinary)
                let more = [
                    theirs.count, theirs.intersection(ordinary).count, theirs.intersection(standing).count,
                    theirs.subtracting(ordinary).subtracting(standing).count,
                    ordinary.union(standing).subtracting(theirs).count,
                ]
                counts = zip(counts, more).map(+)
            }
            rows.append((folder.replacing("Sources/", with: ""), counts))
            totals = zip(totals, counts).map(+)
        }
        rows.append(("**all**", totals))
        let head = """
            | Part | Compiled for Apple | of these run on Linux as they are | run on Linux against stand-ins \
            | run nowhere yet | Not compiled for Apple |
            |---|--:|--:|--:|--:|--:|

            """
        return head + rows.map { "| \($0) | \($1.map(grouped).joined(separator: " | ")) |\n" }.joined()
    }
}
