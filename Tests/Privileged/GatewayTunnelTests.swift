// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelLinux
    import Testing
    import TunnelIO
    import TunnelServer
    import WireGuardCore
    import WireGuardDevice

    @testable import Gateway

    @Suite("A gateway's tunnel", .enabled(if: Privileged.isAvailable), .serialized, .timeLimit(.minutes(5)))
    struct GatewayTunnelTests {
        /// The scene with the connected clients anna and ben.
        private struct Both {
            let scene: GatewayTunnelScene
            let anna: GatewayClient
            let ben: GatewayClient
            let annaID: DeviceID
            let benID: DeviceID

            init() async throws {
                scene = try GatewayTunnelScene()
                var generator = SystemRandomNumberGenerator()
                anna = try GatewayClient(
                    in: scene.anna, addresses: ["10.66.0.2", "fd66::2"], presharedKey: PresharedKey(using: &generator))
                ben = try GatewayClient(in: scene.ben, addresses: ["10.66.0.3", "fd66::3"])
                annaID = try scene.source.set(
                    key: anna.key.publicKey, presharedKey: anna.presharedKey, addresses: ["10.66.0.2", "fd66::2"])
                // Ben is added while the gateway runs.
                try await scene.start()
                benID = try scene.source.set(key: ben.key.publicKey, addresses: ["10.66.0.3", "fd66::3"])
                for client in [anna, ben] { try client.use(scene.source.serverKeys.current.publicKey) }
                try scene.settled()
            }
        }

        @Test("Two clients reach the internet through the gateway with all of their traffic, and not each other")
        func fullTunnel() async throws {
            let both = try await Both()
            let before = try both.scene.world.router.run("ip", "-s", "route").output
            for client in [both.anna, both.ben] {
                #expect(try client.pings("203.0.113.7", patience: 9))
                #expect(try client.pings("2001:db8:7::7", patience: 9))
                #expect(try client.pings("10.66.0.1"))
                // A network behind the router. Without the tunnel the client has no route to it.
                #expect(try !client.pings("172.31.2.1"))
            }
            #expect(try !both.anna.pings("10.66.0.3"))
            #expect(try !both.ben.pings("fd66::2"))
            // The router has no route to the clients; it has seen only the gateway's address.
            #expect(!before.contains("10.66.") && both.scene.figures.online == 2)
            let flow = try HeldFlow(
                from: both.anna.namespace, to: both.scene.world.router, at: "203.0.113.7", port: 7001)
            #expect(flow.carries(fromNear: true) && flow.carries(fromNear: false))
            try await both.scene.stop()
            #expect(try !both.anna.pings("203.0.113.7"))
        }

        @Test("A client that sends with another's address inside the tunnel is not heard, and that is counted")
        func spoofing() async throws {
            let both = try await Both()
            #expect(try both.anna.pings("203.0.113.7", patience: 9))
            let before = try #require(both.scene.figures.drops["disallowed source"])
            for address in ["10.66.0.3", "10.66.0.77", "192.168.1.1"] {
                try both.anna.namespace.run("ip", "address", "add", "\(address)/32", "dev", "tun0")
                #expect(try !both.anna.pings("203.0.113.7", source: address))
            }
            #expect(both.scene.figures.drops["disallowed source"] ?? 0 >= before + 3)
            #expect(try both.ben.pings("203.0.113.7", patience: 9))
            try await both.scene.stop()
        }

        /// Sends in both directions until no datagram has arrived for a while.
        /// - Returns: The time from the beginning to the last datagram, in each direction.
        private func lastDatagrams(
            _ client: GatewayClient, _ router: Namespace, from address: String, _ begin: () throws -> Void
        ) throws -> (up: Duration, down: Duration) {
            let server = try TestSocket.datagrams(in: router, at: "203.0.113.7", port: 7100)
            let socket = try TestSocket.datagrams(in: client.namespace, at: address)
            let there = try SocketAddress("203.0.113.7", 7100)
            socket.send([1], to: there)
            let back = try #require(server.receive()).source
            server.send([2], to: back)
            _ = try #require(socket.receive())
            try begin()
            let began = ContinuousClock.now
            var (up, down) = (Duration.zero, Duration.zero)
            while true {
                let elapsed = ContinuousClock.now - began
                guard elapsed - max(up, down) < .milliseconds(700), elapsed < .seconds(10) else { break }
                socket.send([3], to: there)
                server.send([4], to: back)
                let readable = Poll.readable(
                    [socket.descriptor, server.descriptor], before: .now + .milliseconds(2))
                if readable.contains(server.descriptor), server.receive(within: .zero) != nil {
                    up = ContinuousClock.now - began
                }
                if readable.contains(socket.descriptor), socket.receive(within: .zero) != nil {
                    down = ContinuousClock.now - began
                }
            }
            return (up, down)
        }

        @Test("A removed client is cut off within a second, in both directions, without effect on others")
        func revoked() async throws {
            let both = try await Both()
            let router = both.scene.world.router
            for client in [both.anna, both.ben] { #expect(try client.pings("203.0.113.7", patience: 9)) }
            let flow = try HeldFlow(from: both.ben.namespace, to: router, at: "203.0.113.7", port: 7001)
            let handshakes = both.scene.figures.handshakes
            let last = try lastDatagrams(both.anna, router, from: "10.66.0.2") { both.scene.source.remove(both.annaID) }
            print("gateway: cut off \(last.up) (from the client) and \(last.down) (to it) after the device was removed")
            #expect(last.up < .seconds(1) && last.down < .seconds(1))
            #expect(try !both.anna.pings("10.66.0.1"))
            #expect(flow.carries(fromNear: true) && flow.carries(fromNear: false))
            #expect(both.scene.figures.handshakes == handshakes && both.scene.figures.peers == 1)
            // The counters up to this point are not lost.
            try await both.scene.stop()
            #expect(try #require(both.scene.source.activity(both.annaID)).traffic.received > 0)
        }

        @Test("A device that expires is cut off within a second, and is in again as soon as it is renewed")
        func expired() async throws {
            let both = try await Both()
            #expect(try both.anna.pings("203.0.113.7", patience: 9))
            let last = try lastDatagrams(both.anna, both.scene.world.router, from: "10.66.0.2") {
                both.scene.source.expire(both.annaID, at: .now + .milliseconds(300))
            }
            print("gateway: cut off \(last.up - .milliseconds(300)) after the device had expired")
            #expect(last.up < .milliseconds(1300) && last.down < .milliseconds(1300))
            try both.scene.source.set(
                both.annaID, key: both.anna.key.publicKey, presharedKey: both.anna.presharedKey,
                addresses: ["10.66.0.2", "fd66::2"])
            try both.scene.settled()
            both.anna.device.requestHandshake(with: both.scene.source.serverKeys.current.publicKey)
            #expect(try both.anna.pings("203.0.113.7", patience: 9))
            try await both.scene.stop()
        }

        @Test("Rules block and allow in both directions, and a subnet behind a peer is reached and reaches")
        func rules() async throws {
            let both = try await Both()
            let (source, router) = (both.scene.source, both.scene.world.router)
            for client in [both.anna, both.ben] { #expect(try client.pings("203.0.113.7", patience: 9)) }
            let flow = try HeldFlow(from: both.anna.namespace, to: router, at: "203.0.113.7", port: 7001)
            let other = try HeldFlow(from: both.anna.namespace, to: router, at: "203.0.113.7", port: 7002)
            source.setRules(
                both.annaID,
                [AccessRule(.deny, networks: [try IPPrefix("203.0.113.0/24")], transport: .tcp, ports: [7001...7001])])
            try both.ben.namespace.run("ip", "address", "add", "192.168.50.2/32", "dev", "lo")
            try source.set(
                both.benID, key: both.ben.key.publicKey, addresses: ["10.66.0.3", "fd66::3"],
                subnets: ["192.168.50.0/24"],
                rules: [
                    AccessRule(
                        .allow, direction: .in, networks: [try IPPrefix("10.66.0.2")], transport: .tcp,
                        ports: [445...445])
                ])
            try both.scene.settled()
            #expect(flow.ends(writingAt: true))
            #expect(other.carries(fromNear: false) && other.carries(fromNear: true))
            #expect(try both.ben.pings("203.0.113.7", source: "192.168.50.2", patience: 9))
            let share = try HeldFlow(from: both.anna.namespace, to: both.ben.namespace, at: "192.168.50.2", port: 445)
            #expect(share.carries(fromNear: true) && share.carries(fromNear: false))
            #expect(try !both.anna.pings("192.168.50.2"))
            source.setRules(both.benID, [])
            try both.scene.settled()
            #expect(share.ends(writingAt: true))
            try await both.scene.stop()
        }

        @Test("Three hundred peers come and go, and a flow through the gateway loses nothing")
        func comeAndGo() async throws {
            let both = try await Both()
            #expect(try both.ben.pings("203.0.113.7", patience: 9))
            let flow = try HeldFlow(
                from: both.ben.namespace, to: both.scene.world.router, at: "203.0.113.7", port: 7001)
            var generator = SystemRandomNumberGenerator()
            var (ids, longest): ([DeviceID], Duration) = ([], .zero)
            for number in 0..<300 {
                let key = PrivateKey(using: &generator).publicKey
                ids.append(
                    try both.scene.source.set(key: key, addresses: ["10.66.\(1 + number / 250).\(number % 250)"]))
                if number >= 100 { both.scene.source.remove(ids[number - 100]) }
                let began = ContinuousClock.now
                try #require(flow.carries(fromNear: true) && flow.carries(fromNear: false))
                longest = max(longest, ContinuousClock.now - began)
            }
            try both.scene.settled()
            print("gateway: 300 peers came and 200 went; the longest round trip meanwhile took \(longest)")
            #expect(both.scene.figures.peers == 102)
            try await both.scene.stop()
        }

        @Test("A restarted gateway has its peers, and their counters continue")
        func restarted() async throws {
            let both = try await Both()
            let source = both.scene.source
            let snapshot = try both.scene.world.router.run("ip", "-j", "route").output
            #expect(try both.anna.pings("203.0.113.7", patience: 9))
            try await both.scene.stop()
            let first = try #require(source.activity(both.annaID))
            #expect(first.traffic.received > 0 && first.traffic.sent > 0 && first.lastSeenAt != nil)
            #expect(first.endpoint?.description == "198.51.100.2:\(both.anna.device.listenPort ?? 0)")
            #expect(try both.scene.world.router.run("ip", "-j", "route").output == snapshot)
            try await both.scene.start()
            #expect(both.scene.figures.peers == 2)
            both.anna.device.requestHandshake(with: source.serverKeys.current.publicKey)
            #expect(try both.anna.pings("203.0.113.7", patience: 9))
            try await both.scene.stop()
            let second = try #require(source.activity(both.annaID))
            #expect(second.traffic.received > first.traffic.received && second.traffic.sent > first.traffic.sent)
        }

        @Test("With another server key, clients that adopted it continue, and others are cut off until they do")
        func serverKey() async throws {
            let both = try await Both()
            let source = both.scene.source
            for client in [both.anna, both.ben] { #expect(try client.pings("203.0.113.7", patience: 9)) }
            var generator = SystemRandomNumberGenerator()
            let next = PrivateKey(using: &generator)
            source.use(next)
            try both.scene.settled()
            try both.anna.use(next.publicKey)
            let began = ContinuousClock.now
            #expect(try both.anna.pings("203.0.113.7", patience: 9))
            print("gateway: the first packet under the next server key came back after \(ContinuousClock.now - began)")
            #expect(try !both.ben.pings("203.0.113.7"))
            try both.ben.use(next.publicKey)
            #expect(try both.ben.pings("203.0.113.7", patience: 9))
            try await both.scene.stop()
        }
    }
#endif
