// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

extension ServerCommand {
    struct UserCommand: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "user",
            abstract: "Add, list and remove users.",
            discussion: """
                Examples:
                  sudo culvert credential-server user add anna
                  sudo culvert credential-server user list --json | jq -r '.users[].login'
                  sudo culvert credential-server user remove anna
                """,
            subcommands: [Add.self, List.self, Remove.self])
    }
}

extension ServerCommand.UserCommand {
    typealias DirectoryOptions = ServerCommand.DirectoryOptions

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a user, or give one a new password.",
            discussion: """
                The password is asked for twice, or is the first line of a file or of standard input. It is never an argument, \
                which other users of the machine can read. It has 8 characters at least, and only its hash is kept.

                With --replace, sessions under the old password end.

                Examples:
                  sudo culvert credential-server user add anna
                  sudo culvert credential-server user add robot --password-file robot.password --address 10.66.0.9
                  pwgen 20 1 | sudo culvert credential-server user add ben --password-file -

                Exit status: 0 added, 2 wrong usage or there is one already, 3 no such folder, 4 not permitted.
                """)

        @Argument(help: ArgumentHelp("The user's name.", valueName: "login"))
        var login: String

        @Option(
            help: ArgumentHelp("A file whose first line is the password; - is standard input.", valueName: "file"),
            completion: .file())
        var passwordFile: String?

        @Option(help: ArgumentHelp("An address that is this user's alone; one of each family.", valueName: "address"))
        var address: [String] = []

        @Flag(help: "Replace password and addresses of a user that is there.")
        var replace = false

        @Flag(help: "Print one JSON object.")
        var json = false

        @OptionGroup var directory: DirectoryOptions

        // Only so that a password typed here is refused without being repeated.
        @Argument(help: .hidden) var refused: [String] = []

        func validate() throws {
            guard refused.isEmpty else {
                throw ValidationError(
                    "a password is not taken from an argument, where other users can see it; leave it out to be asked, or use --password-file"
                )
            }
        }

        func run() throws {
            let tool = ServerTool(console: .standard, directory: directory.directory)
            try finish(
                tool.add(
                    login, passwordFile: passwordFile, addresses: address, replaces: replace, json: json))
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the users.",
            discussion: """
                Examples:
                  sudo culvert credential-server user list
                  sudo culvert credential-server user list --json

                Exit status: 0 listed, 3 no such folder, 4 not permitted.
                """)

        @Flag(help: "Print one JSON object.")
        var json = false

        @OptionGroup var directory: DirectoryOptions

        func run() throws {
            try finish(ServerTool(console: .standard, directory: directory.directory).list(json: json))
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a user; its sessions end within two seconds.",
            discussion: """
                Examples:
                  sudo culvert credential-server user remove anna

                Exit status: 0 removed, 3 no such user or folder, 4 not permitted.
                """)

        @Argument(help: ArgumentHelp("The user's name.", valueName: "login"))
        var login: String

        @Flag(help: "Print one JSON object.")
        var json = false

        @OptionGroup var directory: DirectoryOptions

        func run() throws {
            try finish(ServerTool(console: .standard, directory: directory.directory).remove(login, json: json))
        }
    }
}
