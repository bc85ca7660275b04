// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import TunnelSystem

/// `culvert gateway status`.
struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "status", abstract: "Show the state of the gateway.")
    @OptionGroup var options: ListOptions

    func run() throws {
        try carryOut(options) { tool throws(CommandFailure) in
            let status = try tool.client.send(ManagementRoutes.status)
            guard case .object(let members) = status, !options.json else { return tool.show(status) }
            tool.show(.object(members.filter { !["pools", "warnings"].contains($0.name) }))
            for pool in status["pools"]?.list ?? [] {
                tool.console.line(
                    "pool \(pool["network"]?.cell ?? "-"): \(pool["inUse"]?.cell ?? "-") in use, \(pool["resting"]?.cell ?? "-") resting, capacity \(pool["capacity"]?.cell ?? "-")"
                )
            }
            for warning in status["warnings"]?.list ?? [] { tool.console.line("warning: \(warning.cell)") }
        }
    }
}

/// `culvert gateway audit`.
struct AuditCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit", abstract: "Show the audit log, the latest entry first.")
    @Option(help: "The number of entries.") var limit = 50
    @Option(help: ArgumentHelp("Only this action, such as deviceEnrolled.", valueName: "action")) var action: String?
    @OptionGroup var options: ListOptions

    func validate() throws {
        guard (1...500).contains(limit) else { throw ValidationError("--limit must be from 1 to 500") }
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
