// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import HostConformance
    import NetworkAddresses
    import PacketTunnelTesting
    import Synchronization
    import Testing
    import TunnelIO
    import WireGuardCore
    import WireGuardTunnel

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    extension LinuxHostTests {
        /// The WireGuard provider against wireguard-go, with everything routed into the tunnel and name servers in it.
        @Suite(
            "WireGuard in the Linux host", .enabled(if: PrivateEtc.isPossible, "needs a mount namespace"),
            .timeLimit(.minutes(10)))
        struct WireGuardTests {
            static let resolvConf = "nameserver 192.0.2.1\n"
            static let name = "vpn.example"

            /// Returns the packets that belong neither to the link nor to the tunnel (datagrams to its server, and lookups of
            /// the server's name).
            static func leaks(_ lines: [String], server: String = "203.0.113.7.51820") -> [String] {
                lines.filter { line in
                    !LinuxHostWorld.isLinkConfiguration(line) && !line.contains("> \(server): UDP")
                        && !(line.contains("> 192.0.2.1.53:") && line.contains("\(name). "))
                }
            }

            /// Expects that pings of both families and a DNS query are answered from the server's side of the tunnel.
            private func expectCarries(_ world: LinuxHostWorld) throws {
                for address in ["8.8.8.8", "fd55::1"] {
                    try world.host.run("ping", "-n", "-q", "-c", "2", "-i", "0.05", "-W", "9", address)
                }
                let hosts = try world.host.run("getent", "ahostsv4", "inside.example").output
                #expect(hosts.contains("10.9.0.77"))
            }

            @Test(
                "From start to stop only the tunnel's own packets leave, at every event",
                arguments: LeakPolicy.allCases)
            func wholeLife(_ policy: LeakPolicy) async throws {
                let etc = try PrivateEtc(resolvConf: Self.resolvConf)
                let scene = try WireGuardServerWorld()
                let world = scene.world
                let before = try world.snapshot()
                let names = try NameServer(
                    on: NamespaceNetwork(namespace: world.router),
                    [Self.name: [.v4(203, 0, 113, 7)], "inside.example": [.v4(10, 9, 0, 77)]])
                let (host, provider) = try await scene.host()
                // Without blocking, the system's resolver is used before the tunnel is up, and it would run in this
                // process's namespace.
                let endpoint = policy == .routeBased ? "203.0.113.7:51820" : "\(Self.name):51820"
                let configuration = try scene.configuration(policy, endpoint: endpoint)
                let ways = policy == .routeBased ? LinuxHostWorld.Ways.routed : .all
                let tryEverything: @Sendable () async throws -> Void = {
                    try await onThread { try world.tryEverything(ways) }
                }
                let capture = try LinuxHostWorld.Capture(world)

                // During the start the server does not answer, and the settings are in effect.
                let starting = Task {
                    try await host.start(configuration, leakPolicy: policy, profileID: WireGuardServerWorld.profile)
                }
                try await onThread {
                    _ = try eventually("the settings are in force") {
                        try world.host.run("ip", "rule").output.contains("51821")
                            && String(contentsOfFile: "/etc/resolv.conf", encoding: .utf8).contains("10.9.0.1")
                    }
                }
                #expect(host.status.status == .connecting)
                try await tryEverything()
                try scene.startServer()
                try await starting.value
                #expect(host.status.status == .connected)

                // While the tunnel is up.
                try expectCarries(world)
                try await tryEverything()

                // While the server is dead, which the tunnel reports.
                scene.killServer()
                await host.reaches(.reasserting)
                try await tryEverything()
                #expect(host.status.status == .reasserting)
                try scene.startServer()
                await host.reaches(.connected)
                try expectCarries(world)

                // While the configuration is replaced.
                var other = configuration
                other.mtu = 1300
                other.dns?.searchDomains = ["corp.example"]
                let changed = other
                let changing = Task { try await provider.reconfigure(changed) }
                try await tryEverything()
                try await changing.value
                await host.reaches(.connected)
                let link = try world.host.run("ip", "link", "show", LinuxHostWorld.tunnel).output
                #expect(link.contains("mtu 1300"))
                try expectCarries(world)

                let status = await provider.status
                let lines = try capture.lines()
                await host.stop(.userInitiated)
                let leaks = Self.leaks(lines)
                #expect(leaks.isEmpty, "\(leaks)")
                let own = lines.filter { $0.contains("> 203.0.113.7.51820: UDP") }.count
                #expect(own > 20)
                print(
                    "\(policy.rawValue): \(own) datagrams of WireGuard and nothing else left; received",
                    status.peers.first?.receivedBytes ?? 0, "bytes, sent", status.peers.first?.sentBytes ?? 0)
                try world.expectUnchanged(since: before)
                await names.close()
                withExtendedLifetime(etc) {}
            }

            @Test("A server that moved is found by its name, asked for past the tunnel", arguments: LeakPolicy.allCases)
            func moved(_ policy: LeakPolicy) async throws {
                let etc = try PrivateEtc(resolvConf: Self.resolvConf)
                let scene = try WireGuardServerWorld()
                let world = scene.world
                let names = try NameServer(
                    on: NamespaceNetwork(namespace: world.router), [Self.name: [.v4(203, 0, 113, 8)]])
                let (host, provider) = try await scene.host()
                var configuration = try scene.configuration(policy, endpoint: "\(Self.name):51820")
                configuration.connectivity.healingInterval = 4
                if policy == .routeBased {
                    // As above: a reconfiguration sets the name later.
                    configuration.peers[0].endpoint = try EndpointAddress("203.0.113.7:51820")
                } else {
                    names.set(Self.name, [.v4(203, 0, 113, 7)])
                }
                try scene.startServer()
                try await host.start(configuration, leakPolicy: policy, profileID: WireGuardServerWorld.profile)
                let capture = try LinuxHostWorld.Capture(world)
                configuration.peers[0].endpoint = try EndpointAddress("\(Self.name):51820")
                // The server's old address is removed, and the name resolves to another one.
                try world.router.run("ip", "address", "delete", "203.0.113.7/32", "dev", "lo")
                try world.router.run("ip", "address", "add", "203.0.113.8/32", "dev", "lo")
                names.set(Self.name, [.v4(203, 0, 113, 8)])
                if policy == .routeBased { try await provider.reconfigure(configuration) }
                await host.reaches(.reasserting)
                await host.reaches(.connected)
                #expect(await provider.status.peers.first?.endpoint == "203.0.113.8:51820")
                let asked = names.questions
                #expect(asked.allSatisfy { $0.name == Self.name && $0.server == 1 }, "\(asked)")
                let lines = try capture.lines()
                let leaks = Self.leaks(lines).filter { !$0.contains("> 203.0.113.8.51820: UDP") }
                #expect(leaks.isEmpty, "\(leaks)")
                #expect(lines.contains { $0.contains("> 192.0.2.1.53:") })
                await host.stop(.userInitiated)
                await names.close()
                withExtendedLifetime(etc) {}
            }

            @Test(
                "A tunnel that loses its interface is blocked, and comes up again by its server's name",
                arguments: LeakPolicy.allCases.dropFirst())
            func blocked(_ policy: LeakPolicy) async throws {
                let etc = try PrivateEtc(resolvConf: Self.resolvConf)
                let scene = try WireGuardServerWorld()
                let world = scene.world
                let before = try world.snapshot()
                let names = try NameServer(
                    on: NamespaceNetwork(namespace: world.router), [Self.name: [.v4(203, 0, 113, 7)]])
                try scene.startServer()
                let (host, _) = try await scene.host()
                let configuration = try scene.configuration(policy, endpoint: "\(Self.name):51820")
                try await host.start(configuration, leakPolicy: policy, profileID: WireGuardServerWorld.profile)
                let capture = try LinuxHostWorld.Capture(world)
                try world.host.run("ip", "link", "delete", LinuxHostWorld.tunnel)
                await host.reaches(.blocked)
                #expect(host.status.error?.code == .providerFailed)
                try await onThread { try world.tryEverything() }
                // A policy that blocks everything also blocks the system's own lookups.
                try await host.start(configuration, leakPolicy: policy, profileID: WireGuardServerWorld.profile)
                try await onThread {
                    _ = try world.host.run("ping", "-n", "-q", "-c", "2", "-i", "0.05", "-W", "9", "8.8.8.8")
                }
                let leaks = Self.leaks(try capture.lines())
                #expect(leaks.isEmpty, "\(leaks)")
                await host.stop(.userInitiated)
                try world.expectUnchanged(since: before)
                await names.close()
                withExtendedLifetime(etc) {}
            }

            @Test("With endWhenDead, a tunnel that lost its server ends with the reason, and the network is restored")
            func lost() async throws {
                let etc = try PrivateEtc(resolvConf: Self.resolvConf)
                let scene = try WireGuardServerWorld()
                let before = try scene.world.snapshot()
                try scene.startServer()
                let (host, _) = try await scene.host()
                var configuration = try scene.configuration(.routeBased)
                configuration.connectivity.healingInterval = 0.5
                configuration.connectivity.endWhenDead = .afterHealing
                try await host.start(configuration, profileID: WireGuardServerWorld.profile)
                scene.killServer()
                await host.reaches(.reasserting)
                await host.reaches(.disconnected)
                #expect(host.status.error?.code == .connectivityLost)
                try scene.world.expectUnchanged(since: before)
                withExtendedLifetime(etc) {}
            }

            @Test(
                "Silent name servers cause a typed error in time, and no others are asked",
                arguments: LeakPolicy.allCases.dropFirst())
            func silentNames(_ policy: LeakPolicy) async throws {
                let etc = try PrivateEtc(resolvConf: Self.resolvConf)
                let scene = try WireGuardServerWorld()
                let world = scene.world
                let before = try world.snapshot()
                let names = try NameServer(on: NamespaceNetwork(namespace: world.router), [:])
                names.isSilent = true
                let (host, _) = try await scene.host()
                var configuration = try scene.configuration(policy, endpoint: "\(Self.name):51820")
                configuration.resolutionTimeout = 2
                let capture = try LinuxHostWorld.Capture(world)
                let error = await #expect(throws: TunnelError.self) {
                    try await host.start(configuration, leakPolicy: policy, profileID: WireGuardServerWorld.profile)
                }
                #expect(error?.code == .nameResolutionFailed)
                await host.stop(.userInitiated)
                #expect(Set(names.questions.map(\.name)) == [Self.name])
                let leaks = Self.leaks(try capture.lines())
                #expect(leaks.isEmpty, "\(leaks)")
                // Another start works once the name servers answer.
                names.isSilent = false
                names.set(Self.name, [.v4(203, 0, 113, 7)])
                try scene.startServer()
                try await host.start(configuration, leakPolicy: policy, profileID: WireGuardServerWorld.profile)
                await host.stop(.userInitiated)
                try world.expectUnchanged(since: before)
                await names.close()
                withExtendedLifetime(etc) {}
            }

            @Test("Through a relay that loses and delays, the tunnel comes up, stays up and carries", arguments: [0.2])
            func relay(_ loss: Double) async throws {
                let etc = try PrivateEtc(resolvConf: Self.resolvConf)
                let scene = try WireGuardServerWorld()
                let world = scene.world
                let relay = try UDPRelay(
                    on: NamespaceNetwork(namespace: world.router), port: 51_900, to: .v4(203, 0, 113, 7),
                    WireGuardServerWorld.port, loss: loss, delay: .milliseconds(10) ... .milliseconds(60))
                let (host, provider) = try await scene.host()
                var configuration = try scene.configuration(.everything, endpoint: "203.0.113.7:51900")
                configuration.handshakeTimeout = 60
                configuration.connectivity.maxConnectionAttempts = 20
                try scene.startServer()
                let capture = try LinuxHostWorld.Capture(world)
                try await host.start(configuration, leakPolicy: .everything, profileID: WireGuardServerWorld.profile)
                let pings = try world.host.runAllowingFailure(
                    "ping", "-n", "-q", "-c", "100", "-i", "0.02", "-W", "5", "8.8.8.8"
                ).output
                let received = pings.split(separator: ",").first { $0.contains(" received") }
                    .flatMap { Int($0.split(separator: " ")[0]) }
                // Both directions lose packets, so about two of three pings are answered.
                #expect((30...90).contains(received ?? 0), "\(pings)")
                #expect(host.status.status == .connected)
                #expect(await provider.status.peers.first?.receivedBytes ?? 0 > 0)
                let leaks = Self.leaks(try capture.lines(), server: "203.0.113.7.51900")
                #expect(leaks.isEmpty, "\(leaks)")
                let statistics = relay.statistics
                #expect(statistics.lost > 10 && statistics.delivered > 50, "\(statistics)")
                await host.stop(.userInitiated)
                await relay.close()
                withExtendedLifetime(etc) {}
            }

            @Test("The same provider in the Linux host and in the memory host, wired by UDP: packets counted both ways")
            func twoHosts() async throws {
                let etc = try PrivateEtc(resolvConf: Self.resolvConf)
                let scene = try WireGuardServerWorld()
                let world = scene.world
                // A provider of the same type as the peer, with keys and endpoints exchanged.
                var environment = WireGuardEnvironment()
                environment.network = NamespaceNetwork(namespace: world.router)
                let theirs = WireGuardTunnelProvider(environment: environment)
                let store = MemorySecretStore()
                try await store.write(
                    SecretBytes(Array(scene.keys.text.utf8)), WireGuardTunnelConfiguration.defaultPrivateKeyName,
                    of: WireGuardServerWorld.profile)
                let memory = MemoryHost<WireGuardTunnelProvider>(secrets: store) { theirs }
                let network = VirtualNetwork()
                memory.platform.connect(to: network)
                let listening = WireGuardTunnelConfiguration(
                    addresses: [try InterfaceAddress("10.9.0.1/24")], listenPort: WireGuardServerWorld.port,
                    peers: [
                        .init(
                            publicKey: scene.clientKeys.publicKey,
                            allowedIPs: [
                                try IPPrefix("10.9.0.2/32"), try IPPrefix("fd09::2/128"),
                            ])
                    ])
                try await memory.start(listening, profileID: WireGuardServerWorld.profile)
                #expect(memory.status.status == .reasserting, "no peer has connected yet")
                let (host, ours) = try await scene.host()
                var configuration = try scene.configuration(.enforcedRoutes)
                configuration.dns = nil
                configuration.connectivity.pingAddress = nil
                try await host.start(
                    configuration, leakPolicy: .enforcedRoutes, profileID: WireGuardServerWorld.profile)
                await memory.reaches(.connected)
                for address in ["8.8.8.8", "fd55::1"] {
                    try await onThread {
                        _ = try world.host.run("ping", "-n", "-q", "-c", "50", "-i", "0.01", "-W", "9", address)
                    }
                }
                let answered = network.statistics.pingsAnswered
                #expect(answered == 100)
                let (near, far) = (
                    try #require(await ours.status.peers.first), try #require(await theirs.status.peers.first)
                )
                #expect(near.receivedBytes > 10_000 && far.receivedBytes > 10_000)
                print(
                    "LinuxHost and MemoryHost, both with \(WireGuardTunnelProvider.self): 100 pings sent, \(answered)",
                    "answered behind the other host; the Linux host received \(near.receivedBytes) bytes and sent",
                    "\(near.sentBytes), the memory host received \(far.receivedBytes) and sent \(far.sentBytes)")
                await host.stop(.userInitiated)
                await memory.stop(.userInitiated)
                withExtendedLifetime(etc) {}
            }
        }
    }
#endif
