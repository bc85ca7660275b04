// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import Provisioning
import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// `culvert gateway user`.
struct UserCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user", abstract: "Add, list, change and remove users.",
        discussion: """
            Examples:
              sudo culvert gateway user add anna --name "Anna Example" --devices 3
              sudo culvert gateway user set anna --disable
              sudo culvert gateway user set anna --address 10.66.0.77
              sudo culvert gateway user password anna
              sudo culvert gateway user list --json | jq -r '.users[].login'
            """,
        subcommands: [Add.self, List.self, Show.self, Set.self, PasswordCommand.self, Remove.self])

    /// The fields that can be set when a user is added and changed.
    struct Fields: ParsableArguments {
        @Option(help: "The user's display name.") var name: String?
        @Option(help: "Notes.") var notes: String?
        @Option(help: ArgumentHelp("The largest number of devices.", valueName: "number")) var devices: Int64?
        @Option(help: ArgumentHelp("Expire the user after this time, such as 12h or 30d.", valueName: "time"))
        var expiresIn: String?
        @Option(
            help: ArgumentHelp(
                "A fixed address for the user's logins, at most one of each family.", valueName: "address"))
        var address: [String] = []

        func fill(_ values: inout FieldValues<User>) throws(CommandFailure) {
            try values.set(\.name, option: .option(name))
            try values.set(\.notes, option: .option(notes))
            try values.set(\.deviceLimit, option: devices.map { .integer($0) })
            try values.set(\.expiresAt, option: try Lifetime.date(expiresIn))
            try values.set(\.addresses, option: .option(address))
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add a user.")
        @Argument(help: "The login, which must be unique.") var login: String
        @OptionGroup var fields: Fields
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                var draft = UserDraft()
                try draft.set(\.login, option: .string(login))
                try fields.fill(&draft)
                let user = try tool.client.send(UserRoutes.add, body: draft)
                tool.done(
                    "'\(login)' was added; next: culvert gateway invite \(login), or for the login tunnel: "
                        + "culvert gateway user password \(login)", user)
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List users.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                try tool.list(UserRoutes.list, as: "users")
            }
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show a user.")
        @Argument(help: "A login or an ID.") var user: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                tool.show(try tool.client.send(UserRoutes.show, try tool.user(user)))
            }
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Change a user.",
            discussion: "A disabled or expired user keeps devices and rules, but none of the devices is admitted.")
        @Argument(help: "A login or an ID.") var user: String
        @Option(help: "The new login.") var login: String?
        @OptionGroup var fields: Fields
        @Flag(help: "Enable the user.") var enable = false
        @Flag(help: "Disable the user with all devices.") var disable = false
        @Flag(help: "Remove the expiry.") var neverExpires = false
        @Flag(help: "Remove the user's fixed addresses.") var noAddress = false
        @OptionGroup var options: ListOptions

        func validate() throws {
            guard !(enable && disable) else { throw ValidationError("--enable and --disable exclude each other") }
            guard !(noAddress && !fields.address.isEmpty) else {
                throw ValidationError("--no-address and --address exclude each other")
            }
            guard !(neverExpires && fields.expiresIn != nil) else {
                throw ValidationError("--never-expires and --expires-in exclude each other")
            }
        }

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                var update = UserUpdate()
                try fields.fill(&update)
                try update.set(\.login, option: .option(login))
                try update.set(\.isEnabled, option: .option(on: enable, off: disable))
                if noAddress { update.addresses = [] }
                if neverExpires { update.expiresAt = .some(nil) }
                let changed = try tool.client.send(UserRoutes.change, try tool.user(user), body: update)
                tool.done("'\(user)' was changed", changed)
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a user with all devices, tokens and invitations.")
        @Argument(help: "A login or an ID.") var user: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                tool.done(
                    "'\(user)' was removed", try tool.client.send(UserRoutes.remove, try tool.user(user)))
            }
        }
    }
}

extension Lifetime {
    /// The time after this duration, in the format of the API; `nil` if there is no text.
    static func date(_ text: String?) throws(CommandFailure) -> JSON? {
        guard let text else { return nil }
        return .string(Date(timeIntervalSinceNow: Double(try seconds(text))).formatted(.iso8601))
    }
}
