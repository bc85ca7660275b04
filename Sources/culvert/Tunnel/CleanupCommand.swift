// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert cleanup`: restores the network after a tunnel that ended without undoing its changes.
struct CleanupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cleanup",
        abstract: "Undo the changes of a tunnel that crashed or was killed.",
        discussion: """
            Culvert writes every change of the network to a journal in /run/culvert before it makes it. This undoes \
            the journals of tunnels that no longer run: routes, policy rules, kernel settings, name servers and \
            the firewall, which holds packets back until then under the strict leak policies. Starting such a tunnel \
            again does the same first. Later changes by other programs are kept.

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
