// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport
import Gateway
import TunnelSystem

/// `culvert gateway key`.
struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "Rotate the gateway's WireGuard key, or replace the key of its device API.",
        discussion: """
            A new WireGuard key is announced first. Devices learn both keys, and the new one replaces the old one after the overlap \
            in the settings. Stock clients need a new configuration file by then: 'announce' and 'status' list them, and \
            'culvert gateway peer export' writes the files.

            'activate-backup' is for a lost or stolen key of the device API, which devices pin.

            Examples:
              sudo culvert gateway key announce
              sudo culvert gateway key status
              sudo culvert gateway key activate-backup /media/usb/backup.key \\
                --new-backup-key /media/usb/backup-2.key
            """,
        subcommands: [Announce.self, Status.self, Cancel.self, ActivateBackup.self])

    struct Announce: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Announce a new key, and list the stock clients that need a new file.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                // The announcement does not change the list. It is read first, so that its failure leaves the key unchanged.
                let clients = try StockClients(tool)
                let status = try tool.client.send(ManagementRoutes.announceKey)
                if tool.json { return tool.show(clients.added(to: status)) }
                tool.done(
                    "\(status["nextServerKey"]?.cell ?? "-") replaces the present key at \(status["nextServerKeyAt"]?.cell ?? "-")",
                    status)
                clients.show(tool)
            }
        }
    }

    struct Status: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the keys, and the stock clients that need a new file.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                let status = try tool.client.send(ManagementRoutes.status)
                let isAnnounced = status["nextServerKey"] != nil
                let clients = isAnnounced ? try StockClients(tool) : StockClients()
                let members = ["nextServerKey", "nextServerKeyAt", "serverKey"].compactMap { name in
                    status[name].map { JSON.Member(name: name, value: $0) }
                }
                tool.show(tool.json ? clients.added(to: .object(members)) : .object(members))
                if isAnnounced, !tool.json { clients.show(tool) }
            }
        }
    }

    struct Cancel: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Cancel the announced key.")
        @OptionGroup var options: ListOptions

        func run() throws {
            try carryOut(options) { tool throws(CommandFailure) in
                try tool.client.send(ManagementRoutes.cancelKey)
                tool.done("the present key remains")
            }
        }
    }

    struct ActivateBackup: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "activate-backup",
            abstract: "Replace a lost or stolen key of the device API by the backup key.",
            discussion: """
                Stop the gateway first. Devices and invitations have the pins of both keys, so they accept the backup key. \
                The command makes a new backup key, whose pin devices get when they renew. A device that does not renew before the \
                next activation must enrol again.

                An interrupted command can be repeated, with another file for the new backup key.

                Example:
                  sudo systemctl stop culvert-gateway
                  sudo culvert gateway key activate-backup /media/usb/backup.key \\
                    --new-backup-key /media/usb/backup-2.key
                  sudo systemctl start culvert-gateway
                """)
        @Argument(help: "The file with the backup key.", completion: .file()) var file: String
        @Option(
            help: ArgumentHelp("The new file for the new backup key, outside the folder.", valueName: "file"),
            completion: .file())
        var newBackupKey: String
        @Flag(help: "Print one JSON object.") var json = false
        @OptionGroup var folder: FolderOptions

        func run() throws {
            try finish(
                BackupKeyTool(console: .standard, directory: folder.directory, json: json)
                    .run(file, newBackupKey: newBackupKey))
        }
    }
}

/// The devices of stock clients. They have the gateway's key in their configuration files, and cannot request another.
struct StockClients {
    private static let columns = [
        (title: "name", member: "name"), (title: "login", member: "login"), (title: "id", member: "id"),
        (title: "last seen", member: "lastSeenAt"),
    ]
    private var items: [JSON] = []

    init() {}

    init(_ tool: AdminTool) throws(CommandFailure) {
        let devices = try tool.client.all(PeerRoutes.list).filter { Self.isStockClient($0) }
        guard !devices.isEmpty else { return }
        var logins: [String: JSON] = [:]
        for user in try tool.client.all(UserRoutes.list) {
            if let id = user["id"]?.string { logins[id] = user["login"] }
        }
        items = devices.map { device in
            var members = ["id", "lastSeenAt", "name", "user"].compactMap { name in
                device[name].map { JSON.Member(name: name, value: $0) }
            }
            if let login = device["user"]?.string.flatMap({ logins[$0] }) {
                members.append(JSON.Member(name: "login", value: login))
            }
            return .object(members)
        }
    }

    private static func isStockClient(_ device: JSON) -> Bool {
        device["kind"]?.string == Device.Kind.exported.rawValue
    }

    /// An object with the list as another member.
    func added(to object: JSON) -> JSON {
        guard case .object(let members) = object else { return object }
        return .object(members + [JSON.Member(name: "stockClients", value: .array(items))])
    }

    /// Prints the list with the next command; nothing if it is empty.
    func show(_ tool: AdminTool) {
        guard !items.isEmpty else { return }
        tool.console.line()
        tool.console.line("Stock clients that need a new file before the switch:")
        tool.show(items, as: "stockClients", Self.columns)
        tool.console.line("Next: culvert gateway peer export NAME --next --file FILE")
    }
}
