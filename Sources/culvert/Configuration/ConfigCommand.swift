// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert config`: checks a configuration file without applying it.
struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Examine wg-quick configuration files.",
        discussion: """
            Examples:
              culvert config check /etc/wireguard/wg0.conf
              culvert config check --json *.conf
            """,
        subcommands: [Check.self])

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Report every mistake of wg-quick files, as a compiler does.",
            discussion: """
                Each problem is a line FILE:LINE:COLUMN: error: REASON, the text, and the remedy. Keys are \
                never shown. A file that other users can read although it holds a secret gets a warning.

                Examples:
                  culvert config check wg0.conf
                  generate-config | culvert config check -
                  culvert config check --json a.conf b.conf

                Exit status: 0, 1, 2; see culvert(1).
                """)

        @Argument(help: ArgumentHelp("Files to examine; - is standard input.", valueName: "file"))
        var files: [String]

        @Flag(help: "Print one JSON document.")
        var json = false

        @Flag(help: "Accept a file without PrivateKey, as wg setconf does.")
        var allowMissingPrivateKey = false

        func run() throws {
            let checker = ConfigChecker(console: .standard, requiresPrivateKey: !allowMissingPrivateKey)
            try finish(checker.check(files.map { CheckedFile(path: $0) }, json: json))
        }
    }
}
