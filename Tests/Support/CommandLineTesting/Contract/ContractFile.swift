// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Synchronization

/// The generated list of the promises of the command line, `docs/command-line.txt`.
///
/// A line without a mark has been promised since a release. `+` marks an addition since then, which the changelog must
/// name. `-` marks a promise that is withdrawn, with the number of the issue that requests this. The fingerprint in the
/// head covers all lines that were promised at the release, so that none of them can be omitted by accident.
package struct ContractFile: Equatable {
    package enum Mark: String { case promised = " ", added = "+", removed = "-" }

    struct Line: Equatable {
        var mark: Mark
        var fact: ContractFact
        /// The number of the issue that asks for a removal, or ``unknownIssue``.
        var issue = ""

        var text: String { "\(mark.rawValue) \(fact)" + (mark == .removed ? " (issue \(issue))" : "") }
    }

    package struct Malformed: Error, CustomStringConvertible {
        package var description: String
    }

    private static let unknownIssue = "?"
    private static let fingerprintMark = "# Fingerprint of the lines of the release: "

    private static let head = """
        # The contract of the command line: commands, options, exit statuses and members of JSON.
        # `scripts/contract --update` writes it.
        # A line with + is new since the last release: CHANGELOG.md must name it, and its command, in one item.
        # A line with - is withdrawn: an issue must ask for it, whose number is at its end.
        """

    /// The lines, ordered by their facts.
    private var lines: [Line]
    private var fingerprint: String

    /// A file without a line.
    package init() {
        lines = []
        fingerprint = Self.fingerprint(of: [])
    }

    package init(_ text: String) throws(Malformed) {
        self.init()
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            if line.hasPrefix(Self.fingerprintMark) {
                fingerprint = String(line.dropFirst(Self.fingerprintMark.count))
            } else if !line.isEmpty, !line.hasPrefix("#") {
                guard let read = Self.read(line) else { throw Malformed(description: "line \(index + 1): '\(line)'") }
                lines.append(read)
            }
        }
        lines.sort { $0.fact < $1.fact }
    }

    private static func read(_ text: Substring) -> Line? {
        guard let mark = Mark(rawValue: String(text.prefix(1))), text.dropFirst().hasPrefix(" ") else { return nil }
        let rest = text.dropFirst(2)
        guard mark == .removed else { return ContractFact(rest).map { Line(mark: mark, fact: $0) } }
        guard rest.hasSuffix(")"), let start = rest.ranges(of: " (issue ").last else { return nil }
        return ContractFact(rest[..<start.lowerBound]).map {
            Line(mark: mark, fact: $0, issue: String(rest[start.upperBound...].dropLast()))
        }
    }

    package var text: String {
        ([Self.head, Self.fingerprintMark + fingerprint, ""] + lines.map(\.text)).joined(separator: "\n") + "\n"
    }

    // MARK: - Comparison

    /// Describes the differences between the lines of one program and its facts. The result is empty if there is no
    /// difference.
    package func differences(from facts: [ContractFact], of program: String) -> [String] {
        let facts = Set(facts)
        let standing = Set(lines.filter { $0.mark != .removed && $0.fact.program == program }.map(\.fact))
        let added = Dictionary(grouping: facts.subtracting(standing), by: \.key)
        let gone = Dictionary(grouping: standing.subtracting(facts), by: \.key)
        return Set(added.keys).union(gone.keys).sorted().map { key in
            let (old, new) = (gone[key]?.first?.form, added[key]?.first?.form)
            return switch (old, new) {
            case (let old?, let new?): "changed: \(key): \(new), and it was: \(old)"
            case (let old?, nil): "removed: \(key): \(old)"
            case (nil, let new?): "added: \(key): \(new)"
            case (nil, nil): "nothing: \(key)"
            }
        }
    }

    /// The advice that belongs to each difference.
    package static let advice = """
        docs/command-line.txt is not what the programs do. An addition needs a line in CHANGELOG.md; a removal or a \
        change needs an issue that asks for it. `scripts/contract --update` marks both in the file.
        """

    /// Describes the violations of the rules: edited lines, removals without an issue, additions without a changelog
    /// item.
    package func problems(_ changelog: Changelog) -> [String] {
        var problems: [String] = []
        let promised = lines.filter { $0.mark != .added }.map(\.fact)
        if Self.fingerprint(of: promised) != fingerprint {
            problems.append(
                "a line of the release is missing or was edited by hand: restore it, and run scripts/contract --update")
        }
        for line in lines where line.mark == .removed && (line.issue.isEmpty || !line.issue.allSatisfy(\.isNumber)) {
            problems.append("no issue asks for the removal: put its number in the place of '?': \(line.fact)")
        }
        let new = Set(lines.filter { $0.mark == .added && $0.fact.form == ContractFact.command }.map(\.fact.key))
        for line in lines where line.mark == .added {
            // The changelog item of a new command covers its options and members.
            let isCovered = new.contains { line.fact.key.hasPrefix($0 + " ") }
            if !isCovered, !changelog.covers(line.fact) {
                let command = line.fact.command.joined(separator: " ")
                problems.append(
                    "no item of CHANGELOG.md names both '\(command)' and '\(line.fact.word)', which is new: \(line.fact)"
                )
            }
        }
        return problems
    }

    // MARK: - Changes

    /// Marks the additions and removals among the lines of one program.
    package mutating func update(_ facts: [ContractFact], of program: String) {
        var rest = Set(facts)
        var kept: [Line] = []
        for var line in lines where line.fact.program == program {
            if rest.remove(line.fact) != nil {
                if line.mark == .removed { (line.mark, line.issue) = (.promised, "") }
            } else if line.mark == .promised {
                (line.mark, line.issue) = (.removed, Self.unknownIssue)
            } else if line.mark == .added {
                continue
            }
            kept.append(line)
        }
        lines = lines.filter { $0.fact.program != program } + kept + rest.map { Line(mark: .added, fact: $0) }
        lines.sort { $0.fact < $1.fact }
    }

    /// Turns additions into promises and drops removals, for a release.
    package mutating func release() {
        lines = lines.filter { $0.mark != .removed }.map { Line(mark: .promised, fact: $0.fact) }
        fingerprint = Self.fingerprint(of: lines.map(\.fact))
    }

    /// The number of facts and their FNV-1a hash of 64 bits, which detects accidental edits only.
    private static func fingerprint(of facts: [ContractFact]) -> String {
        let text = facts.sorted().map { "\($0)\n" }.joined()
        let hash = text.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return "\(facts.count) lines, " + String(hash, radix: 16)
    }
}

