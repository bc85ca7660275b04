// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import Testing
    import WireGuardCore

    @testable import TunnelIO
    @testable import WireGuardDevice

    @Suite("Memory budget under load", .timeLimit(.minutes(5)))
    struct MemoryBudgetLoadTests {
        @Test("240 peers in 8 MiB: a burst at full speed stays within, and the memory for it goes back")
        func burst() async {
            // In a separate process: no freed memory of other tests is reused, and none of their memory counts.
            await #expect(processExitsWith: .success) {
                try MemoryLoad().run()
            }
        }

        @Test("A peer with three sessions takes no more than the budget counts for it")
        func peers() async {
            await #expect(processExitsWith: .success) {
                try MemoryLoad.checkPeerCost()
            }
        }
    }

    /// A device with 240 peers in the budget of an app extension, on an internet in memory, and those peers.
    private final class MemoryLoad {
        private static let peerCount = 240
        private static let port: UInt16 = 51_820

        private let key: PrivateKey
        private let tun: MemoryTun
        private let internet: MemoryInternet
        private let network: MemoryDatagramNetwork
        private let remotes: RemotePeers
        private let remote: any DatagramSocket
        private let batch: PacketBatch
        /// The device of the peers' earlier sessions. It is kept, so that its memory is not reused.
        private let before = EngineBox(Engine(random: SeededGenerator(seed: 2)))
        private var largest = 0
        private var baseline = 0

        init() throws {
            var random = SeededGenerator(seed: 40)
            key = PrivateKey(using: &random)
            tun = try MemoryTun(mtu: 1420, queueCapacity: 256, byteCapacity: 256 << 10)
            // The replacement of the kernel's queues is small, because its memory counts here.
            internet = MemoryInternet(queueLimit: 64)
            network = internet.attach([.v4(1)])
            remotes = RemotePeers(Self.peerCount, of: key.publicKey, using: &random)
            let host = internet.attach((0..<Self.peerCount).map { .v4(RemotePeers.address($0)) })
            remote = try #require(try host.bind(port: Self.port, mark: 0).v4)
            batch = try PacketBatch(packetCapacity: 64, byteCapacity: 64 * 2_048)
        }

        /// Anonymous memory of this process, in bytes.
        private static func anonymousBytes() throws -> Int {
            let text = try String(contentsOfFile: "/proc/self/smaps_rollup", encoding: .utf8)
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("Anonymous:") })
            return try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) }) << 10
        }

        /// Prints a figure on request: the output of an exit test's process is lost.
        private static func note(_ text: String) {
            guard let path = ProcessInfo.processInfo.environment["CULVERT_MEMORY_FIGURES"] else { return }
            guard let file = FileHandle(forUpdatingAtPath: path) else { return }
            _ = try? file.seekToEnd()
            file.write(Data((text + "\n").utf8))
        }

        private func measure() throws {
            let now = try Self.anonymousBytes()
            largest = max(largest, now)
            Self.note("\((now - baseline) >> 10) KiB")
        }

        func run() throws {
            // The peers have had all their sessions before, so the device causes later growth.
            try remotes.exhaust(&before.engine, key, rounds: 1)
            for number in 0..<600 { tun.inject(packet(to: number)) }
            _ = try tun.receive(into: batch)
            for index in 0..<64 {
                batch.removeAll()
                batch.append(offset: index * 2_048, length: 2_048)
            }
            PageAdvice.trimHeap()
            baseline = try Self.anonymousBytes()

            var options = WireGuardDevice.Options(budget: .extension)
            options.lane.pageReturnDelay = .milliseconds(200)
            let device = try WireGuardDevice(tun: tun, network: network, options: options)
            defer { device.close() }
            unsafe tun.onDeliver = { _ in }
            try configure(device)
            try device.start()
            try measure()

            // There are no answers yet: packets wait up to their bounds, and the rest is dropped and counted.
            for number in 0..<20_000 {
                inject(number)
                if number % 1_000 == 0 { try measure() }
            }
            // The device takes what its queue holds at that time, which may be less than was sent.
            var further = 20_000
            while device.statistics.drops["staged over budget"] == 0, further < 1_000_000 {
                inject(further)
                further += 1
                if further % 64 == 0 { sched_yield() }
            }
            try measure()
            var drops = device.statistics.drops
            #expect(drops["staged over budget"] ?? 0 > 0)
            #expect(drops["no peer"] == 0)

            // They begin themselves, three times, so that each has all the sessions that a peer can have.
            for _ in 0..<3 {
                remotes.advance(by: .seconds(6))
                for number in 0..<Self.peerCount {
                    let answered = device.engineStatistics.responsesSent
                    send(remotes.initiate(number, 1), number)
                    pump { device.engineStatistics.responsesSent > answered }
                }
                try measure()
            }
            pump { device.peers.allSatisfy { $0.hasSession } }
            #expect(device.peers.count { $0.hasSession } == Self.peerCount)

            // In both directions at the same time, as fast as possible.
            for number in 0..<40_000 {
                inject(number)
                if number % 4 == 0 {
                    let peer = number / 4 % Self.peerCount
                    send(remotes.send(1_300, from: peer), peer)
                }
                if number % 32 == 0 { pumpOnce() }
                if number % 2_000 == 0 { try measure() }
            }
            try measure()
            drops = device.statistics.drops
            #expect(device.statistics.lane.toNetwork.packets > 10_000)
            #expect(device.statistics.engine.packetsReceived > 1_000)
            #expect(drops["decryption failures"] == 0)

            // A client of the management socket that asks for everything.
            var session = device.makeUAPISession()
            var output: [UInt8] = []
            let request = Array("get=1\n\n".utf8)
            for _ in 0..<3 {
                _ = unsafe request.withUnsafeBytes { unsafe session.receive($0, replyingInto: &output) }
                try measure()
            }
            #expect(output.count > 3 * 240 * 100)
            output = []

            let used = largest - baseline
            Self.note("\(MemoryBudget.extension)\n\(device.statistics)")
            Self.note("memory of 240 peers in .extension: \(used >> 10) KiB at most beyond the program")
            #expect(used <= MemoryBudget.extension.byteCount)
            #expect(used > 1 << 20, "something was measured")

            // All sessions remain, and the burst's pages are released, possibly before this check.
            let base = baseline
            pump { device.statistics.lane.pageReturns > 0 && ((try? Self.anonymousBytes()) ?? .max) - base < used }
            #expect(device.statistics.lane.pageReturns > 0)
            let after = try Self.anonymousBytes() - baseline
            Self.note("afterwards: \(after >> 10) KiB")
            #expect(after < used)
            #expect(device.peers.count { $0.hasSession } == Self.peerCount)
        }

        private func configure(_ device: WireGuardDevice) throws {
            var update = UAPIDeviceUpdate()
            update.privateKey = .set(key)
            update.listenPort = Self.port
            update.peers = try (0..<Self.peerCount).map { number in
                var peer = UAPIPeerUpdate(publicKey: remotes.publicKey(number))
                peer.endpoint = Endpoint(address: .v4(RemotePeers.address(number)), port: Self.port)
                peer.allowedIPs = [.add(try #require(IPPrefix(.v4(RemotePeers.inner(number)), length: 32)))]
                return peer
            }
            try device.apply(update)
        }

        // MARK: Traffic

        private func packet(to number: Int) -> [UInt8] {
            TestTraffic.packet(from: 0x0a00_0001, to: RemotePeers.inner(number % Self.peerCount), byteCount: 1_400)
        }

        /// Offers a packet to the device; when its queue is full, it is another thread's turn.
        private func inject(_ number: Int) {
            if !tun.inject(packet(to: number)) { sched_yield() }
        }

        private func send(_ datagrams: [[UInt8]], _ number: Int) {
            for datagram in datagrams {
                batch.removeAll()
                var endpoint = Endpoint(address: .v4(1), port: Self.port)
                endpoint.source.low = UInt64(RemotePeers.address(number))
                batch.append(copying: datagram, endpoint: endpoint)
                _ = try? remote.send(batch, in: 0..<1)
            }
        }

        /// Delivers the device's datagrams to the peers, and sends their answers.
        private func pumpOnce() {
            let incoming = batch
            incoming.removeAll()
            guard let count = try? remote.receive(into: incoming), count > 0 else { return }
            let datagrams = (0..<count).map { (incoming.copy(of: $0), incoming[endpoint: $0].source.low) }
            for (bytes, address) in datagrams {
                let number = RemotePeers.number(UInt32(truncatingIfNeeded: address))
                send(remotes.receive(bytes, at: number), number)
            }
        }

        private func pump(until condition: () -> Bool) {
            let end = ContinuousClock.now + patience
            while !condition(), ContinuousClock.now < end {
                pumpOnce()
                sched_yield()
            }
        }

        // MARK: The cost of a peer

        /// Compares the memory of an engine's peers with the budget's figures.
        static func checkPeerCost() throws {
            var random = SeededGenerator(seed: 41)
            let key = PrivateKey(using: &random)
            let count = 200
            let remotes = RemotePeers(count, of: key.publicKey, using: &random)
            var first = Engine(random: SeededGenerator(seed: 2))
            try remotes.exhaust(&first, key)
            PageAdvice.trimHeap()
            let before = try anonymousBytes()
            var second = Engine(random: SeededGenerator(seed: 3))
            try remotes.exhaust(&second, key)
            PageAdvice.trimHeap()
            let each = (try anonymousBytes() - before) / count
            note("a peer with three sessions takes \(each) bytes")
            #expect(each <= MemoryCost.peer)
            #expect(each > 2_048, "something was measured")
            #expect(first.peerCount == count && second.peerCount == count)
        }
    }

    private enum TestTraffic {
        static func packet(from source: UInt32, to destination: UInt32, byteCount: Int) -> [UInt8] {
            PacketBuilder.udp(
                from: .v4(source), port: 1, to: .v4(destination), port: 2,
                payload: [UInt8](repeating: 0x77, count: byteCount - 28))
        }
    }

    private final class EngineBox {
        var engine: Engine
        init(_ engine: consuming Engine) { self.engine = engine }
    }

    /// The other ends: an engine for each, under their own clock.
    private final class RemotePeers {
        private let remotes: [EngineBox]
        private let keys: [PublicKey]
        private let device: PublicKey
        private var now = Instant(nanoseconds: 1_000_000_000)
        private var wall = WallTime(seconds: 1_000)

        static func address(_ number: Int) -> UInt32 { 0xc000_0200 + UInt32(number) }
        static func number(_ address: UInt32) -> Int { Int(address &- 0xc000_0200) }
        static func inner(_ number: Int) -> UInt32 { 0x0a01_0000 + UInt32(number) }

        init(_ count: Int, of device: PublicKey, using random: inout SeededGenerator) {
            self.device = device
            var keys: [PublicKey] = []
            var remotes: [EngineBox] = []
            for number in 0..<count {
                let key = PrivateKey(using: &random)
                keys.append(key.publicKey)
                var engine = Engine(random: SeededGenerator(seed: UInt64(1_000 + number)))
                engine.setPrivateKey(key)
                engine.setUp(true, at: now, wall: wall)
                engine.addPeer(device)
                engine.setEndpoint(Endpoint(address: .v4(1), port: 51_820), of: device)
                if let all = IPPrefix(.v4(0), length: 0) { engine.addAllowedIP(all, to: device) }
                remotes.append(EngineBox(engine))
            }
            self.keys = keys
            self.remotes = remotes
        }

        func publicKey(_ number: Int) -> PublicKey { keys[number] }

        func advance(by time: Duration) {
            now = now + time
            wall.seconds += time.components.seconds
        }

        /// Makes a remote start a handshake, with any sessions.
        func initiate(_ number: Int, _ length: Int) -> [[UInt8]] {
            let remote = remotes[number]
            // An expired session counts as none.
            remote.engine.setUp(false, at: now, wall: wall)
            remote.engine.setUp(true, at: now, wall: wall)
            return send(28 + length, from: number)
        }

        func send(_ byteCount: Int, from number: Int) -> [[UInt8]] {
            let packet = TestTraffic.packet(from: Self.inner(number), to: 0x0a00_0001, byteCount: byteCount)
            return remotes[number].engine.send(packet, at: now, wall: wall).map(\.bytes)
        }

        func receive(_ bytes: [UInt8], at number: Int) -> [[UInt8]] {
            guard remotes.indices.contains(number) else { return [] }
            let source = Endpoint(address: .v4(1), port: 51_820)
            _ = remotes[number].engine.receive(bytes, from: source, at: now, wall: wall)
            return remotes[number].engine.drainAll(at: now, wall: wall).map(\.bytes)
        }

        /// Makes three sessions with each remote, the device's end being `engine`.
        func exhaust(_ engine: inout Engine, _ key: PrivateKey, rounds: Int = 4) throws {
            engine.setPrivateKey(key)
            engine.setUp(true, at: now, wall: wall)
            for key in keys { engine.addPeer(key) }
            for number in keys.indices {
                let prefix = try #require(IPPrefix(.v4(Self.inner(number)), length: 32))
                engine.addAllowedIP(prefix, to: keys[number])
            }
            for round in 0..<rounds {
                advance(by: .seconds(6))
                for number in keys.indices {
                    // Fewer in a second than make an engine ask for cookies.
                    now = now + .milliseconds(2)
                    let source = Endpoint(address: .v4(Self.address(number)), port: 51_820)
                    var waiting = initiate(number, 1)
                    // The last one is left unconfirmed, as the next session, in addition to the current and the previous one.
                    while let datagram = waiting.popLast() {
                        _ = engine.receive(datagram, from: source, at: now, wall: wall)
                        for answer in engine.drainAll(at: now, wall: wall) where round < 3 || rounds < 4 {
                            waiting += receive(answer.bytes, at: number)
                        }
                    }
                }
            }
        }
    }
#endif
