// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import TunnelSystem

/// `culvert gateway status`.
struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "status", abstract: "Show how the gateway is.")
    @OptionGroup var options: ListOptions

    func run() throws {
        try carryOut(options) { tool throws(CommandFailure) in
            let status = try tool.client.send(ManagementRoutes.status)
            guard case .object(let members) = status, !options.json else { return tool.show(status) }
            tool.show(.object(members.filter { $0.name != "pools" }))
            for pool in status["pools"]?.list ?? [] {
                tool.console.line(
                    "pool \(pool["network"]?.cell ?? "-"): \(pool["inUse"]?.cell ?? "-") in use, \(pool["resting"]?.cell ?? "-") resting, room for \(pool["capacity"]?.cell ?? "-")"
                )
            }
        }
    }
}

/// `culvert gateway audit`.
struct AuditCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit", abstract: "Show what was done, the latest first.")
    @Option(help: "How many entries.") var limit = 50
    @Option(help: ArgumentHelp("Only this, as in deviceEnrolled.", valueName: "action")) var action: String?
    @OptionGroup var options: ListOptions

    func validate() throws {
        guard (1...500).contains(limit) else { throw ValidationError("--limit is 1 to 500") }
    }

    func run() throws {
        try carryOut(options) { tool throws(CommandFailure) in
            var query: AdminClient.Query = [(Paging.limit, "\(limit)")]
            if let action { query.append((ManagementRoutes.action, action)) }
            let route = ManagementRoutes.audit
            let entries = try tool.client.send(route, query: query)["items"]?.list ?? []
            tool.show(entries, as: "entries", route.reply.columns)
        }
    }
}

/// `culvert gateway key`.
struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "Rotate the gateway's WireGuard key.",
        discussion: """
            A new key is announced first: devices learn both, and the new one takes over after the overlap of the settings. Stock \
            clients need a new configuration file by then.
            """,
        subcommands: [Announce.self, Cancel.self])

    struct Announce: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Announce a new key.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                let status = try tool.client.send(ManagementRoutes.announceKey)
                tool.done(
                    "\(status["nextServerKey"]?.cell ?? "-") takes over at \(status["nextServerKeyAt"]?.cell ?? "-")",
                    status)
            }
        }
    }

    struct Cancel: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Take a key back that was announced.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                try tool.client.send(ManagementRoutes.cancelKey)
                tool.done("the key stays")
            }
        }
    }
}
