// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert credential-server`, the name of a removed program. It names its replacement with any arguments.
struct CredentialServerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "credential-server", abstract: "Removed: 'culvert gateway' serves the login tunnel.",
        discussion: """
            \(replacement)

            Exit status: 2 always.
            """)

    private static let replacement = """
        A gateway without WireGuard takes its place:
          culvert gateway init HOST --login-tunnel-only --backup-key FILE

        The gateway takes over the users, keys and settings of a credential server's folder. Its clients keep their profiles:
          culvert gateway import-credential-server FOLDER
        """

    /// The problem that names the replacement if this is the command of a command line.
    static func problem(_ arguments: [String]) -> CommandProblem? {
        guard arguments.first == _commandName else { return nil }
        return CommandProblem(ExitStatus.usage, "'culvert credential-server' has been removed. \(replacement)")
    }
}
