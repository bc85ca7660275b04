// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// `culvert-gateway`, which `culvert gateway` runs.
struct GatewayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "culvert-gateway", abstract: "Run a gateway for a team: WireGuard, users, devices, an HTTPS API.",
        discussion: """
            Examples:
              sudo culvert gateway init vpn.example.com --backup-key /root/backup.key
              sudo culvert gateway run
              sudo culvert gateway user add anna
              sudo culvert gateway invite anna --output anna.invitation
              sudo culvert gateway peer add router --user anna --export wg0.conf
              sudo culvert gateway peer list
              culvert gateway demo

            Commands other than init, run, restore, import-credential-server, key activate-backup and demo use the running \
            gateway through its Unix socket, which accepts root and the gateway's own user.

            Exit status: 0, 1, 2, 3, 4, 5, 6; see culvert-gateway(8).
            """,
        version: "culvert-gateway \(programVersion)",
        subcommands: [
            InitCommand.self, RunCommand.self, InviteCommand.self, PeerCommand.self, UserCommand.self,
            TokenCommand.self, InvitationCommand.self, RuleCommand.self, CooldownCommand.self, AuditCommand.self,
            StatusCommand.self,
            LoginTunnelCommand.self, KeyCommand.self, BackupCommand.self, RestoreCommand.self,
            ImportCredentialServerCommand.self,
            GatewayDemoCommand.self,
        ])

    /// Whether an argument is a secret, which is refused because arguments are visible to other users of the machine.
    static func isSecret(_ argument: String) -> Bool {
        argument.utf8.count > 40
            && ["ci_", "ct_", "cd_", "culvert-invitation:"].contains {
                argument.hasPrefix($0) || argument.contains("=" + $0)
            }
    }
}

/// The options of commands that use the gateway's folder.
struct FolderOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The gateway's folder.", valueName: "folder"), completion: .directory)
    var directory = "/etc/culvert/gateway"
}

/// The options of commands that use the running gateway.
struct SocketOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The gateway's socket.", valueName: "path"), completion: .file())
    var socket = "/run/culvert-gateway/admin.sock"

    var client: AdminClient { AdminClient(socket: socket) }
}

/// The options of commands that use the running gateway and can print JSON.
struct ListOptions: ParsableArguments {
    @OptionGroup var socket: SocketOptions

    @Flag(help: "Print JSON.")
    var json = false

    var client: AdminClient { socket.client }
}

extension ParsableCommand {
    /// Runs the body of a command. If it fails, prints the error and ends the command with its exit status.
    func carryOut(_ body: (Console) throws(CommandFailure) -> Void) throws {
        let console = Console.standard
        do throws(CommandFailure) { try body(console) } catch { try finish(error.report(to: console)) }
    }
    /// Runs the body of a command that uses the running gateway.
    func carryOut(_ options: ListOptions, _ body: (AdminTool) throws(CommandFailure) -> Void) throws {
        try carryOut { console throws(CommandFailure) in try body(AdminTool(options, console)) }
    }

    func carryOut(_ options: SocketOptions, _ body: (AdminTool) throws(CommandFailure) -> Void) throws {
        try carryOut { console throws(CommandFailure) in try body(AdminTool(options, console)) }
    }
}
