// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import TunnelSystem

/// `culvert key`: keys as `wg genkey`, `wg pubkey` and `wg genpsk` make them.
struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Make keys: private, public, pre-shared.",
        discussion: """
            Keys are 44 characters of base64, as wg(8) reads and writes them.

            Examples:
              (umask 077; culvert key generate > private.key)
              culvert key public < private.key > public.key
              (umask 077; culvert key preshared > preshared.key)
              culvert key generate --json
            """,
        subcommands: [Generate.self, Public.self, Preshared.self])

    struct Generate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a new private key.",
            discussion: """
                Warns on standard error if the output is a file that every user may read.

                Examples:
                  (umask 077; culvert key generate > private.key)
                  culvert key generate | tee private.key | culvert key public > public.key
                """)

        @Flag(help: "Print one JSON object with the private and the public key.")
        var json = false

        func run() throws { try finish(KeyTool(console: .standard).generate(json: json)) }
    }

    struct Public: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read a private key from standard input and print its public key.",
            discussion: """
                Examples:
                  culvert key public < private.key
                  culvert key generate | culvert key public

                Exit status: 0, 1, 2; see culvert(1).
                """)

        @Flag(help: "Print one JSON object with the public key.")
        var json = false

        // Present only so that a key typed here is refused without being repeated.
        @Argument(help: .hidden)
        var refused: [String] = []

        func validate() throws {
            guard refused.isEmpty else {
                throw ValidationError(
                    "a private key cannot be given as an argument, since other users could see it; "
                        + "use standard input: culvert key public < private.key")
            }
        }

        func run() throws {
            let input = SystemCall.readAll(0, limit: KeyTool.inputLimit)
            try finish(KeyTool(console: .standard).publicKey(of: input, json: json))
        }
    }

    struct Preshared: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a new pre-shared key.",
            discussion: """
                Both peers need the same one, in PresharedKey of each other's [Peer] section.

                Examples:
                  (umask 077; culvert key preshared > preshared.key)
                """)

        @Flag(help: "Print one JSON object with the pre-shared key.")
        var json = false

        func run() throws { try finish(KeyTool(console: .standard).preshared(json: json)) }
    }
}
