// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import NetworkAddresses
    import NetworkExtension
    import PacketTunnelTesting
    import Testing
    import TunnelSystem
    import WireGuardCore
    import WireGuardTunnel

    @testable import PacketTunnel
    @testable import PacketTunnelApple
    @testable import TunnelIO

    /// The tunnel of an extension: the packet flow is bridged to an interface of a namespace, and the sockets are in it too.
    private final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
        private let chosen: NetworkExtensionOptions
        private let environment: WireGuardEnvironment

        init(_ options: NetworkExtensionOptions, _ environment: WireGuardEnvironment) {
            (chosen, self.environment) = (options, environment)
            super.init()
        }

        override var options: NetworkExtensionOptions { chosen }

        override func makeProvider() -> WireGuardTunnelProvider { WireGuardTunnelProvider(environment: environment) }
    }

    @Suite("An extension's tunnel to wireguard-go", .enabled(if: Privileged.isAvailable), .timeLimit(.minutes(3)))
    struct ExtensionHostTests {
        private let near: Namespace
        private let far: Namespace

        init() throws {
            (near, far) = (try Namespace(), try Namespace())
            try near.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", far.name)
            for (namespace, address) in [(near, "10.9.0.1/24"), (far, "10.9.0.2/24")] {
                try namespace.run("ip", "address", "add", address, "dev", "eth0")
                try namespace.run("ip", "link", "set", "eth0", "up")
            }
        }

        /// wireguard-go in the far namespace, with addresses; killed when it is released.
        private func startPeer(_ key: PrivateKey, client: PublicKey) throws -> (process: SpawnedProcess, name: String) {
            let name = "wgx\(getpid())"
            let process = try SpawnedProcess([
                "env", "WG_PROCESS_FOREGROUND=1", "ip", "netns", "exec", far.name, "wireguard-go", "-f", name,
            ])
            let end = ContinuousClock.now + Privileged.patience
            while try runAllowingFailure(["wg", "show", name]).status != 0 {
                guard process.isRunning, ContinuousClock.now < end else {
                    throw CommandFailure(description: "wireguard-go does not serve:\n\(process.outputSoFar)")
                }
                usleep(20_000)
            }
            let file = FileManager.default.temporaryDirectory.appendingPathComponent(name).path
            defer { try? FileManager.default.removeItem(atPath: file) }
            let text = key.secret.withSpan { span in Data(span.indices.map { span[$0] }) }.base64EncodedString()
            try text.write(toFile: file, atomically: true, encoding: .utf8)
            try run([
                "wg", "set", name, "private-key", file, "listen-port", "51820", "peer", client.base64, "allowed-ips",
                "10.70.0.2/32,fd70::2/128",
            ])
            try far.run("ip", "address", "add", "10.70.0.1/24", "dev", name)
            try far.run("ip", "address", "add", "fd70::1/64", "dev", name, "nodad")
            try far.run("ip", "link", "set", name, "up")
            return (process, name)
        }

        @Test("Packets of both families go through the host and back, and all are counted")
        func pings() async throws {
            var random = SeededGenerator(seed: 11)
            let (key, peerKey) = (PrivateKey(using: &random), PrivateKey(using: &random))
            let peer = try startPeer(peerKey, client: key.publicKey)
            defer { peer.process.kill() }

            let secrets = MemorySecretStore()
            try await secrets.write(
                key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }, "private-key", of: "test")
            var options = NetworkExtensionOptions()
            options.logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            options.watchesPath = false
            options.secrets = secrets
            var environment = WireGuardEnvironment()
            environment.network = NamespaceNetwork(namespace: near)
            let tunnel = Tunnel(options, environment)
            let flow = tunnel.standIn.flow.standIn
            let bridge = try FlowBridge(flow, in: near)
            defer { bridge.end() }

            let configuration = WireGuardTunnelConfiguration(
                addresses: [try InterfaceAddress("10.70.0.2/24"), try InterfaceAddress("fd70::2/64")],
                peers: [
                    try .init(
                        publicKey: peerKey.publicKey.base64, endpoint: "10.9.0.2:51820",
                        allowedIPs: [
                            try IPPrefix("10.70.0.0/24"), try IPPrefix("fd70::/64"),
                        ])
                ])
            let request = TunnelStartRequest(
                configuration: Array(try JSONEncoder().encode(configuration)), profileID: "test")
            let started = OneShot<(any Error)?>()
            tunnel.startTunnel(options: NetworkExtensionStart.options(request, secrets: [:])) { started.finish($0) }
            if let error = await started.value { throw error }
            try bridge.apply(try #require(tunnel.standIn.settings))

            let count = 300
            let before = flow.counts
            for address in ["10.70.0.1", "fd70::1"] {
                let report = try near.run("ping", "-n", "-q", "-c", "\(count)", "-i", "0.002", "-W", "9", address)
                    .output
                #expect(report.contains("\(count) received"))
            }
            let after = flow.counts
            #expect(after.routed - before.routed >= 2 * count)
            #expect(after.written - before.written >= 2 * count)
            // As the peer has counted them: each ping is 84 bytes or 104, and what WireGuard adds.
            let transfer = try run(["wg", "show", peer.name, "transfer"]).output.split { $0 == "\t" || $0 == "\n" }
            let received = try #require(transfer.dropFirst().first.flatMap { Int($0) })
            let sent = try #require(transfer.dropFirst(2).first.flatMap { Int($0) })
            #expect(received > 2 * count * 84 && sent > 2 * count * 84)
            print(
                "flow: \(after.routed - before.routed) packets in, \(after.written - before.written) out; "
                    + "peer: \(received) bytes in, \(sent) out")

            let stopped = OneShot<Void>()
            tunnel.stopTunnel(with: .userInitiated) { stopped.finish(()) }
            await stopped.value
            #expect(StandInRules.violations.isEmpty)
        }
    }
#endif
