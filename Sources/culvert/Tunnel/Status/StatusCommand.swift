// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert status`: shows the state of tunnels.
struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show tunnels: state, peers, handshakes, throughput.",
        discussion: """
            Without a name, a table of all tunnels; with one, its full status. --watch shows one tunnel live: \
            redrawn in place on a terminal, otherwise a line for each update. It follows the tunnel while it reconnects and \
            ends with the tunnel. Colours are used only on a terminal, and not if NO_COLOR is set.

            Examples:
              sudo culvert status
              sudo culvert status wg0
              sudo culvert status wg0 --watch
              sudo culvert status --json | jq '.tunnels[].state'
              sudo culvert status wg0 --watch --json --interval 5

            Exit status: 0, 1, 3, 4, 6, 8, 130; see culvert(1).
            """)

    @Argument(
        help: ArgumentHelp("A tunnel, by name or by its file.", valueName: "tunnel"),
        completion: RuntimeOptions.completion)
    var tunnel: String?

    @Flag(name: .shortAndLong, help: "Refresh the status until the tunnel ends or Ctrl-C is pressed.")
    var watch = false

    @Flag(help: "Print JSON: one document, or a line for each update of --watch.")
    var json = false

    @Option(help: ArgumentHelp("Seconds between updates: 0.1 to 3600.", valueName: "seconds"))
    var interval = 1.0

    @OptionGroup var runtime: RuntimeOptions

    func validate() throws {
        guard (0.1...3600).contains(interval) else {
            throw ValidationError("--interval is \(interval); it must be from 0.1 to 3600")
        }
    }

    func run() throws {
        let tool = StatusTool(runtime: runtime.directory, console: .standard)
        let (tunnel, watch, json, interval) = (tunnel, watch, json, interval)
        try finish(
            SignalledRun.run(followsOutput: watch) {
                do throws(CommandProblem) {
                    var name: String?
                    if let tunnel { name = try TunnelName.of(argument: tunnel) }
                    if watch { return try await tool.watch(name, every: .seconds(interval), json: json) }
                    if let name {
                        try await tool.detail(name, json: json)
                    } else {
                        try await tool.list(json: json)
                    }
                    return ExitStatus.success
                } catch {
                    return error.report(to: tool.console)
                }
            })
    }
}
