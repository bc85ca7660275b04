// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert gateway init`.
struct InitCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Make a gateway's folder: settings, keys and pins.",
        discussion: """
            The folder contains gateway.json with all settings (see docs/gateway.md), the keys and, later, the database. \
            Only its owner can read it, and the gateway runs as its owner: make a user for it, and select this user with --owner.

            Devices identify the gateway by the pins of two keys. One is in the folder. The other is the backup key, which is written \
            once, to the file that you specify: move it off this machine. If the first key is lost or stolen, \
            'culvert gateway key activate-backup' replaces it by the backup key, which all devices already know.

            Examples:
              useradd --system --home-dir / --shell /usr/sbin/nologin culvert
              sudo culvert gateway init vpn.example.com --owner culvert \\
                --backup-key /root/backup.key
              sudo culvert gateway init 203.0.113.5 --dns 9.9.9.9 \\
                --backup-key /media/usb/backup.key
              sudo culvert gateway init vpn.example.com --login-tunnel-only \\
                --backup-key /root/backup.key

            Exit status: 0, 2, 4; see culvert-gateway(8).
            """)

    @Argument(
        help: ArgumentHelp("The name or address at which devices reach the gateway.", valueName: "host"))
    var host: String

    @Option(
        help: ArgumentHelp("The new file for the backup key, outside the folder.", valueName: "file"),
        completion: .file())
    var backupKey: String

    @Option(help: "The gateway's display name.")
    var label = ""

    @Option(help: ArgumentHelp("The gateway's IPv4 address and the devices' network.", valueName: "address"))
    var address4 = "10.66.0.1/16"

    @Option(
        help: ArgumentHelp(
            "The same for IPv6, or 'none' (default: a random unique local network).",
            valueName: "address"))
    var address6: String?

    @Option(help: ArgumentHelp("A name server for the devices (at most four).", valueName: "address"))
    var dns: [String] = []

    @Option(help: ArgumentHelp("The UDP port of WireGuard.", valueName: "port"))
    var port = PortOption(51_820)

    @Option(help: ArgumentHelp("The TCP port of the device API.", valueName: "port"))
    var apiPort = PortOption(8443)

    @Flag(
        help: "Serve only the login tunnel, without WireGuard and the device API.")
    var loginTunnelOnly = false

    @Option(help: ArgumentHelp("The user that the gateway runs as, who will own the folder.", valueName: "user"))
    var owner: String?

    @Flag(help: "Print one JSON object.")
    var json = false

    @OptionGroup var folder: FolderOptions

    func validate() throws {
        guard loginTunnelOnly else { return }
        for (name, option) in [("--port", port), ("--api-port", apiPort)] where option.isGiven {
            throw ValidationError(
                "\(name) is for devices, which --login-tunnel-only does not serve; omit it, and set loginTunnel.port in gateway.json to change the port of the login tunnel"
            )
        }
    }

    func run() throws {
        try carryOut { console throws(CommandFailure) in
            try InitTool(console: console, directory: folder.directory).make(self)
        }
    }
}

/// A port, and whether it is from the command line.
struct PortOption: ExpressibleByArgument {
    var number: UInt16
    var isGiven = false

    init(_ number: UInt16) { self.number = number }

    init?(argument: String) {
        guard let number = UInt16(argument) else { return nil }
        (self.number, isGiven) = (number, true)
    }

    var defaultValueDescription: String { "\(number)" }
}
