// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Testing
import TunnelIO
import WireGuardCore

@testable import WireGuardTunnel

@Suite("Two WireGuard providers, each in a memory host", .timeLimit(.minutes(3)))
struct WireGuardPairTests {
    private typealias Host = MemoryHost<WireGuardTunnelProvider>

    private static let port: UInt16 = 51_820
    private static let count = 50

    private func host(_ key: PrivateKey, on network: MemoryDatagramNetwork) -> Host {
        var environment = WireGuardEnvironment()
        environment.network = network
        let used = environment
        let secret = key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
        return MemoryHost(secrets: MemorySecrets(["private-key": secret])) {
            WireGuardTunnelProvider(environment: used)
        }
    }

    private func configuration(
        _ own: IPAddress, port: UInt16? = nil, peer: PublicKey, at endpoint: EndpointAddress? = nil,
        allowed: [IPPrefix]
    ) -> WireGuardTunnelConfiguration {
        WireGuardTunnelConfiguration(
            addresses: [InterfaceAddress(host: own)], listenPort: port,
            peers: [.init(publicKey: peer, allowedIPs: allowed, endpoint: endpoint)], connectivity: .patient)
    }

    /// Sends pings from one host's system to an address; returns how many the other host's system receives.
    private func ping(_ from: Host, _ source: IPAddress, to target: IPAddress) {
        for sequence in 0..<Self.count {
            from.platform.inject(
                PacketBuilder.icmpEcho(
                    from: source, to: target, identifier: 7, sequence: UInt16(sequence),
                    payload: [1, 2, 3]))
        }
    }

    @Test(
        "Two WireGuard providers are wired by WireGuard: packets are counted both ways, and a network behind one of them answers"
    )
    func pair() async throws {
        var random = SeededGenerator(seed: 11)
        let (nearKey, farKey) = (PrivateKey(using: &random), PrivateKey(using: &random))
        let (nearAddress, farAddress) = (IPAddress.v4(10, 0, 0, 1), IPAddress.v4(10, 0, 0, 2))
        let internet = MemoryInternet()
        let near = host(nearKey, on: internet.attach([.v4(0xc000_0201)]))
        let far = host(farKey, on: internet.attach([.v4(0xc633_6401)]))
        let changes = Changes()
        for host in [near, far] {
            changes.follow(host.statusUpdates())
            host.platform.setDeliveryHandler { changes.notify() }
        }
        let behind = VirtualNetwork()
        far.platform.connect(to: behind)
        try await far.start(
            configuration(
                farAddress, port: Self.port, peer: nearKey.publicKey, allowed: [IPPrefix(host: nearAddress)]),
            profileID: "test")
        #expect(far.status.status == .reasserting)
        try await near.start(
            configuration(
                nearAddress, peer: farKey.publicKey, at: "198.51.100.1:\(Self.port)", allowed: [.allIPv4]),
            profileID: "test")
        #expect(await changes.wait { far.status.status == .connected })

        ping(near, nearAddress, to: .v4(203, 0, 113, 1))
        var replies = 0
        #expect(
            await changes.wait {
                replies += near.platform.takeDelivered().filter { $0.count > 20 && $0[20] == 0 }.count
                return replies == Self.count
            }, "\(replies) replies")
        #expect(behind.statistics.pingsAnswered >= Self.count)

        // In the other direction: the far host's system starts.
        ping(far, .v4(203, 0, 113, 1), to: nearAddress)
        var requests = 0
        #expect(
            await changes.wait {
                requests += near.platform.takeDelivered().filter { $0.count > 20 && $0[20] == 8 }.count
                return requests == Self.count
            }, "\(requests) requests")

        for host in [near, far] {
            let status = try await MessageClient(channel: host, timeout: .seconds(60)).send(StatusRequest())
            #expect(status.receivedBytes > UInt64(Self.count * 64))
            #expect(status.sentBytes > UInt64(Self.count * 64))
            print(
                "MemoryHost with a WireGuard provider: received \(status.receivedBytes) bytes, sent",
                "\(status.sentBytes); \(replies) replies and \(requests) requests came out of the tunnel")
        }
        await near.stop(.userInitiated)
        await far.stop(.userInitiated)
    }

    /// Two peers that have each other's endpoint and a port each.
    private func twoPeers(
        _ adjust: (inout WireGuardTunnelConfiguration) -> Void = { _ in }
    ) -> [(host: Host, configuration: WireGuardTunnelConfiguration)] {
        var random = SeededGenerator(seed: 12)
        let keys = [PrivateKey(using: &random), PrivateKey(using: &random)]
        let addresses = [IPAddress.v4(10, 0, 0, 1), IPAddress.v4(10, 0, 0, 2)]
        let outside = [IPAddress.v4(192, 0, 2, 1), IPAddress.v4(198, 51, 100, 1)]
        let internet = MemoryInternet()
        return [0, 1].map { index in
            let other = 1 - index
            var configuration = configuration(
                addresses[index], port: Self.port, peer: keys[other].publicKey, at: "\(outside[other]):\(Self.port)",
                allowed: [IPPrefix(host: addresses[other])])
            adjust(&configuration)
            return (host(keys[index], on: internet.attach([outside[index]])), configuration)
        }
    }

    @Test("Of two peers that both have an endpoint, the one that starts alone fails with a remedy")
    func aloneSaysWhatToDo() async throws {
        let first = try #require(twoPeers { $0.handshakeTimeout = 1 }.first)
        do throws(TunnelError) {
            try await first.host.start(first.configuration, profileID: "test")
            Issue.record("it is up without its peer")
        } catch {
            #expect(error.code == .serverUnreachable)
            #expect(error.fix.contains("if the other side starts later"))
            #expect(error.fix.contains("waitsForHandshake") && error.fix.contains("--no-wait"))
        }
    }

    @Test(
        "Of two peers that both have an endpoint, one that does not wait is up alone, and works once the other has come"
    )
    func doesNotWait() async throws {
        let peers = twoPeers { $0.waitsForHandshake = false }
        let changes = Changes()
        for peer in peers { changes.follow(peer.host.statusUpdates()) }
        try await peers[0].host.start(peers[0].configuration, profileID: "test")
        #expect(peers[0].host.status.status == .reasserting)
        try await peers[1].host.start(peers[1].configuration, profileID: "test")
        #expect(await changes.wait { peers.allSatisfy { $0.host.status.status == .connected } })
        for peer in peers { await peer.host.stop(.userInitiated) }
    }

    @Test("Of two peers with endpoints, a waiting one is up as soon as the other connects, in either order")
    func waitsForOther() async throws {
        let peers = twoPeers { $0.handshakeTimeout = 50 }
        let starting = Task { try await peers[0].host.start(peers[0].configuration, profileID: "test") }
        let changes = Changes()
        changes.follow(peers[0].host.statusUpdates())
        #expect(await changes.wait { peers[0].host.status.status == .connecting })
        try await peers[1].host.start(peers[1].configuration, profileID: "test")
        try await starting.value
        #expect(peers.allSatisfy { $0.host.status.status == .connected })
        for peer in peers { await peer.host.stop(.userInitiated) }
    }
}