/// The items of the newest section of a changelog that has items: `[Unreleased]`, or a release that is being made.
package struct Changelog {
    private var items: [String] = []

    package init(_ text: String) {
        for line in text.split(separator: "\n") {
            if line.hasPrefix("## "), !items.isEmpty { break }
            if line.hasPrefix("- ") {
                items.append(String(line))
            } else if line.hasPrefix(" "), let last = items.popLast() {
                items.append(last + " " + line.drop { $0 == " " })
            }
        }
    }

    /// Whether an item names a fact, and its command or a group of commands that it is in.
    func covers(_ fact: ContractFact) -> Bool {
        let names = Self.names(of: fact)
        return items.contains { item in
            Self.contains(item, fact.word) && (names.isEmpty || names.contains { Self.contains(item, $0) })
        }
    }

    /// The names of a command and of the groups that it is in: `culvert-pin show` and `culvert pin show`. The root
    /// `culvert` alone does not count, since nearly every item contains it.
    private static func names(of fact: ContractFact) -> [String] {
        var words = fact.command.map(String.init)
        guard let program = words.first, program.hasPrefix("culvert") else { return [] }
        var names: [String] = []
        while !words.isEmpty {
            if words != ["culvert"] || fact.command.count == 1 {
                let name = words.joined(separator: " ")
                names.append(name)
                if name.hasPrefix("culvert-") { names.append("culvert " + name.dropFirst(8)) }
            }
            words.removeLast()
        }
        return names
    }

    /// Whether a text contains words that are not parts of longer words.
    private static func contains(_ text: String, _ words: some StringProtocol) -> Bool {
        func isPart(_ character: Character?) -> Bool {
            guard let character else { return false }
            return character.isLetter || character.isNumber || character == "-" || character == "_"
        }
        return text.ranges(of: String(words)).contains { range in
            let before = range.lowerBound == text.startIndex ? nil : text[text.index(before: range.lowerBound)]
            return !isPart(before) && !isPart(range.upperBound < text.endIndex ? text[range.upperBound] : nil)
        }
    }
}

// MARK: - In the repository

extension ContractFile {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    private static let url = root.appending(path: "docs/command-line.txt")
    /// Held while the file is changed, because suites run at the same time.
    private static let changing = Mutex(())

    private static func read() throws -> ContractFile {
        try ContractFile(String(contentsOf: url, encoding: .utf8))
    }

    package static func changelog() throws -> Changelog {
        Changelog(try String(contentsOf: root.appending(path: "CHANGELOG.md"), encoding: .utf8))
    }

    /// Compares the lines of a program with its facts. With CULVERT_CONTRACT=update in the environment
    /// (`scripts/contract --update`) it updates the file first.
    /// - Returns: the differences.
    static func check(_ facts: [ContractFact], of program: String) throws -> [String] {
        guard ProcessInfo.processInfo.environment["CULVERT_CONTRACT"] == "update" else {
            return try read().differences(from: facts, of: program)
        }
        return try changing.withLock { _ in
            var file = FileManager.default.fileExists(atPath: url.path) ? try read() : ContractFile()
            file.update(facts, of: program)
            try file.text.write(to: url, atomically: true, encoding: .utf8)
            return file.differences(from: facts, of: program)
        }
    }

    /// Reads the file. With CULVERT_CONTRACT=release in the environment (`scripts/contract --release`), and if no rule is
    /// violated, its marks are removed before.
    package static func releaseOrRead() throws -> ContractFile {
        try changing.withLock { _ in
            var file = try read()
            guard ProcessInfo.processInfo.environment["CULVERT_CONTRACT"] == "release",
                file.problems(try changelog()).isEmpty
            else { return file }
            file.release()
            try file.text.write(to: url, atomically: true, encoding: .utf8)
            return file
        }
    }
}
