// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CTunnelSystem
import CommandLineSupport

@main
enum Program {
    static func main() {
        ProgramStart.prepare()
        exit(run(Array(CommandLine.arguments.dropFirst()), console: .standard))
    }

    /// Parses and runs one command line.
    /// - Returns: The exit status.
    static func run(_ arguments: [String], console: Console) -> Int32 {
        do {
            if let secret = arguments.first(where: GatewayCommand.isSecret) {
                throw ValidationError(
                    "an argument is a secret ('\(secret.prefix(3))…'), which other users can read; revoke it, and pass secrets in files"
                )
            }
            var command = try GatewayCommand.parseAsRoot(arguments)
            try command.run()
            return ExitStatus.success
        } catch {
            return GatewayCommand.end(arguments, with: error, console: console)
        }
    }
}
