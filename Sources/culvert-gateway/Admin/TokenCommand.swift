// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import TunnelSystem

/// `culvert gateway token`.
struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token", abstract: "Make, list and revoke tokens of the API.",
        discussion: """
            A token is shown only when it is made. Scopes: admin permits everything, readOnly shows everything except secrets, enrol \
            makes devices of its user, addKey is the 'pt' of PIA's clients.

            Examples:
              sudo culvert gateway token add monitor --scope readOnly --output monitor.token
              sudo culvert gateway token add anna-pia --scope addKey --user anna --output -
            """,
        subcommands: [Add.self, List.self, Revoke.self])

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make a token.")
        @Argument(help: "The name of the token.") var name: String
        @Option(help: "The scope: admin, readOnly, enrol or addKey.") var scope: String
        @Option(help: "The user of the token's devices: a login or an ID.") var user: String?
        @Option(help: ArgumentHelp("Expire the token after this time, such as 12h or 30d.", valueName: "time"))
        var expiresIn: String?
        @Option(
            help: ArgumentHelp(
                "The file to write it to, which only its owner can read; - for standard output.", valueName: "file"),
            completion: .file())
        var output: String
        @OptionGroup var socket: SocketOptions

        func run() throws {
            try carryOut(socket) { tool throws(CommandFailure) in
                guard let scope = Token.Scope(rawValue: scope) else {
                    let scopes = Token.Scope.allCases.map(\.rawValue).joined(separator: ", ")
                    throw CommandFailure("scope: must be one of \(scopes)", status: ExitStatus.usage)
                }
                var draft = TokenDraft(scope: scope, name: name)
                if let user { draft.userID = try tool.userID(user) }
                if let expiresIn { draft.lifetimeSeconds = Int(try Lifetime.seconds(expiresIn)) }
                let made = try tool.client.send(TokenRoutes.add, body: draft)
                guard let secret = made["secret"]?.string else {
                    throw CommandFailure("the gateway's answer contains no token")
                }
                do throws(CommandFailure) {
                    try SecretFile.write(secret + "\n", to: output, console: tool.console)
                } catch {
                    if let id = made["token"]?["id"]?.string { _ = try? tool.client.send(TokenRoutes.revoke, id) }
                    throw error
                }
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List tokens.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                try tool.list(TokenRoutes.list, as: "tokens")
            }
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a token.")
        @Argument(help: "The token's ID.") var id: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                tool.done("the token was revoked", try tool.client.send(TokenRoutes.revoke, id))
            }
        }
    }
}

/// `culvert gateway invite`.
struct InviteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite", abstract: "Make an invitation: one line that makes one device of a user.",
        discussion: """
            The line contains the gateway's name, its pins and a one-time token. The first machine that uses it with 'culvert enroll' \
            becomes the user's device: give it only to the user.

            Examples:
              sudo culvert gateway invite anna --output anna.invitation
              sudo culvert gateway invite anna --output - --qr --expires-in 2h
            """)
    @Argument(help: "The user: a login or an ID.") var user: String
    @Option(help: "The name of a device that does not choose one.") var device: String?
    @Option(help: ArgumentHelp("Expire the invitation after this time, such as 12h or 3d.", valueName: "time"))
    var expiresIn: String?
    @Option(
        help: ArgumentHelp(
            "The file to write it to, which only its owner can read; - for standard output.", valueName: "file"),
        completion: .file())
    var output = "-"
    @Flag(help: "Draw the invitation as a QR code on the terminal.") var qr = false
    @OptionGroup var socket: SocketOptions

    func run() throws {
        try carryOut(socket) { tool throws(CommandFailure) in
            if qr { _ = try QRCode.modules("x") }
            var draft = InvitationDraft(userID: try tool.userID(user), deviceName: device ?? "")
            if let expiresIn { draft.lifetimeSeconds = Int(try Lifetime.seconds(expiresIn)) }
            let made = try tool.client.send(InvitationRoutes.add, body: draft)
            guard let text = made["text"]?.string else {
                throw CommandFailure("the gateway's answer contains no invitation")
            }
            do throws(CommandFailure) {
                try SecretFile.write(text + "\n", to: output, console: tool.console)
                if qr { for line in try QRCode.lines(text) { tool.console.line(line) } }
            } catch {
                if let id = made["invitation"]?["id"]?.string {
                    _ = try? tool.client.send(InvitationRoutes.revoke, id)
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
            try carryOut(options) { tool throws(CommandFailure) in
                try tool.list(InvitationRoutes.list, as: "invitations")
            }
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke an invitation that was not used.")
        @Argument(help: "The invitation's ID.") var id: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                tool.done("the invitation was revoked", try tool.client.send(InvitationRoutes.revoke, id))
            }
        }
    }
}
