// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import PacketTunnel
    import PacketTunnelTesting
    import Testing
    import WireGuardCore
    import WireGuardDevice

    @testable import TunnelIO
    @testable import WireGuardTunnel

    @Suite("The provider's memory", .timeLimit(.minutes(5)))
    struct ProviderMemoryTests {
        @Test("240 peers and a burst at full speed stay within 8 MiB in a memory host")
        func burst() async {
            // In a process of its own: nothing that other tests freed is used again, and nothing of theirs is counted.
            await #expect(processExitsWith: .success) {
                try await ProviderLoad().run()
            }
        }
    }

    /// A provider with 240 peers, and those peers.
    private final class ProviderLoad {
        static let peerCount = 240
        static let port: UInt16 = 51_820

        private let internet = MemoryInternet(queueLimit: 64)
        private let host: MemoryHost<WireGuardTunnelProvider>
        private let configuration: WireGuardTunnelConfiguration
        private let remotes: Remotes
        private let socket: any DatagramSocket
        private let batch: PacketBatch
        private var baseline = 0
        private var largest = 0

        init() throws {
            var random = SeededGenerator(seed: 50)
            let key = PrivateKey(using: &random)
            let secret = key.secret.withSpan { span in SecretBytes(span.indices.map { span[$0] }) }
            var environment = WireGuardEnvironment()
            environment.network = internet.attach([.v4(1)])
            let used = environment
            host = MemoryHost(secrets: MemorySecrets(["private-key": secret])) {
                WireGuardTunnelProvider(environment: used)
            }
            host.platform.connect(to: VirtualNetwork(prefixes: []))
            let remotes = Remotes(Self.peerCount, of: key, using: &random)
            self.remotes = remotes
            let remoteHost = internet.attach((0..<Self.peerCount).map { .v4(Remotes.address($0)) })
            socket = try #require(try remoteHost.bind(port: Self.port, mark: 0).v4)
            batch = try PacketBatch(packetCapacity: 64, byteCapacity: 64 * 2_048)
            configuration = WireGuardTunnelConfiguration(
                addresses: [NetworkPrefix(host: .v4(10, 0, 0, 1))],
                peers: (0..<Self.peerCount).map { number in
                    .init(
                        publicKey: remotes.keys[number].base64,
                        endpoint: "\(NetworkAddress.v4(Remotes.address(number))):\(Self.port)",
                        allowedIPs: [NetworkPrefix(host: .v4(Remotes.inner(number)))])
                })
        }

        /// Anonymous memory of this process, in bytes.
        private static func anonymousBytes() throws -> Int {
            let text = try String(contentsOfFile: "/proc/self/smaps_rollup", encoding: .utf8)
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("Anonymous:") })
            return try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) }) << 10
        }

        private func measure() throws { largest = max(largest, try Self.anonymousBytes() - baseline) }

        /// Says a figure where it is asked for: what is printed in a process of an exit test goes nowhere else.
        private static func note(_ text: String) {
            guard let path = ProcessInfo.processInfo.environment["CULVERT_MEMORY_FIGURES"] else { return }
            guard let file = FileHandle(forUpdatingAtPath: path) else { return }
            _ = try? file.seekToEnd()
            file.write(Data((text + "\n").utf8))
        }

        func run() async throws {
            // Once before, so that what a process needs once is not counted, nor what the peers and queues here need.
            try await start()
            try await burst(4_000)
            await host.stop(.userInitiated)
            for index in 0..<64 {
                batch.removeAll()
                batch.append(offset: index * 2_048, length: 2_048)
            }
            PageAdvice.trimHeap()
            baseline = try Self.anonymousBytes()

            try await start()
            try measure()
            await pump { self.remotes.answered.count == Self.peerCount }
            try measure()
            try await burst(40_000)
            let message = try await MessageClient(channel: HostChannel(host: host)).send(StatusRequest())
            try measure()
            #expect(message.peers.count == Self.peerCount)
            #expect(message.peers.count { $0.lastHandshakeAge != nil } > Self.peerCount / 2)
            #expect(message.sentBytes > 1 << 20)
            Self.note("provider with 240 peers: \(largest >> 10) KiB at most beyond the program")
            #expect(largest <= MemoryBudget.extension.byteCount)
            #expect(largest > 1 << 20, "something was measured")
            await host.stop(.userInitiated)
        }

        private func start() async throws {
            remotes.reset()
            let (host, configuration) = (host, configuration)
            let starting = Task { try await host.runner.start(configuration, profileID: "test") }
            await pump { host.status.status == .connected || host.status.error != nil }
            try await starting.value
        }

        private func burst(_ count: Int) async throws {
            for number in 0..<count {
                let packet = PacketBuilder.udp(
                    from: .v4(10, 0, 0, 1), port: 1, to: .v4(Remotes.inner(number % Self.peerCount)), port: 2,
                    payload: [UInt8](repeating: 0x77, count: 1_372))
                if !host.platform.inject(packet) { await Task.yield() }
                if number % 32 == 0 { pumpOnce() }
                if number % 2_000 == 0 { try measure() }
            }
        }

        private func pump(until condition: () -> Bool) async {
            let end = ContinuousClock.now + .seconds(60)
            while !condition(), ContinuousClock.now < end {
                pumpOnce()
                await Task.yield()
            }
        }

        /// Gives the peers what the provider has sent them, and sends what they answer.
        private func pumpOnce() {
            batch.removeAll()
            guard let count = try? socket.receive(into: batch), count > 0 else { return }
            let datagrams = (0..<count).map {
                (batch.copy(of: $0), batch[endpoint: $0].sourceLow, batch[endpoint: $0].port)
            }
            for (bytes, address, port) in datagrams {
                let number = Int(UInt32(truncatingIfNeeded: address) &- Remotes.address(0))
                for answer in remotes.receive(bytes, at: number) {
                    batch.removeAll()
                    var endpoint = DatagramEndpoint(isIPv6: false, high: 0, low: 1, port: port)
                    endpoint.sourceLow = address
                    batch.append(copying: answer, endpoint: endpoint)
                    _ = try? socket.send(batch, in: 0..<1)
                }
            }
        }
    }

    /// The other ends: an engine for each, under a clock of their own.
    private final class Remotes {
        private final class Box {
            var engine: Engine
            init(_ engine: consuming Engine) { self.engine = engine }
        }

        let keys: [PublicKey]
        var answered: Set<Int> = []
        private let boxes: [Box]
        private let device: PublicKey
        private var now = Instant(nanoseconds: 1_000_000_000)
        private let wall = WallTime(seconds: 1_000)

        static func address(_ number: Int) -> UInt32 { 0xc000_0201 + UInt32(number) }
        static func inner(_ number: Int) -> UInt32 { 0x0a01_0000 + UInt32(number) }

        init(_ count: Int, of key: PrivateKey, using random: inout SeededGenerator) {
            device = key.publicKey
            var (keys, boxes): ([PublicKey], [Box]) = ([], [])
            for number in 0..<count {
                let own = PrivateKey(using: &random)
                keys.append(own.publicKey)
                var engine = Engine(random: SeededGenerator(seed: UInt64(5_000 + number)))
                engine.setPrivateKey(own)
                engine.setUp(true, at: now, wall: wall)
                engine.addPeer(device)
                boxes.append(Box(engine))
            }
            (self.keys, self.boxes) = (keys, boxes)
        }

        func reset() {
            answered = []
            now = now + .seconds(60)
        }

        func receive(_ bytes: [UInt8], at number: Int) -> [[UInt8]] {
            guard boxes.indices.contains(number) else { return [] }
            // Never so fast that it looks like a flood.
            now = now + .milliseconds(1)
            if bytes.first == 1 { answered.insert(number) }
            let source = Endpoint(address: IPAddress(v4: 1), port: 51_820)
            _ = boxes[number].engine.receive(bytes, from: source, at: now, wall: wall)
            return boxes[number].engine.drainAll(at: now, wall: wall).map(\.bytes)
        }
    }
#endif
