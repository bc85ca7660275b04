// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert gateway import-credential-server`.
struct ImportCredentialServerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import-credential-server",
        abstract: "Take over users, keys and settings of a credential server.",
        discussion: """
            Stop both first. Clients log in to the gateway with the profiles and passwords that they have, if the server's host or \
            name leads to the gateway. The command checks the whole folder before it changes the gateway, and does not change the folder. \
            The same command again changes nothing until the gateway's settings or users change.

            A gateway that has devices, or other users with fixed addresses, keeps its networks and the settings of devices. The \
            command names those that differ.

            Examples:
              sudo culvert gateway init vpn.example.com --owner culvert --login-tunnel-only --backup-key /root/backup.key
              sudo culvert gateway import-credential-server /etc/culvert/credential-server

            Exit status: 0 imported, 2 something that the gateway cannot take over, 3 no such folder, 4 not permitted, \
            5 the gateway runs.
            """)
    @Argument(help: "The credential server's folder.", completion: .directory) var server: String
    @OptionGroup var folder: FolderOptions

    func run() throws {
        try finish(ImportTool(console: .standard, directory: folder.directory).run(server))
    }
}
