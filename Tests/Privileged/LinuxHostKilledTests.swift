// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import Foundation
    import HostConformance
    import Logging
    import Testing
    import WireGuardTunnel

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    extension LinuxHostTests {
        /// A separate process with the WireGuard provider in a ``LinuxHost``, killed while its tunnel is up.
        @Suite(
            "A tunnel whose process is killed", .enabled(if: PrivateEtc.isPossible, "needs a mount namespace"),
            .timeLimit(.minutes(10)))
        struct KilledTests {
            private static let variable = "CULVERT_TEST_TUNNEL"

            /// The task of the process.
            private struct Task: Codable {
                var folder: String
                var key: String
                var policy: LeakPolicy
                var configuration: WireGuardTunnelConfiguration
            }

            @Test(
                "Strict policies block the same packets until a clean-up; the routes of the other policy are removed",
                arguments: LeakPolicy.allCases)
            func killed(_ policy: LeakPolicy) throws {
                let etc = try PrivateEtc(resolvConf: WireGuardTests.resolvConf)
                let scene = try WireGuardServerWorld()
                let world = scene.world
                let before = try world.snapshot()
                let names = try NameServer(
                    on: NamespaceNetwork(namespace: world.router), [WireGuardTests.name: [.v4(203, 0, 113, 7)]])
                try scene.startServer()
                let task = Task(
                    folder: world.folder, key: scene.clientKeys.text, policy: policy,
                    configuration: try scene.configuration(policy, endpoint: "\(WireGuardTests.name):51820"))
                let text = String(decoding: try JSONEncoder().encode(task), as: UTF8.self)
                let process = try world.host.start(
                    "env", "CI=true", "\(Self.variable)=\(text)",
                    try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
                    "--testing-library", "swift-testing", "--filter", "LinuxHostTests.KilledTests/child")
                try process.waitForOutput(containing: "the tunnel is up", deadline: .seconds(120))
                try world.host.run("ping", "-n", "-q", "-c", "3", "-i", "0.05", "-W", "9", "8.8.8.8")
                let capture = try LinuxHostWorld.Capture(world)
                process.kill()
                try eventually("the interface has gone with its process") {
                    try world.host.runAllowingFailure("ip", "link", "show", LinuxHostWorld.tunnel).status != 0
                }
                try world.tryEverything()
                let lines = try capture.lines().filter { !LinuxHostWorld.isLinkConfiguration($0) }
                if policy == .routeBased {
                    // The policy does not block, so packets are sent as before the start.
                    #expect(lines.contains { $0.contains("> 8.8.8.8.80: Flags [S]") })
                } else {
                    let leaks = lines.filter { !$0.contains("> 203.0.113.7.51820: UDP") }
                    #expect(leaks.isEmpty, "\(leaks)")
                }
                #expect(try !world.cleanUp().isEmpty)
                try world.expectUnchanged(since: before)
                try world.host.run("ping", "-n", "-q", "-c", "1", "-W", "9", "10.55.1.1")
                withExtendedLifetime((etc, names)) {}
            }

            @Test(
                "(the process with a tunnel)",
                .enabled(if: ProcessInfo.processInfo.environment[variable] != nil, "is started by another test"))
            func child() async throws {
                let text = try #require(ProcessInfo.processInfo.environment[Self.variable])
                let task = try JSONDecoder().decode(Task.self, from: Data(text.utf8))
                let store = MemorySecretStore()
                try await store.write(
                    SecretBytes(Array(task.key.utf8)), WireGuardTunnelConfiguration.defaultPrivateKeyName, of: "it")
                let host = try LinuxHost<WireGuardTunnelProvider>(
                    name: LinuxHostWorld.tunnel, options: LinuxHostOptions(journalFolder: task.folder),
                    secrets: store)
                try await host.start(task.configuration, leakPolicy: task.policy, profileID: "it")
                FileHandle.standardOutput.write(Data("the tunnel is up\n".utf8))
                // Wait until the process is killed.
                for await update in host.statusUpdates() where update.status == .disconnected { break }
            }
        }
    }
#endif
