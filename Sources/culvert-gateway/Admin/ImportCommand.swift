// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert gateway import-credential-server`.
struct ImportCredentialServerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import-credential-server",
        abstract: "Import the users, keys and settings of a credential server.",
        discussion: """
            Stop both first. Clients log in to the gateway with their present profiles and passwords, if the server's host or \
            name resolves to the gateway. The command checks the whole folder before it changes the gateway, and does not change the folder. \
            Repeating the command changes nothing until the gateway's settings or users change.

            A gateway that has devices, or other users with fixed addresses, keeps its networks and the settings of devices. The \
            command lists those that differ.

            Examples:
              sudo culvert gateway init vpn.example.com --owner culvert \\
                --login-tunnel-only --backup-key /root/backup.key
              sudo culvert gateway import-credential-server /etc/culvert/credential-server

            Exit status: 0, 2, 3, 4, 5; see culvert-gateway(8).
            """)
    @Argument(help: "The credential server's folder.", completion: .directory) var server: String
    @OptionGroup var folder: FolderOptions

    func run() throws {
        try finish(ImportTool(console: .standard, directory: folder.directory).run(server))
    }
}
