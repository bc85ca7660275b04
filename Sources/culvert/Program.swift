// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

@main
enum Program {
    static func main() {
        // A reader that went away, as in `culvert demo | head`, is noticed at the next write.
        _ = signal(SIGPIPE, SIG_IGN)
        exit(run(Array(CommandLine.arguments.dropFirst()), console: .standard))
    }

    /// Parses and runs one command line.
    /// - Returns: the exit status.
    static func run(_ arguments: [String], console: Console) -> Int32 {
        do {
            var command = try Culvert.parseAsRoot(arguments)
            try command.run()
            return ExitStatus.success
        } catch let code as ExitCode {
            return code.rawValue
        } catch {
            guard Culvert.exitCode(for: error) != .success else {
                // Help, version, completion script.
                console.line(Culvert.fullMessage(for: error))
                return ExitStatus.success
            }
            var message = KeyRedaction.redact(Culvert.fullMessage(for: error))
            if let suggestion = Suggestion.subcommand(for: arguments) { message += "\n" + suggestion }
            console.problem(message)
            return ExitStatus.usage
        }
    }
}

/// What to say when no command has the name that was given.
enum Suggestion {
    static func subcommand(for arguments: [String]) -> String? {
        var command: any ParsableCommand.Type = Culvert.self
        var path = "culvert"
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

    /// The number of characters to insert, remove or replace to make one text of the other (Levenshtein).
    static func distance(_ a: String, _ b: String) -> Int {
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
