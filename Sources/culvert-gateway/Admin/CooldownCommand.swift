// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import TunnelSystem

/// `culvert gateway cooldown`.
struct CooldownCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cooldown", abstract: "List and clear addresses in cooldown after use.",
        discussion: """
            When a device is removed, its addresses are in cooldown for a day (addressRestSeconds), so that no other device gets \
            packets for it. They count against the device's user: a user whose devices and addresses in cooldown exceed the limit \
            of devices gets one of them again. If no other address is free, the one with the longest cooldown is used.

            Examples:
              sudo culvert gateway cooldown list
              sudo culvert gateway cooldown list --user anna --json
              sudo culvert gateway cooldown clear --address 10.66.0.7
              sudo culvert gateway cooldown clear --user anna
              sudo culvert gateway cooldown clear --all
            """,
        subcommands: [List.self, Clear.self])

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List addresses in cooldown after use.",
            discussion: """
                Examples:
                  sudo culvert gateway cooldown list
                  sudo culvert gateway cooldown list --user anna --json
                """)
        @Option(help: "Show only addresses of this user: a login or an ID.") var user: String?
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                var query: AdminClient.Query = []
                if let user { query = [(CooldownRoutes.user, try tool.user(user))] }
                try tool.list(CooldownRoutes.list, as: "cooldowns", query: query)
            }
        }
    }

    struct Clear: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "End the cooldown of addresses, so that devices can get them.",
            discussion: """
                Examples:
                  sudo culvert gateway cooldown clear --address 10.66.0.7
                  sudo culvert gateway cooldown clear --user anna
                  sudo culvert gateway cooldown clear --all
                """)
        @Option(help: "Clear only this address.") var address: String?
        @Option(help: "Clear only addresses of this user: a login or an ID.") var user: String?
        @Flag(help: "Clear all addresses.") var all = false
        @OptionGroup var options: ListOptions

        func validate() throws {
            guard [address != nil, user != nil, all].count(where: { $0 }) == 1 else {
                throw ValidationError("use one of --address, --user and --all")
            }
        }

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                var query: AdminClient.Query = []
                if let address { query = [(CooldownRoutes.address, address)] }
                if let user { query = [(CooldownRoutes.user, try tool.user(user))] }
                let reply = try tool.client.send(CooldownRoutes.clear, query: query)
                tool.done("cleared addresses: \(reply["cleared"]?.cell ?? "-")", reply)
            }
        }
    }
}
