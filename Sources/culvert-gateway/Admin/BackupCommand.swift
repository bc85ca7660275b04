// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import TunnelSystem

/// What encrypts a backup: the first line of a file, or typed at a terminal; never an argument.
struct PassphraseOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A file whose first line is the passphrase; - is standard input. Without it, the terminal is asked.",
            valueName: "file"),
        completion: .file())
    var passphraseFile: String?

    var input: SecretInput { SecretInput("passphrase", file: passphraseFile, option: "--passphrase-file") }
}

/// `culvert gateway backup`.
struct BackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Write everything but the backup key to one encrypted file, while the gateway runs.",
        discussion: """
            Whoever has the file and the passphrase is the gateway. A passphrase has 12 characters at least; without \
            --passphrase-file it is asked for at the terminal, twice.

            Examples:
              sudo culvert gateway backup /root/gateway.backup
              sudo culvert gateway backup /root/gateway.backup --passphrase-file /root/passphrase
            """)
    @Argument(help: "The file to write, which only its owner can read.", completion: .file()) var file: String
    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var socket: SocketOptions

    func run() throws {
        try carryOut { console throws(CommandFailure) in
            var bytes = try passphrase.input.read(isNew: true)
            defer { wipe(&bytes) }
            // The text that is sent is the bytes that restoring reads, or none.
            guard let text = String(validating: bytes, as: UTF8.self), (12...512).contains(text.count) else {
                throw CommandFailure("a passphrase is UTF-8 text of 12 to 512 characters", status: ExitStatus.usage)
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
        commandName: "restore", abstract: "Make a gateway's folder out of a backup.",
        discussion: """
            The folder must not be there yet. What was done since the backup is not in it: invitations that were used since are \
            open again, and devices that were revoked are back.

            Example:
              sudo culvert gateway restore /root/gateway.backup --passphrase-file /root/passphrase --owner culvert
            """)
    @Argument(help: "The backup.", completion: .file()) var file: String
    @Option(help: ArgumentHelp("The user that the folder is given to.", valueName: "user")) var owner: String?
    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var folder: FolderOptions

    func run() throws {
        try finish(
            RestoreTool(console: .standard, directory: folder.directory).run(file, passphrase, owner: owner))
    }
}
