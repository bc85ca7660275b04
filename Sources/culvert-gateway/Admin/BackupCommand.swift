// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import TunnelSystem

/// The passphrase of a backup: the first line of a file, or typed at a terminal, but never an argument.
struct PassphraseOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A file whose first line is the passphrase; - for standard input (default: type it at the terminal).",
            valueName: "file"),
        completion: .file())
    var passphraseFile: String?

    var input: SecretInput { SecretInput("passphrase", file: passphraseFile, option: "--passphrase-file") }
}

/// `culvert gateway backup`.
struct BackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Back up everything except the backup key to an encrypted file.",
        discussion: """
            The gateway keeps running. With the file and its passphrase, anyone can act as the gateway. A passphrase has at least 12 \
            characters. Without --passphrase-file, you type it twice at the terminal.

            Examples:
              sudo culvert gateway backup /root/gateway.backup
              sudo culvert gateway backup gateway.backup --passphrase-file passphrase
            """)
    @Argument(help: "The file to write, which only its owner can read.", completion: .file()) var file: String
    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var socket: SocketOptions

    func run() throws {
        try carryOut { console throws(CommandFailure) in
            var bytes = try passphrase.input.read(isNew: true)
            defer { wipe(&bytes) }
            // The gateway gets valid UTF-8, so that a restore reads the same bytes.
            guard let text = String(validating: bytes, as: UTF8.self), (12...512).contains(text.count) else {
                throw CommandFailure("a passphrase must have 12 to 512 UTF-8 characters", status: ExitStatus.usage)
            }
            let output = try SecretFile(new: file)
            do throws(CommandFailure) {
                try output.write(
                    try socket.client.bytes(ManagementRoutes.backUp, body: SecretText(bytes)))
            } catch {
                output.discard()
                throw error
            }
            console.line("the backup is in \(file)")
        }
    }
}

/// `culvert gateway restore`.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Restore a gateway's folder from a backup.",
        discussion: """
            The folder must not exist. Changes after the backup are lost: invitations that were used since then are open again, \
            and devices that were revoked have access again.

            Example:
              sudo culvert gateway restore /root/gateway.backup --passphrase-file /root/passphrase --owner culvert
            """)
    @Argument(help: "The backup file.", completion: .file()) var file: String
    @Option(help: ArgumentHelp("The user that will own the folder.", valueName: "user")) var owner: String?
    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var folder: FolderOptions

    func run() throws {
        try finish(
            RestoreTool(console: .standard, directory: folder.directory).run(file, passphrase, owner: owner))
    }
}
