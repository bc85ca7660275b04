// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import TunnelSystem

/// `culvert gateway user password`.
struct PasswordCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "password", abstract: "Set a user's password for the login tunnel.",
        discussion: """
            The password is asked for at the terminal, or is the first line of --password-file; it is never an argument. It has 8 \
            characters at least. Sessions begun with the old password end.

            Examples:
              sudo culvert gateway user password anna
              sudo culvert gateway user password anna --password-file /root/anna.password
              sudo culvert gateway user password anna --remove
            """)
    @Argument(help: "A login or an id.") var user: String
    @Option(
        help: ArgumentHelp("A file whose first line is the password; - is standard input.", valueName: "file"),
        completion: .file())
    var passwordFile: String?
    @Flag(help: "Take the password away: the user logs in no more.") var remove = false
    @OptionGroup var options: ListOptions

    func validate() throws {
        guard !(remove && passwordFile != nil) else {
            throw ValidationError("--remove and --password-file exclude each other")
        }
    }

    func run() throws {
        try carryOut(options) { tool throws(CommandFailure) in
            let id = try tool.user(user)
            guard !remove else {
                let changed = try tool.client.send(UserRoutes.removePassword, id)
                return tool.done("'\(user)' has no password any more", changed)
            }
            var bytes = try SecretInput("password of '\(user)'", file: passwordFile, option: "--password-file")
                .read(isNew: true)
            defer { wipe(&bytes) }
            guard String(validating: bytes, as: UTF8.self) != nil else {
                throw CommandFailure("a password is UTF-8", status: ExitStatus.usage)
            }
            let changed = try tool.client.send(UserRoutes.setPassword, id, body: SecretText(bytes))
            tool.done("'\(user)' has a new password", changed)
        }
    }
}

/// `culvert gateway login-tunnel`.
struct LoginTunnelCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login-tunnel", abstract: "Show what clients of the login tunnel need beside login and password.",
        discussion: """
            Whoever has the pre-shared key can try passwords: give it to your users alone.

            Example:
              sudo culvert gateway login-tunnel --preshared-key-file /root/login.psk
            """)
    @Option(
        help: ArgumentHelp("A new file for the pre-shared key, which is not printed then.", valueName: "file"),
        completion: .file())
    var presharedKeyFile: String?
    @OptionGroup var options: ListOptions

    func run() throws {
        try carryOut(options) { tool throws(CommandFailure) in
            let reply = try tool.client.send(LoginTunnelRoutes.show)
            guard case .object(var members) = reply else { return }
            let (server, key) = (reply["server"]?.cell ?? "-", reply["serverKey"]?.cell ?? "-")
            if let file = presharedKeyFile {
                try SecretFile.write((reply["presharedKey"]?.string ?? "") + "\n", to: file, console: tool.console)
                members.removeAll { $0.name == "presharedKey" }
            }
            tool.show(.object(members))
            guard !options.json else { return }
            tool.console.line()
            tool.console.line("On Linux, with the pre-shared key in a file:")
            tool.console.line(
                "  culvert profile add-login NAME --server \(server) --server-key \(key) --login LOGIN --preshared-key-file FILE"
            )
        }
    }
}
