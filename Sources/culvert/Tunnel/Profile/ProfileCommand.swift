// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import WireGuardTunnel

/// `culvert profile`: stores tunnels as profiles, with their keys in separate files.
struct ProfileCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "profile",
        abstract: "Keep tunnels as profiles, with their keys in files that only root can read.",
        discussion: """
            Examples:
              sudo culvert profile add wg0.conf
              sudo culvert profile list
              sudo culvert up wg0
            """,
        subcommands: [Add.self, AddLogin.self, List.self, Show.self, Remove.self])

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a profile from a wg-quick file.",
            discussion: """
                Keys are stored in the folder of secrets, and the rest in the profile; the file is no longer needed. \
                Commands (PostUp and the like) have no place in a profile.

                Examples:
                  sudo culvert profile add /etc/wireguard/wg0.conf
                  sudo culvert profile add download.conf --name home --leak-policy enforced
                  sudo culvert profile add office.conf --allow-network 192.168.7.0/24
                  sudo culvert profile add pia.conf --end-when-dead after-healing

                Exit status: 0, 2, 3, 4; see culvert(1).
                """)

        @Argument(
            help: ArgumentHelp("A wg-quick file; - is standard input.", valueName: "file"),
            completion: .file(extensions: ["conf"]))
        var file: String

        @Option(help: ArgumentHelp("The profile's and its interface's name; by default the file's.", valueName: "name"))
        var name: String?

        @OptionGroup(title: "Traffic outside the tunnel") var passing: LeakPolicyOptions

        @OptionGroup(title: "Tunnels without data") var connectivity: ConnectivityArguments

        @OptionGroup(title: "Permitted users") var users: UserOptions

        @Flag(help: "Print the profile as one JSON object.")
        var json = false

        @OptionGroup var profiles: ProfileOptions

        func run() throws {
            let (file, name, passing, connectivity, json) = (file, name, passing, connectivity, json)
            let users = users.permittedUsers
            try runTool(profiles) { tool throws(CommandProblem) in
                try await tool.add(
                    CheckedFile(path: file), path: file, name: name, json: json, users: users
                ) {
                    passing.apply(to: &$0)
                    connectivity.apply(to: &$0.connectivity)
                }
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the profiles.",
            discussion: """
                Examples:
                  sudo culvert profile list
                  sudo culvert profile list --json | jq -r '.profiles[].name'
                """)

        @Flag(help: "Print one JSON document.")
        var json = false

        @OptionGroup var profiles: ProfileOptions

        func run() throws {
            let json = json
            try runTool(profiles) { tool throws(CommandProblem) in try await tool.list(json: json) }
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a profile: WireGuard's as a wg-quick file.",
            discussion: """
                Keys are hidden unless --show-secrets asks for them, for which one must be able to read them.

                Examples:
                  sudo culvert profile show home
                  (umask 077; sudo culvert profile show home --show-secrets > home.conf)

                Exit status: 0, 3, 4; see culvert(1).
                """)

        @Argument(help: ArgumentHelp("The profile.", valueName: "name"))
        var name: String

        @Flag(help: "Show passwords, private and pre-shared keys.")
        var showSecrets = false

        @Flag(help: "Print one JSON object.")
        var json = false

        @OptionGroup var profiles: ProfileOptions

        func run() throws {
            let (name, showSecrets, json) = (name, showSecrets, json)
            try runTool(profiles) { tool throws(CommandProblem) in
                try await tool.show(name, showsSecrets: showSecrets, json: json)
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a profile and its keys; its tunnel is taken down.",
            discussion: """
                Examples:
                  sudo culvert profile remove home

                Exit status: 0, 3, 4; see culvert(1).
                """)

        @Argument(help: ArgumentHelp("The profile.", valueName: "name"))
        var name: String

        @OptionGroup var profiles: ProfileOptions
        @OptionGroup var runtime: RuntimeOptions

        func run() throws {
            let name = name
            try runTool(profiles, runtime.directory) { tool throws(CommandProblem) in try await tool.remove(name) }
        }
    }
}

extension ParsableCommand {
    /// Runs a command on the profiles.
    func runTool(
        _ profiles: ProfileOptions, _ runtime: RuntimeDirectory = RuntimeDirectory(),
        _ body: @escaping @Sendable (ProfileTool) async throws(CommandProblem) -> Void
    ) throws {
        let tool = ProfileTool(folder: profiles.folder, console: .standard, runtime: runtime)
        try finish(
            SignalledRun.run {
                do throws(CommandProblem) {
                    try await body(tool)
                    return ExitStatus.success
                } catch {
                    return error.report(to: tool.console)
                }
            })
    }
}
