// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import WireGuardDevice

/// `culvert gateway run`.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run the gateway until SIGINT, SIGTERM or SIGHUP.",
        discussion: """
            Needs root or CAP_NET_ADMIN. If root starts it, it becomes the folder's owner and keeps only CAP_NET_ADMIN and \
            CAP_NET_BIND_SERVICE. It first undoes the changes of a gateway that was killed. Users, devices, rules and tokens can \
            change while it runs; gateway.json is read at the start. The log goes to standard error; CULVERT_LOG sets its level.

            Examples:
              sudo culvert gateway run
              sudo systemctl enable --now culvert-gateway
              culvert gateway run --directory ~/gateway --no-tun  # the API only, without root

            Exit status: 0, 1, 2, 3, 4, 5; see culvert-gateway(8).
            """)

    @Flag(help: "Serve only the API, without interface, firewall and root.")
    var noTun = false

    @Option(
        help: ArgumentHelp("The folder for the journal of changes to the host.", valueName: "folder"),
        completion: .directory)
    var journal = "/run/culvert-gateway/journal"

    @Option(
        help: ArgumentHelp(
            "The implementation of ChaCha20-Poly1305: \(TransportAEAD.Choice.names) (libipsec-mb1, AVX-512 and IFMA).",
            valueName: "name"))
    var aead = TransportAEAD.Choice.standard.rawValue

    @OptionGroup var folder: FolderOptions

    func validate() throws {
        guard TransportAEAD.Choice(rawValue: aead) != nil else {
            throw ValidationError("--aead is '\(aead)'; it must be \(TransportAEAD.Choice.names)")
        }
    }

    func run() throws {
        let tool = RunTool(
            console: .standard, directory: folder.directory, journal: noTun ? nil : journal,
            aead: TransportAEAD.Choice(rawValue: aead) ?? .standard)
        try finish(tool.run())
    }
}
