// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import NetworkAddresses

/// `culvert-credential-server`, which `culvert credential-server` runs: the server of the login tunnel.
struct ServerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "culvert-credential-server",
        abstract: "Serve the login tunnel: users with passwords, addresses, firewall.",
        discussion: """
            Examples:
              sudo culvert credential-server init --endpoint vpn.example.com
              sudo culvert credential-server user add anna
              sudo culvert credential-server run

            Exit status: 0 success, 1 failure, 2 wrong usage or a setting that cannot be used, 3 no such folder or user, \
            4 not permitted, 5 the server runs already.
            """,
        version: "culvert-credential-server \(programVersion)",
        subcommands: [Init.self, Run.self, UserCommand.self])

    /// What all of them take.
    struct DirectoryOptions: ParsableArguments {
        @Option(
            help: ArgumentHelp("The server's folder.", valueName: "folder"), completion: .directory)
        var directory = ServerDirectory.standard
    }

    struct Init: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a server's keys and settings, and print what its clients need.",
            discussion: """
                The folder has server.json with all settings (docs/credential-server.md explains each), the keys and, later, the \
                users. Nobody but its owner can read it, and the server runs as its owner: make a user for it, and name it with \
                --owner. The server's public key and the pre-shared key go to each client; the private key to nobody.

                Examples:
                  sudo culvert credential-server init --endpoint vpn.example.com --dns 9.9.9.9
                  sudo culvert credential-server init --owner culvert --endpoint 203.0.113.5:51840
                  sudo culvert credential-server init --endpoint vpn.example.com --json > client.json

                Exit status: 0 made, 2 wrong usage or there is one already, 4 not permitted.
                """)

        @OptionGroup var directory: DirectoryOptions

        @Option(
            help: ArgumentHelp(
                "Where clients find the server: a name or an address, with :PORT if it is not 51840.", valueName: "host"
            ))
        var endpoint: String?

        @Option(
            help: ArgumentHelp("The server's address in the tunnel, and the clients' network.", valueName: "address"))
        var address4 = "10.66.0.1/24"

        @Option(
            help: ArgumentHelp(
                "The same of IPv6; by default in a unique local network of the server's own; 'none' for none.",
                valueName: "address"))
        var address6: String?

        @Option(help: ArgumentHelp("A name server for the clients; up to four times.", valueName: "address"))
        var dns: [String] = []

        @Option(
            help: ArgumentHelp("The user that the server runs as, which the folder is given to.", valueName: "user"))
        var owner: String?

        @Flag(help: "Print one JSON object.")
        var json = false

        func run() throws {
            try finish(
                ServerTool(console: .standard, directory: directory.directory).initialize(
                    endpoint: endpoint, address4: address4, address6: address6, dns: dns, owner: owner, json: json))
        }
    }

    struct Run: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Serve until a signal comes.",
            discussion: """
                Needs root or CAP_NET_ADMIN. Started by root, it becomes the folder's owner and keeps CAP_NET_ADMIN and \
                CAP_NET_BIND_SERVICE alone. What a server left that was killed is undone first. Users that are added or removed \
                count at once; other settings from the next start on. The log goes to standard error; CULVERT_LOG names its level.

                Examples:
                  sudo culvert credential-server run
                  sudo systemctl enable --now culvert-credential-server

                Exit status: 0 ended by a signal, 1 the interface is gone or the system failed, 2 a setting that cannot be used, \
                3 no such folder, 4 not permitted, 5 it runs already.
                """)

        @OptionGroup var directory: DirectoryOptions

        @Option(
            help: ArgumentHelp("The folder of the journal of what is changed on this host.", valueName: "folder"),
            completion: .directory)
        var journal = "/run/culvert-credential-server"

        func run() throws {
            try finish(ServerRun.run(directory: directory.directory, journal: journal, console: .standard))
        }
    }
}
