// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import PacketTunnel
import TunnelSystem

/// The options for a tunnel that receives no data. The commands `up` and `profile add` have them; those of `up`
/// override a profile's.
struct ConnectivityArguments: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The address to ping when no data arrives, before the tunnel is repaired.", valueName: "address"))
    var ping: String?

    @Option(help: ArgumentHelp("The time between checks for received data (10).", valueName: "seconds"))
    var connectivityInterval: Double?

    @Option(
        help: ArgumentHelp(
            "The number of checks without data before pings are sent, and again before the tunnel counts as dead (3).",
            valueName: "count"))
    var maxConnectionAttempts: Int?

    @Option(help: ArgumentHelp("The time between two pings (2).", valueName: "seconds"))
    var pingInterval: Double?

    @Option(
        help: ArgumentHelp(
            "When to end a dead tunnel; its traffic then uses the network outside the tunnel (default: never).",
            valueName: "when"))
    var endWhenDead: EndWhenDeadName?

    @Flag(
        inversion: .prefixedNo,
        help: "Monitor, probe and repair the tunnel; without it, the tunnel never ends by itself.")
    var monitor: Bool?

    func apply(to options: inout ConnectivityOptions) {
        if let ping { options.pingAddress = ping }
        if let connectivityInterval { options.connectivityInterval = connectivityInterval }
        if let maxConnectionAttempts { options.maxConnectionAttempts = maxConnectionAttempts }
        if let pingInterval { options.pingInterval = pingInterval }
        if let endWhenDead { options.endWhenDead = endWhenDead.value }
        if let monitor { options.isEnabled = monitor }
    }
}

/// The values of `--end-when-dead`: the time at which a dead tunnel ends.
enum EndWhenDeadName: String, CaseIterable, Codable, ExpressibleByArgument, Sendable {
    case never
    case afterHealing = "after-healing"
    case atOnce = "at-once"

    init(_ value: ConnectivityOptions.EndWhenDead) {
        self =
            switch value {
            case .never: .never
            case .afterHealing: .afterHealing
            case .atOnce: .atOnce
            }
    }

    var value: ConnectivityOptions.EndWhenDead {
        switch self {
        case .never: .never
        case .afterHealing: .afterHealing
        case .atOnce: .atOnce
        }
    }
}

extension ConnectivityOptions {
    /// The options as JSON, by the names of the command line's options.
    var json: JSON {
        [
            "monitor": .bool(isEnabled), "ping": pingAddress.map { .string($0) } ?? .null,
            "connectivityInterval": .decimal(connectivityInterval, places: 3),
            "maxConnectionAttempts": .integer(maxConnectionAttempts),
            "pingInterval": .decimal(pingInterval, places: 3),
            "endWhenDead": .string(EndWhenDeadName(endWhenDead).rawValue),
        ]
    }
}
