// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The measurements of single systems.
enum PlatformCommands {
    static let usage = """
               culvert-bench stages [--quick] [--json] [--save FILE]         single stages of the data path (root)
               culvert-bench tunnel [OPTIONS] CULVERT_WG                     whole tunnels (root; has its own --help)
               culvert-bench where [OPTIONS] CULVERT_WG                      their processor time by kind (root; has its own --help)
               culvert-bench gateway [OPTIONS] CULVERT_WG                    rules for many clients (root; has its own --help)

        """

    /// The measurements of this system within one process, in addition to the common suites.
    static func suites(isQuick: Bool) -> [Suite] { InitiationFlood.suites(isQuick: isQuick) }

    /// - Returns: false for a command that this system does not know.
    static func run(_ command: String, _ arguments: ArraySlice<String>) throws -> Bool {
        switch command {
        case "tunnel": try TunnelComparison.run(Array(arguments))
        case "where": try ProfileComparison.run(Array(arguments))
        case "gateway": try GatewayComparison.run(arguments)
        case "stages": try StageReport.run(try Options(Array(arguments)))
        // This program starts the following commands itself, inside namespaces.
        case StageReport.countCommand: try StageReport.countInstructions(arguments)
        case UDPFlood.command: try UDPFlood.run(arguments)
        case UDPCount.command: try UDPCount.run(arguments)
        case HandshakeLoad.command: try HandshakeLoad.run(arguments)
        case SpreadLoad.command: try SpreadLoad.run(arguments)
        case TunCopy.command: try TunCopy.run(arguments)
        case GatewayEnd.command: try GatewayEnd.run(arguments)
        default: return false
        }
        return true
    }

    /// Allocations of single stages; none if no TUN device can be created.
    static func stageAllocations(_ counter: AllocationCounter, isQuick: Bool) throws -> [Row] {
        guard let pipeline = try? StagePipeline() else {
            Program.note("no TUN device here: the stages at it are not counted one by one")
            return []
        }
        return try StageReport.allocations(pipeline, counter, cycles: isQuick ? 200 : 5_000)
    }
}
