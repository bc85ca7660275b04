// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import CommandLineTesting
    import FoundationEssentials
    import Gateway
    import NetworkAddresses
    import PacketTunnelTesting
    import Provisioning
    import Testing
    import WireGuardCore

    @testable import culvert_gateway

    @Suite("Command line of the gateway")
    struct CommandLineTests {
        @Test(
            "A secret as an argument is refused, and not repeated in the output",
            arguments: ["ct_", "ci_", "cd_", "--token=ct_", "culvert-invitation:1:"])
        func secrets(prefix: String) {
            let secret = prefix + String(repeating: "aB3-", count: 12)
            let captured = CapturedConsole()
            let status = Program.run(["token", "revoke", secret], console: captured.console())
            #expect(status == ExitStatus.usage)
            #expect(!captured.error.contains("aB3-aB3-") && captured.error.contains("secret"))
        }

        @Test("Each command has help")
        func help() {
            for command in [
                [], ["init"], ["peer", "add"], ["peer", "export"], ["key", "status"], ["key", "activate-backup"],
                ["user", "set"], ["user", "password"], ["login-tunnel"],
                ["token", "add"],
                ["invite"], ["rule", "add"], ["audit"], ["cooldown"], ["cooldown", "list"], ["cooldown", "clear"],
            ] {
                let captured = CapturedConsole()
                #expect(Program.run(command + ["--help"], console: captured.console()) == ExitStatus.success)
                #expect(captured.output.contains("USAGE"))
            }
        }

        @Test(
            "Durations are read with their units",
            arguments: [("90m", 5400), ("12h", 43_200), ("30d", 2_592_000), ("5s", 5)])
        func lifetimes(text: String, seconds: Int64) throws {
            #expect(try Lifetime.seconds(text) == seconds)
        }

        @Test(
            "A lifetime that is not a duration is refused",
            arguments: ["", "d", "0d", "-1d", "1w", "99999999d", "9223372036854775807d"])
        func badLifetimes(text: String) {
            #expect(throws: CommandFailure.self) { try Lifetime.seconds(text) }
        }

        @Test("An exported configuration is a wg-quick file with the key made by the command")
        func export() throws {
            var random = SeededGenerator(seed: 1)
            let (key, server) = (PrivateKey(using: &random), PrivateKey(using: &random))
            let grant = EnrolmentGrant(
                device: .init(
                    id: RandomID(using: &random), name: "x", user: "anna", publicKey: key.publicKey,
                    createdAt: .distantPast
                ),
                addresses: [try IPAddress("10.66.0.2"), try IPAddress("fd00::2")],
                servers: [
                    .init(publicKey: server.publicKey, endpoints: [try EndpointAddress("vpn.example.com:51820")])
                ],
                dns: [try IPAddress("10.66.0.1")], routes: [.allIPv4, .allIPv6],
                presharedKey: PresharedKey(using: &random), renewAfterSeconds: 1, serverTime: .distantPast)
            let text = try ExportedConfiguration(grant, key).text
            let parsed = try TunnelConfiguration.parse(text)
            #expect(parsed.interface.privateKey == key)
            #expect(parsed.interface.addresses.map(\.description) == ["10.66.0.2/32", "fd00::2/128"])
            #expect(parsed.peers.first?.endpoint?.description == "vpn.example.com:51820")
            #expect(parsed.peers.first?.presharedKey == grant.presharedKey)
            #expect(parsed.peers.first?.allowedIPs == [.allIPv4, .allIPv6])
            #expect(parsed.peers.first?.persistentKeepalive == 25)
        }
    }
#endif
