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
            Type the password at the terminal, or write it in the first line of --password-file. It is never an argument, and has at \
            least 8 characters. Sessions that began with the old password end.

            Examples:
              sudo culvert gateway user password anna
              sudo culvert gateway user password anna --password-file /root/anna.password
              sudo culvert gateway user password anna --remove
            """)
    @Argument(help: "A login or an ID.") var user: String
    @Option(
        help: ArgumentHelp("A file whose first line is the password; - for standard input.", valueName: "file"),
        completion: .file())
    var passwordFile: String?
    @Flag(help: "Remove the password, so that the user cannot log in.") var remove = false
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
                return tool.done("the password of '\(user)' was removed", changed)
            }
            var bytes = try SecretInput("password of '\(user)'", file: passwordFile, option: "--password-file")
                .read(isNew: true)
            defer { wipe(&bytes) }
            guard String(validating: bytes, as: UTF8.self) != nil else {
                throw CommandFailure("a password must be UTF-8", status: ExitStatus.usage)
            }
            let changed = try tool.client.send(UserRoutes.setPassword, id, body: SecretText(bytes))
            tool.done("'\(user)' has a new password", changed)
        }
    }
}

/// `culvert gateway login-tunnel`.
struct LoginTunnelCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login-tunnel", abstract: "Show the settings that clients of the login tunnel need.",
        discussion: """
            Clients need them in addition to a login and its password. With the pre-shared key, anyone can try passwords: give it \
            only to your users.

            Example:
              sudo culvert gateway login-tunnel --preshared-key-file /root/login.psk
            """)
    @Option(
        help: ArgumentHelp("A new file for the pre-shared key, instead of standard output.", valueName: "file"),
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
