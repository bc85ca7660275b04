// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import CommandLineSupport

@main
enum Program {
    static func main() async {
        ProgramStart.prepare()
        exit(await run(Array(CommandLine.arguments.dropFirst()), console: .standard))
    }

    /// Parses and runs one command line.
    /// - Returns: The exit status.
    static func run(_ arguments: [String], console: Console) async -> Int32 {
        // Check this first, because other errors could contain the secret.
        guard !arguments.contains(where: SecretText.isSecret) else {
            console.problem(
                """
                error: an argument is an invitation or a token, which every user of this machine can see there
                  fix: put it into a file that only you can read, or pass it on standard input: culvert enroll -
                """)
            return ExitStatus.usage
        }
        return await EnrollCommand.run(arguments, console: console)
    }
}

/// Secrets in the arguments.
enum SecretText {
    static func isSecret(_ argument: String) -> Bool {
        argument.contains("culvert-invitation:")
            || ["ci_", "ct_", "cd_"].contains { prefix in
                argument.ranges(of: prefix).contains { argument[$0.upperBound...].prefix(20).count == 20 }
            }
    }
}
