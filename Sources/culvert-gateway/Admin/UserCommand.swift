// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
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

    /// What is set at the beginning and later.
    struct Fields: ParsableArguments {
        @Option(help: "What people call the user.") var name: String?
        @Option(help: "Anything worth knowing.") var notes: String?
        @Option(help: ArgumentHelp("How many devices there may be.", valueName: "number")) var devices: Int64?
        @Option(help: ArgumentHelp("When the user ends, from now on: 12h, 30d.", valueName: "time")) var expiresIn:
            String?
        @Option(
            help: ArgumentHelp(
                "A fixed address for the user's logins; once for each family.", valueName: "address"))
        var address: [String] = []

        func members() throws(CommandFailure) -> [String: JSON] {
            var members: [String: JSON] = [:]
            if let name { members["name"] = .string(name) }
            if let notes { members["notes"] = .string(notes) }
            if let devices { members["deviceLimit"] = .integer(devices) }
            if let expiresIn { members["expiresAt"] = .string(try Lifetime.date(expiresIn)) }
            if !address.isEmpty { members["addresses"] = .array(address.map { .string($0) }) }
            return members
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add a user.")
        @Argument(help: "What nobody else is called.") var login: String
        @OptionGroup var fields: Fields
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                var members = try fields.members()
                members["login"] = .string(login)
                let tool = AdminTool(options, console)
                let user = try tool.client.ask("POST", "/v1/users", .object(members))
                tool.done("'\(login)' was added; next: culvert gateway invite \(login)", user)
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List users.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                tool.show(try tool.client.all("/v1/users"), as: "users", Columns.users)
            }
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show a user.")
        @Argument(help: "A login or an id.") var user: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                tool.show(try tool.client.ask("GET", "/v1/users/\(try tool.user(user))"))
            }
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Change a user.",
            discussion: "A user that is disabled or has ended keeps devices and rules; none of the devices is let in.")
        @Argument(help: "A login or an id.") var user: String
        @Option(help: "Another login.") var login: String?
        @OptionGroup var fields: Fields
        @Flag(help: "Let the user's devices in again.") var enable = false
        @Flag(help: "Let none of the user's devices in.") var disable = false
        @Flag(help: "Let the user last.") var neverExpires = false
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
            try carryOut { console throws(CommandFailure) in
                var members = try fields.members()
                if let login { members["login"] = .string(login) }
                if enable || disable { members["isEnabled"] = .bool(enable) }
                if noAddress { members["addresses"] = .array([]) }
                if neverExpires { members["expiresAt"] = .null }
                let tool = AdminTool(options, console)
                let changed = try tool.client.ask("PATCH", "/v1/users/\(try tool.user(user))", .object(members))
                tool.done("'\(user)' was changed", changed)
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a user with all devices, tokens and invitations.")
        @Argument(help: "A login or an id.") var user: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                tool.done(
                    "'\(user)' was removed", try tool.client.ask("DELETE", "/v1/users/\(try tool.user(user))"))
            }
        }
    }
}

extension Lifetime {
    /// The time that is so far away, as the API has it.
    static func date(_ text: String) throws(CommandFailure) -> String {
        Date(timeIntervalSinceNow: Double(try seconds(text))).formatted(.iso8601)
    }
}
