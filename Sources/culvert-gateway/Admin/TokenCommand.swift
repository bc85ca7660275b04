// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import TunnelSystem

/// `culvert gateway token`.
struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token", abstract: "Make, list and revoke tokens of the API.",
        discussion: """
            A token is told once, when it is made. Scopes: admin does everything, readOnly sees everything but secrets, enrol makes \
            devices of its user, addKey is the 'pt' of PIA's clients.

            Examples:
              sudo culvert gateway token add prometheus --scope readOnly --output prometheus.token
              sudo culvert gateway token add anna-pia --scope addKey --user anna --output -
            """,
        subcommands: [Add.self, List.self, Revoke.self])

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make a token.")
        @Argument(help: "What the token is called.") var name: String
        @Option(help: "admin, readOnly, enrol or addKey.") var scope: String
        @Option(help: "Whose devices it makes: a login or an id.") var user: String?
        @Option(help: ArgumentHelp("How long it lasts: 12h, 30d.", valueName: "time")) var expiresIn: String?
        @Option(
            help: ArgumentHelp(
                "The file to write it to, which only its owner can read; - for standard output.", valueName: "file"),
            completion: .file())
        var output: String
        @OptionGroup var socket: SocketOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(socket, console)
                var members: [String: JSON] = ["name": .string(name), "scope": .string(scope)]
                if let user { members["user"] = .string(try tool.user(user)) }
                if let expiresIn { members["lifetimeSeconds"] = .integer(try Lifetime.seconds(expiresIn)) }
                let made = try tool.client.ask("POST", "/v1/tokens", .object(members))
                guard let secret = made["secret"]?.string else { throw CommandFailure("the gateway tells no token") }
                do throws(CommandFailure) {
                    try SecretFile.write(secret + "\n", to: output, console: console)
                } catch {
                    if let id = made["token"]?["id"]?.string { _ = try? tool.client.ask("DELETE", "/v1/tokens/\(id)") }
                    throw error
                }
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List tokens.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                tool.show(
                    try tool.client.all("/v1/tokens"), as: "tokens",
                    [
                        ("name", "name"), ("id", "id"), ("scope", "scope"), ("begins with", "hint"),
                        ("expires", "expiresAt"), ("last used", "lastUsedAt"), ("revoked", "revokedAt"),
                    ])
            }
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a token.")
        @Argument(help: "Its id.") var id: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                tool.done(
                    "the token was revoked", try tool.client.ask("DELETE", "/v1/tokens/\(AdminClient.escaped(id))"))
            }
        }
    }
}

/// `culvert gateway invite`.
struct InviteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite", abstract: "Invite a user's device: one line that makes one device, once.",
        discussion: """
            The line has the gateway's name, its pins and a one-time token. Whoever has it becomes the user's device with \
            'culvert enroll': give it to nobody else.

            Examples:
              sudo culvert gateway invite anna --output anna.invitation
              sudo culvert gateway invite anna --output - --qr --expires-in 2h
            """)
    @Argument(help: "The user: a login or an id.") var user: String
    @Option(help: "What the device is called where it does not say.") var device: String?
    @Option(help: ArgumentHelp("How long it can be used: 90m, 12h, 3d.", valueName: "time")) var expiresIn: String?
    @Option(
        help: ArgumentHelp(
            "The file to write it to, which only its owner can read; - for standard output.", valueName: "file"),
        completion: .file())
    var output = "-"
    @Flag(help: "Draw it as a QR code on the terminal.") var qr = false
    @OptionGroup var socket: SocketOptions

    func run() throws {
        try carryOut { console throws(CommandFailure) in
            if qr { _ = try QRCode.modules("x") }
            let tool = AdminTool(socket, console)
            var members: [String: JSON] = ["user": .string(try tool.user(user))]
            if let device { members["deviceName"] = .string(device) }
            if let expiresIn { members["lifetimeSeconds"] = .integer(try Lifetime.seconds(expiresIn)) }
            let made = try tool.client.ask("POST", "/v1/invitations", .object(members))
            guard let text = made["text"]?.string else { throw CommandFailure("the gateway tells no invitation") }
            do throws(CommandFailure) {
                try SecretFile.write(text + "\n", to: output, console: console)
                if qr { for line in try QRCode.lines(text) { console.line(line) } }
            } catch {
                if let id = made["invitation"]?["id"]?.string {
                    _ = try? tool.client.ask("DELETE", "/v1/invitations/\(id)")
                }
                throw error
            }
        }
    }
}

/// `culvert gateway invitation`.
struct InvitationCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invitation", abstract: "List and revoke invitations.", subcommands: [List.self, Revoke.self])

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List invitations.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                tool.show(
                    try tool.client.all("/v1/invitations"), as: "invitations",
                    [
                        ("id", "id"), ("user", "user"), ("begins with", "hint"), ("expires", "expiresAt"),
                        ("used", "usedAt"), ("device", "device"), ("revoked", "revokedAt"), ("misuses", "misuses"),
                    ])
            }
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke an invitation that was not used.")
        @Argument(help: "Its id.") var id: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                tool.done(
                    "the invitation was revoked",
                    try tool.client.ask("DELETE", "/v1/invitations/\(AdminClient.escaped(id))"))
            }
        }
    }
}
