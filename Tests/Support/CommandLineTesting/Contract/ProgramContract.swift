// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport

/// The part of one program in the contract of the command line.
package struct ProgramContract {
    private let program: String
    private var facts: [ContractFact]
    /// The commands whose JSON must be added.
    private var undescribed: Set<String>
    private var problems: [String] = []

    /// A part of these facts.
    package init(_ program: String, _ facts: [ContractFact]) {
        (self.program, self.facts, undescribed) = (program, facts, [])
    }

    /// A part with the commands of a program.
    /// - Parameter dump: the text that `_dumpHelp()` of the root command returns.
    package init(dump: String) throws {
        let commands = try CommandDescription(dump)
        (program, facts, undescribed) = (commands.commandName, commands.facts, Set(commands.commandsWithJSON))
        for (command, status) in commands.statuses where ExitStatus.Name(rawValue: status) == nil {
            problems.append("the help of '\(command)' names exit status \(status), which no command has")
        }
    }

    /// The commands that have `--json`, by their full names.
    package var commandsWithJSON: [String] { undescribed.sorted() }

    /// Adds the JSON that a command prints.
    /// - Parameters:
    ///   - command: the command with `--json`, and a word for each kind of document that it prints.
    ///   - open: the paths of objects whose names or contents are data, not members.
    ///   - documents: samples; each member must have a value in one of them, and `null` in another if it may be `null`.
    package mutating func add(_ command: String, open: Set<String> = [], _ documents: [String]) throws {
        var shape = JSONShape(open: open)
        for document in documents { try shape.add(text: document) }
        facts += shape.facts(of: command)
        problems += shape.unfilled.map { "no sample of '\(command)' gives a value for \($0)" }
        let words = command.split(separator: " ").prefix { !$0.hasPrefix("-") }
        undescribed.remove(words.joined(separator: " "))
    }

    /// Describes the differences from docs/command-line.txt and the gaps in the samples.
    package func check() throws -> [String] {
        let gaps = undescribed.sorted().map { "no sample shows the JSON of '\($0)'" }
        return try problems + gaps + ContractFile.check(facts, of: program)
    }
}
