// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert cleanup`: the network as it was before a tunnel that ended without undoing its changes.
struct CleanupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cleanup",
        abstract: "Undo what a tunnel has left behind that crashed or was killed.",
        discussion: """
            Every change of the network is written to a journal in /run/culvert before it is made. This undoes what is \
            in the journals of tunnels that do not run any more: routes, policy rules, kernel settings, name servers and \
            the firewall, which holds packets back until then under the strict leak policies. Starting such a tunnel \
            again does the same first. What others have changed since is left alone.

            Examples:
              sudo culvert cleanup       every tunnel that does not run
              sudo culvert cleanup wg0   this one

            Exit status: 0, 1, 2, 4; see culvert(1).
            """)

    @Argument(help: ArgumentHelp("Tunnels to clean up after.", valueName: "name"))
    var names: [String] = []

    @OptionGroup var runtime: RuntimeOptions

    func run() throws {
        try finish(Cleanup.run(names, runtime.directory, console: .standard))
    }
}
