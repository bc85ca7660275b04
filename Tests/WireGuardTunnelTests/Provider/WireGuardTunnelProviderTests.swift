// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import HostConformance
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import WireGuardCore

@testable import WireGuardTunnel

@Suite("The WireGuard provider", .timeLimit(.minutes(5)))
struct WireGuardTunnelProviderTests {
    /// A key of zeros, which is not valid.
    private static let noKey = PublicKey(Bytes32.zero)

    @Test("A tunnel connects with proof, carries traffic both ways, reports its status, and ends")
    func connects() async throws {
        let scene = try TunnelScene { $0.dns = DNSSettings(servers: [.v4(10, 0, 0, 53)]) }
        try await scene.start()
        #expect(scene.host.status.status == .connected)
        #expect(scene.host.platform.settings?.includedRoutes == [.allIPv4, .allIPv6])
        #expect(scene.host.platform.settings?.dns?.servers == [.v4(10, 0, 0, 53)])
        #expect(await scene.passes())
        let status = try await scene.status()
        #expect(status.state == .connected || status.state == .probing)
        let peer = try #require(status.peers.first)
        #expect(peer.publicKey == scene.server.publicKey.base64)
        #expect(peer.endpoint == "198.51.100.1:51820")
        #expect(try #require(peer.lastHandshakeAge) < 60)
        #expect(status.receivedBytes > 92)
        #expect(status.sentBytes > 148)
        #expect(status.listenPort != nil)
        let text = String(decoding: try JSONEncoder().encode(status), as: UTF8.self).replacing("\\/", with: "/")
        let secret = try await scene.secrets.read("private-key", of: "test")
        #expect(text.contains(peer.publicKey))
        #expect(!text.contains(Data(secret.bytes).base64EncodedString()))
        await scene.stop()
        #expect(scene.host.status.status == .disconnected)
        await #expect(throws: MessageError.self) { _ = try await scene.status() }
    }

