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
        _ own: IPAddress, port: UInt16? = nil, peer: PublicKey, at endpoint: String? = nil,
        allowed: [IPPrefix]
    ) -> WireGuardTunnelConfiguration {
        WireGuardTunnelConfiguration(
            addresses: [InterfaceAddress(host: own)], listenPort: port,
            peers: [.init(publicKey: peer.base64, endpoint: endpoint, allowedIPs: allowed)], connectivity: .patient)
    }

    /// Sends pings from one host's system to an address; how many of them the other host's system gets.
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
            host.platform.setDeliveryHandler { changes.tell() }
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

        // The other way round: the far host's system begins.
        ping(far, .v4(203, 0, 113, 1), to: nearAddress)
        var requests = 0
        #expect(
            await changes.wait {
                requests += near.platform.takeDelivered().filter { $0.count > 20 && $0[20] == 8 }.count
                return requests == Self.count
            }, "\(requests) requests")

        for host in [near, far] {
            let channel = HostChannel(host: host)
            let status = try await MessageClient(channel: channel, timeout: .seconds(60)).send(StatusRequest())
            #expect(status.receivedBytes > UInt64(Self.count * 64))
            #expect(status.sentBytes > UInt64(Self.count * 64))
            print(
                "MemoryHost with a WireGuard provider: received \(status.receivedBytes) bytes, sent",
                "\(status.sentBytes); \(replies) replies and \(requests) requests came out of the tunnel")
        }
        await near.stop(.userInitiated)
        await far.stop(.userInitiated)
    }
}
