// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
import CommandLineTesting
import CredentialTunnel
import Foundation
import NetworkAddresses
import PacketTunnel
import Provisioning
import Testing
import WireGuardTunnel

@testable import culvert

/// Profiles of each provider, one with all optional values and one without, as samples for `culvert profile`.
struct ProfileContract {
    private let folder: ScratchFolder
    private let users = [NSUserName()]
    private let network: IPPrefix

    init() throws {
        folder = try ScratchFolder()
        network = try IPPrefix("192.0.2.0/24")
    }

    private func tool(_ captured: CapturedConsole = CapturedConsole()) -> ProfileTool {
        ProfileTool(
            folder: ProfileFolder(path: folder.path + "/culvert"), console: captured.console(),
            runtime: RuntimeDirectory(path: folder.path + "/run"))
    }

    func add(to contract: inout ProgramContract) async throws {
        try contract.add("culvert profile add --json", [try await addWireGuard()])
        try contract.add("culvert profile add-login --json", [try await addLogin()])
        try await addEnrolled()
        for provider in [
            ProfileFolder.provider, ProfileFolder.loginProvider, EnrolledTunnelConfiguration.provider,
        ] {
            let shown = try await shown(provider) + shown("min-\(provider)")
            try contract.add("culvert profile show --json \(provider)", shown)
        }
        let captured = CapturedConsole()
        try await tool(captured).list(json: true)
        try contract.add("culvert profile list --json", [captured.output])
    }

    private func shown(_ name: String) async throws -> [String] {
        let (open, hidden) = (CapturedConsole(), CapturedConsole())
        try await tool(open).show(name, showsSecrets: true, json: true)
        try await tool(hidden).show(name, showsSecrets: false, json: true)
        return [open.output, hidden.output]
    }

    private func addWireGuard() async throws -> String {
        let captured = CapturedConsole()
        let full = Samples.file("ListenPort = 1\nFwMark = 2\nMTU = 1400\n")
        try await tool(captured).add(
            CheckedFile(name: "x.conf", bytes: Array(full.utf8)), path: "x.conf", name: ProfileFolder.provider,
            json: true,
            users: users
        ) {
            $0.allowedNetworks = [network]
            $0.connectivity.pingAddress = "10.7.0.1"
        }
        let least = """
            [Interface]
            PrivateKey = \(Samples.privateKey)
            Address = 10.7.0.2/24
            [Peer]
            PublicKey = \(Samples.peerKey)
            AllowedIPs = 10.7.0.0/24
            """
        try await tool().add(
            CheckedFile(name: "y.conf", bytes: Array(least.utf8)), path: "y.conf",
            name: "min-\(ProfileFolder.provider)",
            json: true)
        return captured.output
    }

    private func addLogin() async throws -> String {
        try folder.write(Samples.presharedKey + "\n", to: "psk")
        let network = network
        func add(_ name: String, _ captured: CapturedConsole = CapturedConsole()) async throws(CommandProblem) {
            let change = LoginChange(
                name: name, server: "vpn.example:4500", serverKey: Samples.peerKey, login: "anna",
                presharedKeyFile: folder.path + "/psk",
                adjust: {
                    $0.allowedNetworks = [network]
                    guard name == ProfileFolder.loginProvider else { return }
                    $0.maximumMTU = 1280
                    $0.connectivity.pingAddress = "10.7.0.1"
                }, json: true)
            try await tool(captured).addLogin(change) { (_) throws(CommandProblem) in
                SecretBytes(Array("123456".utf8))
            }
        }
        try await add("min-\(ProfileFolder.loginProvider)")
        try await add(ProfileFolder.loginProvider)
        let manager = try await tool().folder.manager().manager
        var profile = try #require(await manager.profiles.first { $0.name == ProfileFolder.loginProvider })
        profile.permittedUsers = users
        try await manager.update(profile)
        // A change of the profile prints it with its users.
        let captured = CapturedConsole()
        try await add(ProfileFolder.loginProvider, captured)
        return captured.output
    }

    private func addEnrolled() async throws {
        let provider = EnrolledTunnelConfiguration.provider
        let manager = try await tool().folder.manager().manager
        let gateway = ProvisioningServer(name: "vpn.example.com", port: 8443)
        var configuration = EnrolledTunnelConfiguration(gateways: [gateway])
        let least = try TunnelProfile(name: "min-\(provider)", provider: provider, encoding: configuration)
        try await manager.create(least, secrets: [:])
        configuration.deviceID = RandomID(String(repeating: "a", count: 26))
        configuration.customDNSServers = [.v4(10, 7, 0, 1)]
        (configuration.routes, configuration.allowedNetworks) = ([network], [network])
        configuration.connectivity.pingAddress = "10.7.0.1"
        var full = try TunnelProfile(name: provider, provider: provider, encoding: configuration)
        full.permittedUsers = users
        try await manager.create(full, secrets: [:])
    }
}
