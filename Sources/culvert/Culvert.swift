// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineSupport

/// The command line's root.
struct Culvert: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "culvert",
        abstract: "Packet tunnels and WireGuard in Swift.",
        discussion: """
            Examples:
              culvert demo                        two WireGuard devices on this machine, no root needed
              sudo culvert demo --tun             the same between real interfaces in network namespaces
              culvert key generate > private.key  a new private key
              culvert config check wg0.conf       all mistakes of a wg-quick file, with line and column
              sudo culvert up wg0.conf            a tunnel as a wg-quick file describes it
              sudo culvert status --watch         its state, handshake and throughput, live
              sudo culvert reload wg0             its file as it is now, without going down
              sudo culvert down wg0               the network as it was before
              sudo culvert cleanup                the same after a crash
              sudo culvert guard home             a profile's leak policy, whether or not its tunnel runs
              sudo culvert enroll invitation.txt  a device of a gateway (the program culvert-enroll)
              culvert pin show api.example.com    the TLS pins of a server (the program culvert-pin)
              culvert --generate-completion-script zsh > ~/.zfunc/_culvert

            Exit status: 0 success; 1 failure (a demo step failed, a file has errors); 2 wrong usage, or a file that \
            cannot be read or used; 3 no such tunnel or profile; 4 not permitted; 5 the tunnel is up already; 6 no way \
            to the server; 7 the server refuses the login; 8 the server has ended the session; 130 after Ctrl-C.
            """,
        version: "culvert \(programVersion)",
        subcommands: [
            DemoCommand.self, KeyCommand.self, ConfigCommand.self, UpCommand.self, ReloadCommand.self, DownCommand.self,
            StatusCommand.self, LogCommand.self, ProfileCommand.self, GuardCommand.self, CleanupCommand.self,
            EnrollCommand.self, PinCommand.self, CredentialServerCommand.self, GatewayCommand.self,
        ])
}
