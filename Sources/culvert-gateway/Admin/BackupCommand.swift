// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CTunnelSystem
import CommandLineSupport
import Gateway
import Synchronization
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
            // Send only valid UTF-8 to the gateway, so that a restore reads the same bytes.
            guard let text = String(validating: bytes, as: UTF8.self), (12...512).contains(text.count) else {
                throw CommandFailure("a passphrase must have 12 to 512 UTF-8 characters", status: ExitStatus.usage)
            }
            try BackupTool(client: socket.client, file: file).run(bytes)
            console.line("the backup is in \(file)")
        }
    }
}

/// The work of `culvert gateway backup`.
struct BackupTool: Sendable {
    var client: AdminClient
    var file: String

    /// Writes the file. If this throws or a signal ends the command, nothing is left of it.
    func run(_ passphrase: [UInt8]) throws(CommandFailure) {
        let problem = Mutex<CommandFailure?>(nil)
        _ = SignalledRun.run { [self] in
            do throws(CommandFailure) { try await write(passphrase) } catch {
                problem.withLock { $0 = error }
            }
            return 0
        }
        if let problem = problem.withLock({ $0 }) { throw problem }
    }

    private func write(_ passphrase: [UInt8]) async throws(CommandFailure) {
        let output = try SecretFile(new: file)
        let temporary = output.temporary
        let problem = await withTaskCancellationHandler { () -> CommandFailure? in
            do throws(CommandFailure) { try receive(passphrase, output) } catch { return error }
            return nil
        } onCancel: {
            // The other thread may wait for the gateway.
            unsafe _ = unlink(temporary)
            _exit(ExitStatus.interrupted)
        }
        guard let problem else { return try output.commit() }
        throw CommandFailure("\(file) was not written: \(problem.reason)", status: problem.status, fix: problem.fix)
    }

    /// Writes the backup as it arrives. It is decrypted too: the file is complete only if its last chunk is.
    private func receive(_ passphrase: [UInt8], _ output: borrowing SecretFile) throws(CommandFailure) {
        var reader = BackupReader(passphrase: passphrase)
        var reply = try client.stream(ManagementRoutes.backUp, body: SecretText(passphrase))
        while let part = try reply.next() {
            try output.append(part)
            do throws(GatewayDirectoryError) { _ = try reader.read(part) } catch { throw CommandFailure(error) }
        }
        do throws(GatewayDirectoryError) { _ = try reader.finish() } catch { throw CommandFailure(error) }
    }
}

/// `culvert gateway restore`.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Restore a gateway's folder from a backup.",
        discussion: """
            The folder must not exist. Changes after the backup are lost: invitations that were used since then are open again, \
            and devices that were revoked have access again.

            With --revoke-since, such access is ended again before the restored gateway can start, by the audit log in the \
            gateway's earlier folder. This includes removed and disabled users and devices, revoked tokens, used and revoked \
            invitations, replaced passwords and keys, and earlier ends. No gateway may be running in that folder, which is not changed.

            Examples:
              sudo culvert gateway restore /root/gateway.backup --passphrase-file /root/passphrase --owner culvert
              sudo culvert gateway restore /root/gateway.backup --owner culvert --revoke-since /etc/culvert/gateway.old
            """)
    @Argument(help: "The backup file.", completion: .file()) var file: String
    @Option(help: ArgumentHelp("The user that will own the folder.", valueName: "user")) var owner: String?
    @Option(
        help: ArgumentHelp(
            "End access that ended after the backup, by the audit log in this earlier folder of the gateway.",
            valueName: "folder"),
        completion: .directory)
    var revokeSince: String?
    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var folder: FolderOptions

    func run() throws {
        try finish(RestoreTool(console: .standard, directory: folder.directory).run(self))
    }
}
