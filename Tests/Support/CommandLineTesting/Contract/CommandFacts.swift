// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The commands of a program, as ArgumentParser describes them (`--experimental-dump-help`).
package struct CommandDescription: Decodable {
    struct Name: Decodable {
        var kind: String
        var name: String

        var text: String { kind == "long" ? "--\(name)" : "-\(name)" }
    }

    struct Argument: Decodable {
        var kind: String
        var shouldDisplay: Bool
        var isOptional: Bool
        var isRepeating: Bool
        var names: [Name]?
        var preferredName: Name?
        var defaultValue: String?
        var allValues: [String]?
        var parsingStrategy: String
    }

    private struct Root: Decodable {
        var command: CommandDescription
    }

    var commandName: String
    var shouldDisplay: Bool?
    var aliases: [String]?
    var discussion: String?
    var defaultSubcommand: String?
    var subcommands: [CommandDescription]?
    var arguments: [Argument]?

    /// Decodes what `_dumpHelp()` of a root command returns.
    package init(_ dump: String) throws {
        self = try JSONDecoder().decode(Root.self, from: Data(dump.utf8)).command
    }

    /// The facts of all commands. Parts that the help does not show are not promised.
    package var facts: [ContractFact] { facts(of: commandName, isRoot: true) }

    /// The commands that print JSON, by their full names.
    package var commandsWithJSON: [String] {
        func names(_ command: CommandDescription, _ path: String) -> [String] {
            let printsJSON = command.shown.contains { ($0.names ?? []).contains { $0.text == "--json" } }
            return (printsJSON ? [path] : [])
                + command.shownSubcommands.flatMap { names($0, "\(path) \($0.commandName)") }
        }
        return names(self, commandName)
    }

    /// The exit statuses that the help of the commands names, by the full name of the command.
    package var statuses: [(command: String, status: Int32)] {
        func statuses(_ command: CommandDescription, _ path: String) -> [(String, Int32)] {
            command.exitStatuses.map { (path, $0) }
                + command.shownSubcommands.flatMap { statuses($0, "\(path) \($0.commandName)") }
        }
        return statuses(self, commandName)
    }

    private var shownSubcommands: [CommandDescription] { (subcommands ?? []).filter { $0.shouldDisplay != false } }
    private var shown: [Argument] { (arguments ?? []).filter(\.shouldDisplay) }

    private func facts(of path: String, isRoot: Bool) -> [ContractFact] {
        var facts = [ContractFact(path, ContractFact.command)]
        for alias in aliases ?? [] {
            let parent = path.split(separator: " ").dropLast().joined(separator: " ")
            facts.append(ContractFact("\(parent) \(alias)", "alias of \(commandName)"))
        }
        if let defaultSubcommand { facts.append(ContractFact("\(path) without a subcommand", defaultSubcommand)) }
        var position = 0
        for argument in shown {
            if argument.kind == "positional" { position += 1 }
            facts += argument.facts(of: path, position: position, isRoot: isRoot)
        }
        facts += exitStatuses.map { ContractFact("\(path) exit status \($0)", "in the help") }
        return facts + shownSubcommands.flatMap { $0.facts(of: "\(path) \($0.commandName)", isRoot: false) }
    }

    /// The numbers in the paragraph `Exit status: 0, 1, 2; see culvert(1).`
    private var exitStatuses: [Int32] {
        guard let discussion, let start = discussion.firstRange(of: "Exit status:") else { return [] }
        let rest = discussion[start.upperBound...]
        let paragraph = rest[..<(rest.firstRange(of: "\n\n")?.lowerBound ?? rest.endIndex)]
        return paragraph.split { ",;".contains($0) }.compactMap { part in
            Int32(part.drop { $0.isWhitespace }.prefix { $0.isNumber })
        }
    }
}

extension CommandDescription.Argument {
    /// - Parameter position: the place among the arguments without a name, from 1.
    fileprivate func facts(of path: String, position: Int, isRoot: Bool) -> [ContractFact] {
        guard let preferred = preferredName?.text else { return facts("\(path) argument \(position)", "argument") }
        // Each command has these two.
        guard isRoot || !["--help", "--version"].contains(preferred) else { return [] }
        let others = (names ?? []).map(\.text).filter { $0 != preferred }
        return facts("\(path) \(preferred)", kind)
            + others.map { ContractFact("\(path) \($0)", "same as \(preferred)") }
    }

    private func facts(_ key: String, _ kind: String) -> [ContractFact] {
        var form = kind
        if kind != "flag", !isOptional { form += ", required" }
        if isRepeating { form += ", repeating" }
        if parsingStrategy != "default" { form += ", \(parsingStrategy)" }
        if kind != "flag", let defaultValue { form += ", default \(defaultValue)" }
        return [ContractFact(key, form)] + (allValues ?? []).map { ContractFact("\(key) \($0)", "value") }
    }
}
