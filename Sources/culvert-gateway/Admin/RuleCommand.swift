// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import TunnelSystem

/// `culvert gateway rule`.
struct RuleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rule", abstract: "Say what users and devices may reach.",
        discussion: """
            Rules have an order, and the first that fits counts; those of a device come before those of its user. What no rule \
            fits is as it is without rules: the internet is allowed, private networks and other devices are not.

            Examples:
              sudo culvert gateway rule add allow --user anna --to 10.0.0.0/24 --transport tcp --port 443
              sudo culvert gateway rule add deny --device phone --to 0.0.0.0/0 --first
              sudo culvert gateway rule list --user anna
              sudo culvert gateway rule clear --device phone
            """,
        subcommands: [Add.self, List.self, Remove.self, Clear.self])

    /// Whose rules.
    struct Owner: ParsableArguments {
        @Option(help: "Those of a user: a login or an id.") var user: String?
        @Option(help: "Those of a device: a name or an id.") var device: String?

        func validate() throws {
            guard (user == nil) != (device == nil) else { throw ValidationError("name a --user or a --device") }
        }

        func path(_ tool: AdminTool) throws(CommandFailure) -> String {
            if let user { return "/v1/users/\(try tool.user(user))/rules" }
            return "/v1/devices/\(try tool.deviceID(device ?? ""))/rules"
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add a rule behind the others.")
        @Argument(help: "allow or deny.") var action: String
        @OptionGroup var owner: Owner
        @Option(help: ArgumentHelp("A network that the device reaches; none is any.", valueName: "network"))
        var to: [String] = []
        @Option(help: ArgumentHelp("A network that reaches the device, instead.", valueName: "network"))
        var from: [String] = []
        @Option(help: "any, tcp, udp or icmp.") var transport = "any"
        @Option(help: ArgumentHelp("A port or a range of them: 443, 8000-8100.", valueName: "port")) var port:
            [String] = []
        @Option(help: "Anything worth knowing.") var notes = ""
        @Flag(help: "Put it before the others.") var first = false
        @OptionGroup var options: ListOptions

        func validate() throws {
            guard to.isEmpty || from.isEmpty else { throw ValidationError("--to and --from exclude each other") }
        }

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                let path = try owner.path(tool)
                let rule = JSON.object([
                    "action": .string(action), "direction": .string(from.isEmpty ? "out" : "in"),
                    "networks": .array((to + from).map { .string($0) }), "transport": .string(transport),
                    "ports": .array(port.map { .string($0) }), "notes": .string(notes),
                ])
                tool.done(
                    "the rule was added",
                    try tool.client.ask("POST", path, .object(["rule": rule, "isFirst": .bool(first)])))
            }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List rules in their order.")
        @OptionGroup var owner: Owner
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                let rules = try tool.client.ask("GET", try owner.path(tool))["rules"]?.list ?? []
                tool.show(rules, as: "rules", Columns.rules)
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Remove one rule.")
        @Argument(help: "Its id.") var id: String
        @OptionGroup var owner: Owner
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                let path = try owner.path(tool)
                let left = try tool.client.ask("DELETE", "\(path)/\(AdminClient.escaped(id))")
                tool.done("the rule was removed", left)
            }
        }
    }

    struct Clear: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Remove all rules of a user or a device.")
        @OptionGroup var owner: Owner
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut { console throws(CommandFailure) in
                let tool = AdminTool(options, console)
                tool.done(
                    "the rules were removed",
                    try tool.client.ask("PUT", try owner.path(tool), .object(["rules": .array([])])))
            }
        }
    }
}
