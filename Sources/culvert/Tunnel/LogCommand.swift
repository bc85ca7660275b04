// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Logging
import PacketTunnel

/// `culvert log`: prints the log of a tunnel's process.
struct LogCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Show the log of a running or stopped tunnel.",
        discussion: """
            The log is a file of bounded size: the newest lines push out the oldest. There are no keys in it.

            Examples:
              sudo culvert log wg0
              sudo culvert log wg0 --follow --level warning
              sudo culvert log wg0 --json | jq -r .message
              sudo culvert log wg0 --export wg0-log.txt

            Exit status: 0, 3, 4, 130; see culvert(1).
            """)

    @Argument(
        help: ArgumentHelp("A tunnel, by name or by its file; optional if there is only one.", valueName: "tunnel"),
        completion: RuntimeOptions.completion)
    var tunnel: String?

    @Flag(name: .shortAndLong, help: "Print new records as they arrive.")
    var follow = false

    @Flag(help: "Print one JSON object in each line.")
    var json = false

    @Option(
        help: ArgumentHelp(
            "The least level: trace, debug, info, notice, warning, error or critical.", valueName: "level"),
        completion: .list(Logger.Level.allCases.map(\.rawValue)))
    var level = Logger.Level.trace.rawValue

    @Option(name: .shortAndLong, help: ArgumentHelp("Print only the last lines.", valueName: "n"))
    var lines: Int?

    @Option(
        help: ArgumentHelp("Write the log to a new file that only its owner can read.", valueName: "file"),
        completion: .file())
    var export: String?

    @OptionGroup var runtime: RuntimeOptions

    func validate() throws {
        guard Logger.Level(rawValue: level) != nil else {
            throw ValidationError(
                "--level is '\(level)'; it must be one of "
                    + Logger.Level.allCases.map(\.rawValue).joined(separator: ", "))
        }
        guard lines ?? 0 >= 0 else { throw ValidationError("--lines must not be negative") }
        guard export == nil || !follow else { throw ValidationError("--export and --follow exclude each other") }
    }

    func run() throws {
        let tool = LogTool(
            runtime: runtime.directory, console: .standard, level: Logger.Level(rawValue: level) ?? .trace, json: json,
            lines: lines)
        let (tunnel, follow, export) = (tunnel, follow, export)
        try finish(
            SignalledRun.run(followsOutput: follow) {
                do throws(CommandProblem) {
                    if export == nil, let name = try tool.tunnelToAsk(tunnel) {
                        let channel = UnixTunnelChannel(path: tool.runtime.socket(name))
                        try await tool.show(from: channel, name, follows: follow)
                        return Task.isCancelled ? ExitStatus.interrupted : ExitStatus.success
                    }
                    let file = try tool.open(tunnel)
                    if let export {
                        try tool.export(file, to: export)
                        return ExitStatus.success
                    }
                    let last = tool.show(file)
                    guard follow else { return ExitStatus.success }
                    await tool.follow(file, after: last)
                    return ExitStatus.interrupted
                } catch {
                    return error.report(to: tool.console)
                }
            })
    }
}
