// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert down`: takes tunnels down.
struct DownCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "down",
        abstract: "Stop a tunnel and restore the network.",
        discussion: """
            Returns when the tunnel's process has undone its changes. The changes of a tunnel whose process died are \
            undone as well.

            Examples:
              sudo culvert down wg0
              sudo culvert down ./wg0.conf
              sudo culvert down --all

            Exit status: 0, 1, 2, 3, 4; see culvert(1).
            """)

    @Argument(
        help: ArgumentHelp("Tunnels, by name or by the file that they were started from.", valueName: "tunnel"),
        completion: RuntimeOptions.completion)
    var tunnels: [String] = []

    @Flag(help: "Take all tunnels down.")
    var all = false

    @OptionGroup var runtime: RuntimeOptions

    func validate() throws {
        guard tunnels.isEmpty == all else {
            throw ValidationError(all ? "--all takes no names" : "name a tunnel, or use --all")
        }
    }

    func run() throws {
        let (runtime, all) = (runtime.directory, all)
        let tunnels = tunnels
        let console = Console.standard
        try finish(
            SignalledRun.run {
                var status = ExitStatus.success
                do throws(CommandProblem) {
                    var names: [String] = []
                    for argument in tunnels { names.append(try TunnelName.of(argument: argument)) }
                    if all {
                        names = try runtime.tunnels()
                        if names.isEmpty { console.line("no tunnel is up") }
                    }
                    for name in names {
                        do throws(CommandProblem) {
                            console.line("\(name): \(try await TunnelDown.run(name, runtime))")
                        } catch {
                            status = error.report(to: console)
                        }
                    }
                } catch {
                    status = error.report(to: console)
                }
                return status
            })
    }
}
