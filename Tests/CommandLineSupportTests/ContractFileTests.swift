// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import Testing

@Suite("Contract of the command line")
struct ContractFileTests {
    private static let up = ContractFact("culvert up", "command")
    private static let timeout = ContractFact("culvert up --timeout", "option, default 30")
    private static let state = ContractFact("culvert status --json tunnels[].state", "string")
    private static let released = [up, timeout, ContractFact("culvert status", "command"), state]

    private func file() -> ContractFile {
        var file = ContractFile()
        file.update(Self.released, of: "culvert")
        file.release()
        return file
    }

    // MARK: - Differences

    @Test("A command line that equals the file has no difference")
    func same() throws {
        #expect(file().differences(from: Self.released, of: "culvert").isEmpty)
        #expect(file().problems(Changelog("")).isEmpty)
        #expect(try ContractFile(file().text) == file())
    }

    @Test("An addition, a removal and a change are each reported, and marked after an update")
    func differences() throws {
        let longer = ContractFact("culvert up --timeout", "option, default 60")
        let quiet = ContractFact("culvert up --quiet", "flag")
        for (facts, words, marked) in [
            (Self.released + [quiet], ["added: culvert up --quiet: flag"], ["+ culvert up --quiet: flag"]),
            (
                Self.released.filter { $0 != Self.state }, ["removed: \(Self.state)"], ["- \(Self.state) (issue ?)"]
            ),
            (
                Self.released.map { $0 == Self.timeout ? longer : $0 },
                ["changed: culvert up --timeout: option, default 60, and it was: option, default 30"],
                ["- \(Self.timeout) (issue ?)", "+ \(longer)"]
            ),
        ] {
            var file = file()
            #expect(file.differences(from: facts, of: "culvert") == words)
            file.update(facts, of: "culvert")
            #expect(file.differences(from: facts, of: "culvert").isEmpty)
            #expect(file.text.split(separator: "\n").filter { "+-".contains($0.prefix(1)) }.map(String.init) == marked)
            #expect(try ContractFile(file.text) == file)
            // The marks are removed when the command line equals the release again.
            file.update(Self.released, of: "culvert")
            #expect(file.text == self.file().text)
        }
    }

    @Test("An update of one program does not change the lines of other programs")
    func programs() {
        var file = file()
        file.update([ContractFact("culvert-pin show", "command")], of: "culvert-pin")
        #expect(file.differences(from: Self.released, of: "culvert").isEmpty)
        #expect(file.differences(from: [], of: "culvert-pin") == ["removed: culvert-pin show: command"])
    }

    // MARK: - Rules

    @Test(
        "An addition needs a changelog item that names it and its command",
        arguments: [
            ("- `culvert up --quiet` prints nothing.", true), ("- `culvert up` takes\n  `--quiet`.", true),
            ("- `culvert up --quieter`.", false), ("- `culvert down --quiet`.", false),
            ("- `culvert up` is faster.\n- `culvert down --quiet`.", false), ("", false),
            ("## [Unreleased]\n\n## [0.2.0]\n- `culvert up --quiet`.", true),
            ("## [Unreleased]\n- Faster.\n\n## [0.2.0]\n- `culvert up --quiet`.", false),
        ])
    func changelog(text: String, isEnough: Bool) {
        var file = file()
        file.update(Self.released + [ContractFact("culvert up --quiet", "flag")], of: "culvert")
        #expect(file.problems(Changelog(text)).isEmpty == isEnough, "\(file.problems(Changelog(text)))")
    }

    @Test("A group of commands covers each of them, a new command its options, and a member its path")
    func changelogGroups() {
        func problems(_ fact: ContractFact, _ text: String, with more: [ContractFact] = []) -> [String] {
            var file = file()
            file.update(Self.released + (fact.key.hasPrefix("culvert ") ? [fact] + more : []), of: "culvert")
            if !fact.key.hasPrefix("culvert ") { file.update([fact] + more, of: "culvert-gateway") }
            return file.problems(Changelog(text))
        }
        let limit = ContractFact("culvert-gateway user list --limit", "option")
        #expect(problems(limit, "- The commands of `culvert gateway` take `--limit`.").isEmpty)
        #expect(!problems(limit, "- The commands of `culvert pin` take `--limit`.").isEmpty)
        let member = ContractFact("culvert status --json tunnels[].peers[].age", "number")
        #expect(problems(member, "- `culvert status --json` has `age`.").isEmpty)
        #expect(!problems(member, "- `culvert status --json` has a page.").isEmpty)
        let watch = ContractFact("culvert watch", "command")
        let every = ContractFact("culvert watch --every", "option")
        #expect(problems(watch, "- `culvert watch`.", with: [every]).isEmpty)
        #expect(problems(watch, "- `culvert` is better.", with: [every]).count == 1)
    }

    @Test("A removal needs the number of an issue")
    func issues() throws {
        var file = file()
        file.update(Array(Self.released.dropLast()), of: "culvert")
        #expect(file.problems(Changelog("")).count == 1)
        let text = file.text
        #expect(try ContractFile(text.replacing("(issue ?)", with: "(issue 12)")).problems(Changelog("")).isEmpty)
        #expect(try ContractFile(text.replacing("(issue ?)", with: "(issue soon)")).problems(Changelog("")).count == 1)
        #expect(throws: ContractFile.Malformed.self) { try ContractFile(text.replacing(" (issue ?)", with: "")) }
    }

    @Test("A released line that was deleted or edited by hand is detected")
    func fingerprint() throws {
        let text = file().text
        for edited in [
            text.replacing("  \(Self.timeout)\n", with: ""), text.replacing("default 30", with: "default 31"),
            text.replacing("  \(Self.timeout)\n", with: "+ \(Self.timeout)\n"),
        ] {
            #expect(try !ContractFile(edited).problems(Changelog("- `culvert up --timeout`.")).isEmpty)
        }
    }

    // MARK: - Facts

    @Test("A shape lists the form of each member, optional ones included, and the members without a sample")
    func shape() throws {
        var shape = JSONShape(open: ["drops"])
        try shape.add(
            text: #"{"a": 1, "b": null, "drops": {"x": 1}, "list": [], "peers": [{"n": "x"}, {"n": "y", "m": 1.5}]}"#)
        #expect(shape.unfilled == ["b", "list"])
        try shape.add(text: #"{"a": 2, "b": true, "drops": {}, "list": ["x"], "peers": []}"#)
        #expect(shape.unfilled.isEmpty)
        #expect(
            shape.facts(of: "culvert x --json").map(\.description) == [
                "culvert x --json a: number", "culvert x --json b: boolean or null", "culvert x --json drops: object",
                "culvert x --json list: list of strings", "culvert x --json peers: list of objects",
                "culvert x --json peers[].m: number, not always", "culvert x --json peers[].n: string",
            ])
    }

    // MARK: - The file

    @Test("docs/command-line.txt has the exit statuses of all commands")
    func statuses() throws {
        let facts = ExitStatus.Name.allCases.map { ContractFact("programs exit status \($0.rawValue)", "\($0)") }
        let problems = try ProgramContract("programs", facts).check()
        #expect(problems.isEmpty, "\(ContractFile.advice)")
    }

    @Test("Each addition in docs/command-line.txt is in the changelog, and each removal has an issue")
    func rules() throws {
        let problems = try ContractFile.releaseOrRead().problems(ContractFile.changelog())
        #expect(problems.isEmpty, "\(ContractFile.advice)")
    }
}
