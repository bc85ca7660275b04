// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert gateway run`.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Serve until a signal comes.",
        discussion: """
            Needs root or CAP_NET_ADMIN. Started by root, it becomes the folder's owner and keeps CAP_NET_ADMIN and \
            CAP_NET_BIND_SERVICE alone. What a gateway left that was killed is undone first. Users, devices, rules and tokens \
            change while it runs; gateway.json is read at the start. The log goes to standard error; CULVERT_LOG names its level.

            Examples:
              sudo culvert gateway run
              sudo systemctl enable --now culvert-gateway
              culvert gateway run --directory ~/gateway --no-tun    the API alone, without root

            Exit status: 0 ended by a signal, 1 the interface is gone or the system failed, 2 a setting that cannot be used, \
            3 no such folder, 4 not permitted, 5 it runs already.
            """)

    @Flag(help: "Serve the API alone: no interface, no firewall, no root.")
    var noTun = false

    @Option(
        help: ArgumentHelp("The folder of the journal of what is changed on the host.", valueName: "folder"),
        completion: .directory)
    var journal = "/run/culvert-gateway/journal"

    @OptionGroup var folder: FolderOptions

    func run() throws {
        try finish(
            RunTool(console: .standard, directory: folder.directory, journal: noTun ? nil : journal).run())
    }
}