    @Test("A server that does not answer causes a typed error, and nothing stays behind")
    func unreachable() async throws {
        let scene = try TunnelScene { $0.handshakeTimeout = 0.2 }
        scene.server.close()
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .serverUnreachable)
        #expect(error?.message.contains("vpn.example") == true)
        #expect(await scene.reaches(.disconnected))
        #expect(scene.host.platform.settings == nil)
        await scene.stop()
    }

    enum Missing: CaseIterable, Sendable {
        case server, name, network
    }

    @Test(
        "A start that waits for no handshake applies its settings, is reasserting, and connects when possible",
        arguments: Missing.allCases)
    func doesNotWait(_ missing: Missing) async throws {
        let scene = try TunnelScene(path: missing == .network ? .unsatisfied : TunnelScene.wifi) {
            $0.waitsForHandshake = false
            $0.connectivity = .fast
        }
        if missing == .server { scene.internet.setFilter { _ in false } }
        if missing == .name { scene.resolver.set("vpn.example", .failure) }
        try await scene.start()
        #expect(scene.host.status.status == .reasserting, "not called connected without proof")
        #expect(scene.host.platform.settings?.includedRoutes == [.allIPv4, .allIPv6])
        let state = try await scene.status().state
        #expect(state == (missing == .network ? .paused : .connecting))
        if missing == .name {
            #expect(await scene.changes.wait { scene.resolver.asked.count >= 3 }, "it asks again and again")
        }
        #expect(scene.host.status.status == .reasserting)
        switch missing {
        case .server: scene.internet.setFilter(nil)
        case .name: scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 1)]))
        case .network: scene.host.pathChanged(TunnelScene.wifi)
        }
        #expect(await scene.reaches(.connected))
        #expect(await scene.passes())
        #expect(try await scene.status().state != .connecting)
        await scene.stop()
    }

    @Test("A start that waits for no handshake still reports problems of configuration and secrets")
    func doesNotWaitForMistakes() async throws {
        for (code, adjust) in [
            (TunnelError.Code.configurationInvalid, { $0.peers[0].publicKey = Self.noKey }),
            (.secretUnavailable, { $0.privateKeyName = "other" }),
        ] as [(TunnelError.Code, (inout WireGuardTunnelConfiguration) -> Void)] {
            let scene = try TunnelScene {
                $0.waitsForHandshake = false
                adjust(&$0)
            }
            let error = await #expect(throws: TunnelError.self) { try await scene.start() }
            #expect(error?.code == code)
            await scene.stop()
        }
    }

    @Test("A server with another key is not proof")
    func wrongKey() async throws {
        var random = SeededGenerator(seed: 99)
        let other = PrivateKey(using: &random).publicKey
        let scene = try TunnelScene {
            $0.peers[0].publicKey = other
            $0.handshakeTimeout = 0.2
        }
        let error = await #expect(throws: TunnelError.self) { try await scene.start() }
        #expect(error?.code == .serverUnreachable)
        await scene.stop()
    }

    @Test("f1.1: a failed start reports the cause: configuration, secret, name, network")
    func startFailures() async throws {
        let cases: [(TunnelError.Code, NetworkPath, (inout WireGuardTunnelConfiguration) -> Void)] = [
            (.configurationInvalid, TunnelScene.wifi, { $0.peers[0].publicKey = Self.noKey }),
            (.secretUnavailable, TunnelScene.wifi, { $0.privateKeyName = "other" }),
            (.nameResolutionFailed, TunnelScene.wifi, { $0.peers[0].endpoint = "nowhere.example:51820" }),
            (.networkUnavailable, .unsatisfied, { _ in }),
        ]
        for (code, path, adjust) in cases {
            let scene = try TunnelScene(path: path, adjust)
            let error = await #expect(throws: TunnelError.self) { try await scene.start() }
            #expect(error?.code == code)
            if code == .configurationInvalid { #expect(error?.problems.map(\.field) == ["peers[0].publicKey"]) }
            await scene.stop()
        }
    }

    @Test("A stop during the wait for proof ends the start immediately", arguments: [false, true])
    func stopDuringStart(resolving: Bool) async throws {
        let scene = try TunnelScene()
        scene.server.close()
        if resolving { scene.resolver.set("vpn.example", .hang) }
        let starting = Task { try await scene.start() }
        #expect(
            await scene.changes.wait { resolving ? !scene.resolver.asked.isEmpty : scene.host.platform.settings != nil }
        )
        await scene.host.stop(.userInitiated)
        let error = await #expect(throws: TunnelError.self) { try await starting.value }
        #expect(error?.code == .stopped)
        #expect(scene.host.status.status == .disconnected)
        scene.resolver.release()
    }

    @Test("A tunnel moves to another network: new sockets, and the server learns its address")
    func roaming() async throws {
        let scene = try TunnelScene()
        try await scene.start()
        #expect(await scene.passes())
        scene.network.move(to: [.v4(0xcb00_7163)])
        scene.host.pathChanged(TunnelScene.cellular)
        #expect(await scene.changes.wait { scene.server.clientEndpoint?.address == IPAddress.v4(0xcb00_7163) })
        #expect(await scene.passes(2))
        #expect(await scene.reaches(.connected))
        await scene.stop()
    }

    @Test("f2.18: without a network the tunnel pauses and reports it, and continues with one")
    func offline() async throws {
        let scene = try TunnelScene { $0.peers[0].persistentKeepalive = 1 }
        try await scene.start()
        scene.host.pathChanged(.unsatisfied)
        #expect(await scene.reaches(.reasserting))
        #expect(try await scene.status().state == .paused)
        scene.network.move(to: [])
        scene.network.move(to: [.v4(0xcb00_7164)])
        scene.host.pathChanged(TunnelScene.cellular)
        #expect(await scene.reaches(.connected))
        #expect(await scene.passes())
        await scene.stop()
    }

    @Test("Sleep stops all sending, and waking up binds new sockets and proves the tunnel again")
    func sleep() async throws {
        let scene = try TunnelScene()
        try await scene.start()
        let port = try await scene.status().listenPort
        await scene.host.sleep()
        #expect(try await scene.status().state == .paused)
        scene.host.wake()
        #expect(await scene.changes.wait { (try? await scene.status().state) == .connected })
        #expect(try await scene.status().listenPort != port)
        #expect(await scene.passes())
        await scene.stop()
    }

    @Test("f2.5: when new sockets fail after a pause, healing tries again without another event")
    func rebindRetries() async throws {
        let failing = FailingNetwork()
        let scene = try TunnelScene(failing: failing) { $0.connectivity = .fast }
        try await scene.start(leakPolicy: .enforcedRoutes)
        scene.host.pathChanged(.unsatisfied)
        #expect(await scene.reaches(.reasserting))
        // The system chose the port, so the old sockets stay while new ones fail; the old ones have no route.
        scene.network.move(to: [])
        failing.setFailing(true)
        scene.host.pathChanged(TunnelScene.cellular)
        #expect(await scene.changes.wait { failing.failures > 0 })
        scene.network.move(to: [.v4(0xcb00_7165)])
        failing.setFailing(false)
        #expect(await scene.reaches(.connected))
        #expect(await scene.passes())
        await scene.stop()
    }

    @Test("f2.7: a server that moved is found by its name")
    func movedServer() async throws {
        let scene = try TunnelScene {
            $0.connectivity = .fast
            $0.connectivity.healingInterval = 0.3
        }
        try await scene.start(leakPolicy: .enforcedRoutes)
        #expect(await scene.passes())
        scene.server.network.move(to: [.v4(0xc633_6402)])
        scene.resolver.set("vpn.example", .addresses([.v4(198, 51, 100, 2)]))
        #expect(await scene.passes(2))
        #expect(await scene.reaches(.connected))
        #expect(try await scene.status().peers.first?.endpoint == "198.51.100.2:51820")
        await scene.stop()
    }

    @Test("A start resolves the names of all peers in parallel, and needs one of them")
    func parallelNames() async throws {
        var random = SeededGenerator(seed: 36)
        let others = (0..<2).map { _ in PrivateKey(using: &random).publicKey }
        let scene = try TunnelScene {
            $0.peers.insert(.init(publicKey: others[0], endpoint: "hanging.example:51820"), at: 0)
            $0.peers.insert(.init(publicKey: others[1], endpoint: "unknown.example:51820"), at: 1)
        }
        scene.resolver.set("hanging.example", .hang)
        let starting = Task { try await scene.start() }
        #expect(await scene.changes.wait { scene.resolver.asked.count == 3 }, "no lookup waits for another one")
        #expect(Set(scene.resolver.asked) == ["hanging.example", "unknown.example", "vpn.example"])
        scene.resolver.release()
        try await starting.value
        #expect(await scene.passes())
        await scene.stop()
    }

    @Test("f2.7, f2.8: a hanging resolver delays neither roaming nor the stop")
    func hangingResolver() async throws {
        let scene = try TunnelScene()
        try await scene.start()
        scene.resolver.set("vpn.example", .hang)
        scene.network.move(to: [.v4(0xcb00_7163)])
        scene.host.pathChanged(TunnelScene.cellular)
        #expect(await scene.passes())
        #expect(await scene.changes.wait { scene.resolver.asked.count >= 2 })
        await scene.stop()
        #expect(scene.host.status.status == .disconnected)
        scene.resolver.release()
    }

    @Test("On a network with IPv6 only, an IPv4 server is reached through its NAT64")
    func nat64() async throws {
        let client = IPAddress.v6(0x2001_0db8_0000_0001, 5)
        let path = NetworkPath(
            interfaces: [.init(name: "pdp0", kind: .cellular)], supportsIPv4: false, supportsIPv6: true)
        let scene = try TunnelScene(endpoint: "198.51.100.1:51820", path: path, clientAddresses: [client])
        let prefix = try #require(NAT64Prefix(value: 0x2001_0db8_0064 << 80, length: 96))
        scene.resolver.set(
            NAT64Prefix.discoveryName, .addresses(NAT64Prefix.wellKnown.map { prefix.embed($0) }))
        let mapped = prefix.embed(0xc633_6401)
        let gateway = IPAddress.v4(0xcb00_7140)
        scene.internet.setFilter { datagram in
            if datagram.destination == mapped {
                (datagram.source, datagram.destination) = (gateway, TunnelScene.serverAddress)
            } else if datagram.destination == gateway {
                (datagram.source, datagram.destination) = (mapped, client)
            }
            return true
        }
        try await scene.start()
        #expect(await scene.passes())
        #expect(scene.server.clientEndpoint?.address == IPAddress.v4(0xcb00_7140))
        await scene.stop()
    }

    @Test("Another configuration is applied to a running tunnel, and removed parts are removed")
    func reconfigures() async throws {
        var random = SeededGenerator(seed: 5)
        let other = PrivateKey(using: &random).publicKey
        let scene = try TunnelScene {
            $0.listenPort = 40_000
            $0.peers.append(.init(publicKey: other))
        }
        try await scene.start()
        let before = try await scene.status()
        #expect(before.listenPort == 40_000)
        #expect(before.peers.count == 2)
        let statuses = scene.host.statusUpdates()
        var configuration = scene.configuration
        configuration.listenPort = nil
        configuration.peers.removeLast()
        configuration.mtu = 1300
        _ = try await scene.send(ReconfigureRequest(configuration: configuration))
        #expect(scene.host.platform.settings?.mtu == 1300)
        let after = try await scene.status()
        #expect(after.peers.map(\.publicKey) == [scene.server.publicKey.base64])
        #expect(after.listenPort != 40_000, "f2.6")
        var seen: [TunnelStatus] = []
        for await update in statuses {
            seen.append(update.status)
            if seen.count == 3 { break }
        }
        #expect(seen == [.connected, .reasserting, .connected])
        #expect(await scene.passes())
        configuration.peers[0].publicKey = Self.noKey
        await #expect(throws: MessageError.self) {
            _ = try await scene.send(ReconfigureRequest(configuration: configuration))
        }
        #expect(await scene.passes(2), "a configuration that is refused changes nothing")
        await scene.stop()
    }

    @Test("A tunnel without endpoints listens, and is not connected until a peer connects")
    func listens() async throws {
        let scene = try TunnelScene(endpoint: nil)
        try await scene.start()
        #expect(scene.host.status.status == .reasserting)
        #expect(try await scene.status().state == .listening)
        await scene.stop()
    }

    @Test("Only healing moves a peer from one of its addresses to the next")
    func rotation() throws {
        let (a, b) = (try Endpoint("10.0.0.1:1"), try Endpoint("10.0.0.2:1"))
        typealias Provider = WireGuardTunnelProvider
        #expect(Provider.next(of: [a, b], after: a, rotating: true) == b)
        #expect(Provider.next(of: [a, b], after: b, rotating: true) == a)
        #expect(Provider.next(of: [a], after: a, rotating: true) == nil)
        #expect(Provider.next(of: [a, b], after: b, rotating: false) == nil)
        #expect(Provider.next(of: [a], after: b, rotating: false) == a)
        #expect(Provider.next(of: [a], after: nil, rotating: false) == a)
    }
}

/// A network that fails to open sockets while a test asks for that.
final class FailingNetwork: Sendable {
    private let isFailing = Atomic<Bool>(false)
    private let count = Atomic<Int>(0)

    func setFailing(_ value: Bool) { isFailing.store(value, ordering: .releasing) }
    var failures: Int { count.load(ordering: .acquiring) }

    func wrap(_ network: MemoryDatagramNetwork) -> any DatagramNetwork { Wrapped(owner: self, network: network) }

    private struct Wrapped: DatagramNetwork {
        let owner: FailingNetwork
        let network: MemoryDatagramNetwork

        func bind(_ binding: DatagramBinding, count: Int) throws(TunnelIOError) -> [DatagramSockets] {
            guard !owner.isFailing.load(ordering: .acquiring) else {
                owner.count.add(1, ordering: .relaxed)
                throw TunnelIOError(.bind(port: binding.port, operation: "bind"), errno: 101)
            }
            return try network.bind(binding, count: 1)
        }
    }
}
