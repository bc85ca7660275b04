// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import CredentialTunnel
import PacketTunnel
import TunnelSystem

extension ProfileCommand {
    /// `culvert profile add-login`: a tunnel with a login.
    struct AddLogin: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add-login",
            abstract: "Add a profile for a server that asks for a login, or change one.",
            discussion: """
                The password is read from the terminal, a file or standard input; it is never an argument, \
                which every user of the machine could see. Password and pre-shared key go into the folder of secrets.

                If a profile with this name exists, the given options change it, and the rest stays. \
                The server assigns addresses, routes and name servers.

                Examples:
                  sudo culvert profile add-login office --server vpn.example:4500 --server-key KEY --login kean \\
                    --preshared-key-file office.psk
                  sudo culvert profile add-login office --password-file -
                  sudo culvert up office

                Exit status: 0, 2, 3, 4; see culvert(1).
                """)

        @Argument(help: ArgumentHelp("The profile's and its interface's name.", valueName: "name"))
        var name: String

        @Option(help: ArgumentHelp("The server: host:port or [v6]:port.", valueName: "server"))
        var server: String?

        @Option(help: ArgumentHelp("The server's public key, in 44 characters of base64.", valueName: "key"))
        var serverKey: String?

        @Option(help: ArgumentHelp("The user's name.", valueName: "login"))
        var login: String?

        @Option(
            help: ArgumentHelp(
                "A file with the password; - is standard input. Without it, a prompt asks for it.", valueName: "file"),
            completion: .file())
        var passwordFile: String?

        @Option(
            help: ArgumentHelp("A file that holds the pre-shared key; - is standard input.", valueName: "file"),
            completion: .file())
        var presharedKeyFile: String?

        @OptionGroup(title: "Traffic outside the tunnel") var passing: LeakPolicyOptions

        @Option(
            help: ArgumentHelp(
                "The largest MTU of the interface, for a path that carries less than the server expects: 576 to 65535.",
                valueName: "bytes"))
        var mtu: Int?

        @OptionGroup(title: "Tunnels without data") var connectivity: ConnectivityArguments

        @Flag(help: "Print the profile as one JSON object.")
        var json = false

        @OptionGroup var profiles: ProfileOptions

        func run() throws {
            let command = self
            try runTool(profiles) { tool throws(CommandProblem) in
                try await tool.addLogin(
                    command.change, password: { (isNew) throws(CommandProblem) in try command.password(isNew) })
            }
        }

        private var change: LoginChange {
            LoginChange(
                name: name, server: server, serverKey: serverKey, login: login, presharedKeyFile: presharedKeyFile,
                adjust: { [passing, mtu, connectivity] in
                    passing.apply(to: &$0)
                    if let mtu { $0.maximumMTU = mtu }
                    connectivity.apply(to: &$0.connectivity)
                }, json: json)
        }

        /// The given password; `nil` to keep the existing one.
        private func password(_ isNew: Bool) throws(CommandProblem) -> SecretBytes? {
            if let passwordFile { return try LoginSecrets.password(CheckedFile(path: passwordFile)) }
            guard isNew else { return nil }
            do throws(CommandFailure) {
                var typed = try HiddenPrompt.read(
                    "password for '\(login ?? name)': ", for: "password", otherwise: "use --password-file")
                defer { wipe(&typed) }
                return SecretBytes(typed)
            } catch {
                throw CommandProblem(error.status, error.text)
            }
        }
    }
}

/// The options that change a profile with a login.
struct LoginChange: Sendable {
    var name: String
    var server: String?
    var serverKey: String?
    var login: String?
    var presharedKeyFile: String?
    var adjust: @Sendable (inout CredentialTunnelConfiguration) -> Void = { _ in }
    var json = false
}

/// Secrets of a login in files.
enum LoginSecrets {
    /// A password: the file's first line.
    static func password(_ file: CheckedFile) throws(CommandProblem) -> SecretBytes {
        let line = try bytes(file).prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard !line.isEmpty else {
            throw CommandProblem(
                ExitStatus.usage, "\(file.name) contains no password\n  fix: write it in the first line")
        }
        return SecretBytes(line)
    }

    static func bytes(_ file: CheckedFile) throws(CommandProblem) -> [UInt8] {
        guard let bytes = file.bytes else {
            throw CommandProblem(
                file.isMissing ? ExitStatus.notFound : file.isForbidden ? ExitStatus.notPermitted : ExitStatus.usage,
                "\(file.name): \(file.failure)")
        }
        return bytes
    }
}
