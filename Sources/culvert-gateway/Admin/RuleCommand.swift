// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import Provisioning
import TunnelServer
import TunnelSystem

/// `culvert gateway rule`.
struct RuleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rule", abstract: "Manage the firewall rules of users and devices.",
        discussion: """
            Rules have an order, and the first match applies. The rules of a device precede those of its user. Without a match, the \
            internet is allowed, but private networks and other devices are not.

            Examples:
              sudo culvert gateway rule add allow --user anna --to 10.0.0.0/24 \\
                --transport tcp --port 443
              sudo culvert gateway rule add deny --device phone --to 0.0.0.0/0 --first
              sudo culvert gateway rule list --user anna
              sudo culvert gateway rule clear --device phone
            """,
        subcommands: [Add.self, List.self, Remove.self, Clear.self])

    /// The owner of the rules.
    struct Owner: ParsableArguments {
        @Option(help: "The rules of this user: a login or an ID.") var user: String?
        @Option(help: "The rules of this device: a name or an ID.") var device: String?

        func validate() throws {
            guard (user == nil) != (device == nil) else { throw ValidationError("use either --user or --device") }
        }

        /// Returns the routes for the owner's rules, and the ID of the owner.
        func find(_ tool: AdminTool) throws(CommandFailure) -> (routes: RuleRoutes, id: String) {
            if let user { return (.ofUsers, try tool.user(user)) }
            return (.ofDevices, try tool.deviceID(device ?? ""))
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add a rule after the others.")
        @Argument(help: "allow or deny.") var action: String
        @OptionGroup var owner: Owner
        @Option(help: ArgumentHelp("A network that the device connects to (default: any).", valueName: "network"))
        var to: [String] = []
        @Option(help: ArgumentHelp("A network that connects to the device; instead of --to.", valueName: "network"))
        var from: [String] = []
        @Option(help: "The protocol: any, tcp, udp or icmp.") var transport = "any"
        @Option(help: ArgumentHelp("A port or a range of ports, such as 8000-8100.", valueName: "port")) var port:
            [String] = []
        @Option(help: "Notes.") var notes = ""
        @Flag(help: "Add the rule before the others.") var first = false
        @OptionGroup var options: ListOptions

        func validate() throws {
            guard to.isEmpty || from.isEmpty else { throw ValidationError("--to and --from exclude each other") }
        }

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                var rule = RuleDraft()
                try rule.set(\.access.action, option: .string(action))
                try rule.set(\.access.direction, option: .string(from.isEmpty ? "out" : "in"))
                try rule.set(\.access.networks, option: .option(to + from))
                try rule.set(\.access.transport, option: .string(transport))
                try rule.set(\.access.ports, option: .option(port))
                try rule.set(\.notes, option: .string(notes))
                let (routes, id) = try owner.find(tool)
                tool.done(
                    "the rule was added",
                    try tool.client.send(routes.add, id, body: RuleAddition(rule, isFirst: first)))
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List rules in their order.")
        @OptionGroup var owner: Owner
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                let (routes, id) = try owner.find(tool)
                let rules = try tool.client.send(routes.list, id)["rules"]?.list ?? []
                tool.show(rules, as: "rules", routes.list.reply.columns)
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Remove one rule.")
        @Argument(help: "The rule's ID.") var id: String
        @OptionGroup var owner: Owner
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                let (routes, ownerID) = try owner.find(tool)
                tool.done("the rule was removed", try tool.client.send(routes.remove, ownerID, id))
            }
        }
    }

    struct Clear: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Remove all rules of a user or a device.")
        @OptionGroup var owner: Owner
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                let (routes, id) = try owner.find(tool)
                tool.done("the rules were removed", try tool.client.send(routes.replace, id, body: RuleList(rules: [])))
            }
        }
    }
}
