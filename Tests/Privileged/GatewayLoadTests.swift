// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import Synchronization
    import Testing
    import TunnelIO
    import WireGuardCore
    import WireGuardDevice

    @testable import Gateway

    /// `CULVERT_GATEWAY_LOAD=1` is for an optimised build. The number of peers is then that of a full gateway, and the
    /// results are compared with the targets.
    @Suite("Load on a gateway's tunnel", .enabled(if: Privileged.isAvailable), .serialized, .timeLimit(.minutes(10)))
    struct GatewayLoadTests {
        private static let isEarnest = ProcessInfo.processInfo.environment["CULVERT_GATEWAY_LOAD"] == "1"

        /// The throughput of one TCP connection, in Gbit/s.
        private func throughput(from namespace: Namespace, isDown: Bool, seconds: Int) throws -> Double {
            var command = [
                "ip", "netns", "exec", namespace.name, "iperf3", "-J", "-c", "203.0.113.7", "-t", "\(seconds)",
            ]
            if isDown { command.append("-R") }
            let output = try PrivilegedTests.run(command, deadline: .seconds(20 + seconds)).output
            let report = try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any]
            let received = (report?["end"] as? [String: Any])?["sum_received"] as? [String: Any]
            return try #require(received?["bits_per_second"] as? Double) / 1e9
        }

        @Test("One client through translation and firewall is nearly as quick as through a tunnel without them")
        func firewallCost() async throws {
            let (with, without) = (try GatewayTunnelScene(), try GatewayTunnelScene())
            // The same tunnel and routes, but without translation and firewall.
            let key = without.source.serverKeys.current
            let client = try GatewayClient(in: without.anna, addresses: ["10.66.0.2"])
            let bare = try BareServer(in: without.world.host, key: key, client: client.key.publicKey)
            defer { bare.device.close() }
            try without.world.router.run("ip", "route", "add", "10.66.0.0/16", "via", "192.0.2.2")
            try client.use(key.publicKey)
            let other = try GatewayClient(in: with.anna, addresses: ["10.66.0.2"])
            try with.source.set(key: other.key.publicKey, addresses: ["10.66.0.2"])
            try await with.start()
            try other.use(with.source.serverKeys.current.publicKey)
            for client in [client, other] { #expect(try client.pings("203.0.113.7", patience: 9)) }
            let servers = try [with, without].map { try $0.world.router.start("iperf3", "-s", "--forceflush") }
            defer { for server in servers { server.kill() } }
            for server in servers { try server.waitForOutput(containing: "Server listening") }
            var ratios: [Double] = []
            var figures: [String] = []
            for round in 0..<(Self.isEarnest ? 10 : 2) {
                let isDown = round % 2 == 1
                let plain = try throughput(from: without.anna, isDown: isDown, seconds: Self.isEarnest ? 3 : 1)
                let judged = try throughput(from: with.anna, isDown: isDown, seconds: Self.isEarnest ? 3 : 1)
                ratios.append(judged / plain)
                figures.append(String(format: "%@ %.2f/%.2f", isDown ? "down" : "up", judged, plain))
            }
            ratios.sort()
            print(
                "load: Gbit/s with / without translation and firewall: \(figures.joined(separator: ", ")); median ratio "
                    + String(format: "%.3f", ratios[ratios.count / 2]))
            if Self.isEarnest { #expect(ratios[ratios.count / 2] >= 0.9) }
            try await with.stop()
        }

        @Test("Among thousands of idle peers and many busy ones a client is served, and one that is removed is cut off")
        func crowd() async throws {
            let (count, busy) = Self.isEarnest ? (10_000, 100) : (300, 20)
            let scene = try GatewayTunnelScene()
            let anna = try GatewayClient(in: scene.anna, addresses: ["10.66.0.2"])
            let id = try scene.source.set(key: anna.key.publicKey, addresses: ["10.66.0.2"])
            try await scene.start()
            let key = scene.source.serverKeys.current.publicKey
            try anna.use(key)
            #expect(try anna.pings("203.0.113.7", patience: 9))
            let before = try roundTrip(anna)
            let crowd = try GatewayCrowd(count, in: scene.ben, gateway: key)
            let memory = Self.memory
            let clock = ContinuousClock()
            let joined = try clock.measure {
                for (number, key) in crowd.keys.enumerated() {
                    try scene.source.set(key: key, addresses: [GatewayCrowd.address(number)])
                }
                try scene.settled()
            }
            let added = Self.memory - memory
            let connected = try clock.measure { try crowd.connect() }
            // Idle peers send keepalives; busy peers send without pause.
            crowd.begin(busy: busy)
            let among = try roundTrip(anna)
            let sent = crowd.end()
            #expect(scene.figures.peers == count + 1 && scene.figures.online == count + 1)
            let removed = try clock.measure {
                scene.source.remove(id)
                try eventually("the client is cut off", within: .seconds(5), pollEvery: .milliseconds(1)) {
                    scene.figures.peers == count
                }
            }
            #expect(try !anna.pings("203.0.113.7"))
            #expect(removed < .seconds(1))
            print(
                "load: \(count) peers in force within \(joined) for \(added) KiB, their handshakes within \(connected); a round "
                    + "trip took \(before) ms alone, \(among) ms beside \(busy) busy ones (\(sent) datagrams); one was removed "
                    + "within \(removed); dropped: \(scene.figures.drops)")
            try await scene.stop()
        }

        /// The mean round trip of 200 pings, in milliseconds.
        private func roundTrip(_ client: GatewayClient) throws -> Double {
            let output = try client.namespace.run(
                "ping", "-n", "-q", "-c", "200", "-i", "0.005", "203.0.113.7", deadline: .seconds(60)
            ).output
            let figures = output.split(separator: " = ").last?.split(separator: "/") ?? []
            return try #require(figures.count > 1 ? Double(figures[1]) : nil)
        }

        /// The resident memory of the process, in KiB.
        private static var memory: Int {
            let text = DaemonRemains.status("RssAnon", of: getpid()) ?? ""
            return text.split(separator: " ").first.flatMap { Int($0) } ?? 0
        }
    }

    /// The other end of a tunnel, without translation and firewall.
    private struct BareServer {
        let device: WireGuardDevice

        init(in namespace: Namespace, key: PrivateKey, client: PublicKey) throws {
            try namespace.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
            device = try namespace.perform {
                let options = WireGuardDevice.Options(dataPath: DataPathOptions(layout: .server))
                let tun = try LinuxTun(name: "bare0", mtu: 1400, isMultiQueue: options.layout.needsQueues)
                try tun.setUp(true)
                let device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork(), options: options)
                var update = UAPIDeviceUpdate()
                update.privateKey = .set(key)
                update.listenPort = 51_820
                var peer = UAPIPeerUpdate(publicKey: client)
                peer.allowedIPs = [.add(try IPPrefix("10.66.0.2"))]
                update.peers = [peer]
                try device.apply(update)
                try device.start()
                return device
            }
            try namespace.run("ip", "address", "add", "10.66.0.1/16", "dev", "bare0")
        }
    }

    /// Many peers of one gateway that share one address. Each has its own engine.
    private final class GatewayCrowd: @unchecked Sendable {
        // Unchecked: only the test's thread uses it, or between `begin` and `end` only the other thread.
        private final class Member {
            var engine: Engine
            let greeting: [UInt8]
            init(_ engine: consuming Engine, _ greeting: [UInt8]) {
                self.engine = engine
                self.greeting = greeting
            }
        }

        let keys: [PublicKey]
        private let members: [Member]
        private let socket: TestSocket
        private let gateway: SocketAddress
        private let endpoint: Endpoint
        /// The member that created each session index.
        private var owners: [UInt32: Int] = [:]
        private let isStopped = Atomic(false)
        private let ended = DispatchSemaphore(value: 0)
        private var sent = 0

        static func address(_ number: Int) -> String { IPAddress.v4(0x0a42_1000 + UInt32(number)).description }

        init(_ count: Int, in namespace: Namespace, gateway: PublicKey) throws {
            var generator = SeededGenerator(seed: 99)
            let endpoint = try Endpoint(GatewayTunnelScene.endpoint)
            self.endpoint = endpoint
            self.gateway = try SocketAddress("192.0.2.2", 51_820)
            socket = try TestSocket.datagrams(in: namespace, at: "0.0.0.0")
            var (keys, members): ([PublicKey], [Member]) = ([], [])
            for number in 0..<count {
                let key = PrivateKey(using: &generator)
                keys.append(key.publicKey)
                var engine = Engine(random: SystemRandomNumberGenerator())
                engine.setPrivateKey(key)
                engine.addPeer(gateway)
                engine.setEndpoint(endpoint, of: gateway)
                engine.addAllowedIP(.allIPv4, to: gateway)
                let source = IPAddress.v4(0x0a42_1000 + UInt32(number))
                members.append(
                    Member(
                        engine,
                        PacketBuilder.udp(
                            from: source, port: 9, to: .v4(203, 0, 113, 7), port: 9,
                            payload: [UInt8](repeating: 0, count: 400))))
            }
            (self.keys, self.members) = (keys, members)
        }

        private var now: Instant { Instant(nanoseconds: LaneClock.now()) }
        private var wall: WallTime { WallTime(seconds: Int64(Date().timeIntervalSince1970)) }

        private func post(_ datagrams: [OutgoingDatagram], of number: Int) {
            for datagram in datagrams {
                if datagram.bytes.first == 1, datagram.bytes.count >= 8 {
                    owners[Self.index(datagram.bytes, at: 4)] = number
                }
                if socket.send(datagram.bytes, to: gateway) { sent += 1 }
            }
        }

        private static func index(_ bytes: [UInt8], at offset: Int) -> UInt32 {
            (0..<4).reduce(0) { $0 | UInt32(bytes[offset + $1]) << (8 * UInt32($1)) }
        }

        private func receive(within patience: Duration) {
            guard let (bytes, _) = socket.receive(within: patience), bytes.count >= 12 else { return }
            let index = Self.index(bytes, at: bytes[0] == 2 ? 8 : 4)
            guard let number = owners[index] else { return }
            let member = members[number]
            _ = member.engine.receive(bytes, from: endpoint, at: now, wall: wall)
            post(member.engine.drainAll(at: now, wall: wall), of: number)
        }

        /// Creates a session for each member. Lost datagrams are sent again.
        func connect() throws {
            for member in members { member.engine.setUp(true, at: now, wall: wall) }
            var isDone = [Bool](repeating: false, count: members.count)
            for start in stride(from: 0, to: members.count, by: 32) {
                let chunk = start..<min(start + 32, members.count)
                for number in chunk {
                    let member = members[number]
                    post(member.engine.send(member.greeting, at: now, wall: wall), of: number)
                }
                let end = ContinuousClock.now + .seconds(20)
                while let number = chunk.first(where: { !isDone[$0] }) {
                    if members[number].engine.statistics.handshakesCompleted > 0 {
                        isDone[number] = true
                        continue
                    }
                    guard ContinuousClock.now < end else {
                        throw CommandFailure(description: "peer \(number) has no session")
                    }
                    receive(within: .milliseconds(20))
                    for number in chunk {
                        let member = members[number]
                        guard let deadline = member.engine.nextDeadline, deadline <= now else { continue }
                        member.engine.deadlineReached(at: now, wall: wall)
                        post(member.engine.drainAll(at: now, wall: wall), of: number)
                    }
                }
            }
        }

        /// Makes some members send all the time, and the others occasionally, until ``end()``.
        func begin(busy: Int) {
            sent = 0
            Thread.detachNewThread { [self] in
                var next = 0
                while !isStopped.load(ordering: .relaxed) {
                    for number in 0..<min(busy, members.count) {
                        let member = members[number]
                        post(member.engine.send(member.greeting, at: now, wall: wall), of: number)
                    }
                    // At forty rounds per second every member has sent within 25 seconds.
                    for _ in 0..<max(members.count / 1000, 1) {
                        next = (next + 1) % members.count
                        let member = members[next]
                        post(member.engine.send(member.greeting, at: now, wall: wall), of: next)
                    }
                    receive(within: .milliseconds(25))
                }
                ended.signal()
            }
        }

        /// - Returns: The number of datagrams that were sent since ``begin(busy:)``.
        func end() -> Int {
            isStopped.store(true, ordering: .relaxed)
            ended.wait()
            return sent
        }
    }
#endif
