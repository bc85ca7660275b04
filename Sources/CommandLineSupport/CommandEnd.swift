// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import ArgumentParser
import TunnelSystem

/// The version of the programs.
package let programVersion = CulvertVersion.text.description

extension ParsableCommand {
    /// Returns the exit status of a command line that ended with `error`, and prints the error if it was not printed
    /// yet. Help, versions and completion scripts also end with an error.
    package static func end(_ arguments: [String], with error: any Error, console: Console) -> Int32 {
        if let code = error as? ExitCode { return code.rawValue }
        guard exitCode(for: error) != .success else {
            console.line(fullMessage(for: error))
            return ExitStatus.success
        }
        var message = KeyRedaction.redact(fullMessage(for: error))
        if let suggestion = Suggestion.subcommand(of: self, for: arguments) { message += "\n" + suggestion }
        console.problem(message)
        return ExitStatus.usage
    }
}

extension AsyncParsableCommand {
    /// Parses and runs one command line.
    /// - Returns: The exit status.
    package static func run(_ arguments: [String], console: Console) async -> Int32 {
        do {
            var command = try await asyncParseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            return ExitStatus.success
        } catch {
            return end(arguments, with: error, console: console)
        }
    }
}

/// A suggestion for an unknown command.
package enum Suggestion {
    static func subcommand(of root: any ParsableCommand.Type, for arguments: [String]) -> String? {
        var command = root
        var path = root._commandName
        for argument in arguments where !argument.hasPrefix("-") {
            let children = command.configuration.subcommands
            guard !children.isEmpty else { return nil }
            if let child = children.first(where: { $0._commandName == argument }) {
                command = child
                path += " " + argument
                continue
            }
            let names = children.map { $0._commandName }
            let nearest = names.min { distance($0, argument) < distance($1, argument) }
            guard let nearest, distance(nearest, argument) <= max(2, nearest.count / 3) else { return nil }
            return "Did you mean '\(path) \(nearest)'?"
        }
        return nil
    }

    /// The number of characters to insert, remove or replace to change one text into the other (Levenshtein).
    package static func distance(_ a: String, _ b: String) -> Int {
        let b = Array(b)
        var row = Array(0...b.count)
        for (i, x) in a.enumerated() {
            var diagonal = row[0]
            row[0] = i + 1
            for (j, y) in b.enumerated() {
                let above = row[j + 1]
                row[j + 1] = min(above + 1, row[j] + 1, diagonal + (x == y ? 0 : 1))
                diagonal = above
            }
        }
        return row[b.count]
    }
}
