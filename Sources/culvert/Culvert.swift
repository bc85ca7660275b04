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
              culvert demo                        two WireGuard devices, without root
              sudo culvert demo --tun             real interfaces in network namespaces
              culvert key generate > private.key  a new private key
              culvert config check wg0.conf       all mistakes of a wg-quick file
              sudo culvert up wg0.conf            a tunnel from a wg-quick file
              sudo culvert status --watch         its state and throughput, live
              sudo culvert reload wg0             its changed file, without a stop
              sudo culvert down wg0               the network restored
              sudo culvert cleanup                the same after a crash
              sudo culvert guard home             a leak policy that always applies
              sudo culvert enroll invitation.txt  a device of a gateway
              culvert pin show api.example.com    the TLS pins of a server
              culvert --generate-completion-script zsh > ~/.zfunc/_culvert

            Exit status: 0, 1, 2, 3, 4, 5, 6, 7, 8, 130; see culvert(1).
            """,
        version: "culvert \(programVersion)",
        subcommands: [
            DemoCommand.self, KeyCommand.self, ConfigCommand.self, UpCommand.self, ReloadCommand.self, DownCommand.self,
            StatusCommand.self, LogCommand.self, ProfileCommand.self, GuardCommand.self, CleanupCommand.self,
            EnrollCommand.self, PinCommand.self, CredentialServerCommand.self, GatewayCommand.self,
        ])
}
