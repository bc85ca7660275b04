// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import NetworkAddresses
import PacketTunnel
import Provisioning
import TunnelSystem
import WireGuardCore

/// `culvert gateway peer`.
struct PeerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peer", abstract: "Add, list, change and revoke devices.",
        discussion: """
            Devices that enrol make their own keys: use 'culvert gateway invite' for them. 'peer add' is for stock WireGuard \
            clients: it makes a key on this machine and writes a configuration file. The gateway never gets the private key. \
            'peer export' updates such a file.

            Examples:
              sudo culvert gateway peer add phone --user anna --export - --qr
              sudo culvert gateway peer add office --user anna --export office.conf \\
                --subnet 192.168.7.0/24
              sudo culvert gateway peer export office --file office.conf
              sudo culvert gateway peer set phone --disable
              sudo culvert gateway peer revoke phone
            """,
        subcommands: [Add.self, Export.self, List.self, Show.self, Set.self, Revoke.self])

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make a device for a stock WireGuard client.")
        @Argument(help: "The name of the device.") var name: String
        @Option(help: "The device's user: a login or an ID.") var user: String
        @Option(
            help: ArgumentHelp(
                "The wg-quick file to write, which only its owner can read; - for standard output.", valueName: "file"),
            completion: .file())
        var export: String?
        @Flag(help: "Draw the configuration as a QR code on the terminal.") var qr = false
        @Option(help: ArgumentHelp("A network behind the device.", valueName: "network")) var subnet: [String] = []
        @Option(help: ArgumentHelp("An address for the device.", valueName: "address")) var address: [String] = []
        @Option(help: "Notes.") var notes: String?
        @Option(help: ArgumentHelp("Expire the device after this time, such as 12h or 30d.", valueName: "time"))
        var expiresIn: String?
        @OptionGroup var socket: SocketOptions

        func validate() throws {
            guard export != nil || qr else {
                throw ValidationError("use --export or --qr: the private key is stored nowhere else")
            }
        }

        func run() throws {
            try carryOut(socket) { tool throws(CommandFailure) in
                // Draw a code first, so that a missing QR library is detected before the device is made.
                if qr { _ = try QRCode.modules("x") }
                var random = SystemRandomNumberGenerator()
                let key = PrivateKey(using: &random)
                var draft = DeviceDraft()
                try draft.set(\.userID, option: .string(try tool.user(user)))
                try draft.set(\.name, option: .string(name))
                draft.publicKey = .some(key.publicKey)
                try draft.set(\.subnets, option: .option(subnet))
                try draft.set(\.addresses, option: .option(address))
                try draft.set(\.notes, option: .option(notes))
                try draft.set(\.expiresAt, option: try Lifetime.date(expiresIn))
                let reply = try tool.client.send(PeerRoutes.add, body: draft)
                do throws(CommandFailure) {
                    try write(try ExportedConfiguration(try EnrolmentGrant(exported: reply), key), tool)
                } catch {
                    // Remove the device, which is useless because its private key is lost.
                    if let id = reply["device"]?["id"]?.string {
                        _ = try? tool.client.send(PeerRoutes.remove, id)
                    }
                    throw error
                }
            }
        }

        private func write(_ configuration: ExportedConfiguration, _ tool: AdminTool) throws(CommandFailure) {
            if let export {
                try SecretFile.write(configuration.text, to: export, console: tool.console)
                if export != "-" { tool.console.problem("'\(name)' was added; its configuration is in \(export)") }
            }
            if qr { for line in try QRCode.lines(configuration.text) { tool.console.line(line) } }
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List devices.")
        @Option(help: "Only devices of this user: a login or an ID.") var user: String?
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                var query: AdminClient.Query = []
                if let user { query = [(PeerRoutes.user, try tool.user(user))] }
                try tool.list(PeerRoutes.list, as: "devices", query: query)
            }
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show a device.")
        @Argument(help: "A name or an ID.") var device: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                tool.show(try tool.device(device))
            }
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Change a device.")
        @Argument(help: "A name or an ID.") var device: String
        @Option(help: "The new name.") var name: String?
        @Option(help: "Notes.") var notes: String?
        @Option(help: ArgumentHelp("A network behind the device; replaces the present ones.", valueName: "network"))
        var subnet: [String] = []
        @Flag(help: "Remove the networks behind the device.") var noSubnets = false
        @Option(help: ArgumentHelp("Expire the device after this time, such as 12h or 30d.", valueName: "time"))
        var expiresIn: String?
        @Flag(help: "Remove the expiry.") var neverExpires = false
        @Flag(help: "Enable the device.") var enable = false
        @Flag(help: "Disable the device.") var disable = false
        @OptionGroup var options: ListOptions

        func validate() throws {
            guard !(enable && disable) else { throw ValidationError("--enable and --disable exclude each other") }
            guard !(noSubnets && !subnet.isEmpty) else {
                throw ValidationError("--subnet and --no-subnets exclude each other")
            }
        }

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                var update = DeviceUpdate()
                try update.set(\.name, option: .option(name))
                try update.set(\.notes, option: .option(notes))
                try update.set(\.subnets, option: noSubnets ? .array([]) : .option(subnet))
                try update.set(\.expiresAt, option: neverExpires ? .null : Lifetime.date(expiresIn))
                try update.set(\.isEnabled, option: .option(on: enable, off: disable))
                let changed = try tool.client.send(PeerRoutes.change, try tool.deviceID(device), body: update)
                tool.done("'\(device)' was changed", changed)
            }
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Revoke a device, with its key and credential.",
            aliases: ["remove"])
        @Argument(help: "A name or an ID.") var device: String
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                tool.done(
                    "'\(device)' was revoked",
                    try tool.client.send(PeerRoutes.remove, try tool.deviceID(device)))
            }
        }
    }
}
