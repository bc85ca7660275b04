// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Synchronization
    import Testing
    import TunnelIO

    /// Offload on real sockets and devices: paths that refuse it, and descriptors that go away.
    @Suite("Segmentation offload on sockets and devices", .enabled(if: Privileged.isAvailable), .timeLimit(.minutes(5)))
    struct OffloadSocketTests {
        /// The cause of the underlay's MTU of 1280 bytes.
        enum Narrow: CaseIterable, Sendable {
            case link, route

            func script(_ isIPv6: Bool) -> String {
                let address = isIPv6 ? "fd09::2/128" : "10.9.0.2/32"
                switch self {
                case .link: return "ip link set a0 mtu 1280"
                case .route: return "ip route add \(address) dev a0 mtu 1280"
                }
            }
        }

        /// Two namespaces with a link in between.
        private struct Link {
            let near: Namespace
            let far: Namespace

            init() throws {
                near = try Namespace()
                far = try Namespace()
                try near.run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "a0", "netns", far.name)
                for (end, number) in [(near, 1), (far, 2)] {
                    try end.run(
                        "sh", "-ec",
                        """
                        ip link set a0 up; ip address add 10.9.0.\(number)/24 dev a0
                        ip address add fd09::\(number)/64 dev a0 nodad
                        """)
                }
            }
        }

        /// Returns datagrams of 1452 bytes, like those of full packets in a tunnel.
        private static func datagrams(_ count: Int, seed: UInt64) -> [[UInt8]] {
            let bytes = InteropTraffic.random(1452 * count, seed: seed)
            return (0..<count).map { Array(bytes[(1452 * $0)..<(1452 * $0 + 1452)]) }
        }

        private static func endpoint(_ isIPv6: Bool, _ port: UInt16) -> Endpoint {
            isIPv6
                ? Endpoint(address: .v6(0xfd09 << 48, 2), port: port)
                : Endpoint(address: .v4(0x0a09_0002), port: port)
        }

        private static func send(
            _ datagrams: [[UInt8]], to endpoint: Endpoint, through socket: LinuxUDPSocket
        ) throws -> DatagramSendResult {
            let batch = try PacketBatch(packetCapacity: datagrams.count, byteCapacity: 1452 * datagrams.count)
            for datagram in datagrams { batch.append(copying: datagram, endpoint: endpoint) }
            return try socket.send(batch, in: 0..<datagrams.count)
        }

        private static func receive(_ count: Int, from socket: LinuxUDPSocket) throws -> [[UInt8]] {
            let batch = try PacketBatch(packetCapacity: 512, byteCapacity: 1 << 20)
            var received: [[UInt8]] = []
            while received.count < count, Poll.isReadable(socket.readiness, before: .now + .seconds(5)) {
                batch.removeAll()
                _ = try socket.receive(into: batch)
                received += (0..<batch.count).map { batch.copy(of: $0) }
            }
            return received
        }

        @Test(
            "Over an underlay of 1280 bytes larger datagrams arrive in fragments, and only the first batch pays for finding out",
            arguments: Narrow.allCases, [false, true])
        func narrowUnderlay(_ narrow: Narrow, _ isIPv6: Bool) throws {
            let link = try Link()
            try link.near.run("sh", "-ec", narrow.script(isIPv6))
            let near = try link.near.perform { try LinuxUDPSocket(isIPv6: isIPv6, port: 0) }
            let far = try link.far.perform { try LinuxUDPSocket(isIPv6: isIPv6, port: 0) }
            let endpoint = Self.endpoint(isIPv6, far.port)
            for round in 0..<5 {
                let datagrams = Self.datagrams(40, seed: UInt64(round))
                let result = try Self.send(datagrams, to: endpoint, through: near)
                #expect(result == DatagramSendResult(sent: 40, bytes: 40 * 1452))
                #expect(try Self.receive(40, from: far) == datagrams)
                #expect(near.statistics.takenApart == 1)
            }
            // Short packets are still joined, and not refused.
            let short = (0..<40).map { _ in [UInt8](repeating: 7, count: 1000) }
            #expect(try Self.send(short, to: endpoint, through: near).sent == 40)
            #expect(try Self.receive(40, from: far) == short)
            #expect(near.statistics.takenApart == 1)
        }

        @Test("A path whose MTU shrinks while it is used still delivers", arguments: [false, true])
        func pathBecomesNarrow(_ isIPv6: Bool) throws {
            let link = try Link()
            let near = try link.near.perform { try LinuxUDPSocket(isIPv6: isIPv6, port: 0) }
            let far = try link.far.perform { try LinuxUDPSocket(isIPv6: isIPv6, port: 0) }
            let endpoint = Self.endpoint(isIPv6, far.port)
            let datagrams = Self.datagrams(40, seed: 1)
            #expect(try Self.send(datagrams, to: endpoint, through: near).sent == 40)
            #expect(try Self.receive(40, from: far) == datagrams)
            #expect(near.statistics.takenApart == 0)
            try link.near.run("sh", "-ec", Narrow.route.script(isIPv6))
            #expect(try Self.send(datagrams, to: endpoint, through: near).sent == 40)
            #expect(try Self.receive(40, from: far) == datagrams)
            #expect(near.statistics.takenApart == 1)
        }

        @Test(
            "Packets that the firewall refuses are dropped and counted, and no offload is disabled",
            arguments: [false, true])
        func firewall(_ isIPv6: Bool) throws {
            let link = try Link()
            try link.near.run("ip", isIPv6 ? "-6" : "-4", "rule", "add", "pref", "10", "fwmark", "7", "prohibit")
            let near = try link.near.perform { try LinuxUDPSocket(isIPv6: isIPv6, port: 0) }
            let far = try link.far.perform { try LinuxUDPSocket(isIPv6: isIPv6, port: 0) }
            let endpoint = Self.endpoint(isIPv6, far.port)
            let datagrams = Self.datagrams(40, seed: 1)
            try near.setMark(7)
            let refused = try Self.send(datagrams, to: endpoint, through: near)
            #expect(refused.sent == 0 && refused.dropped == 40 && refused.lastError == EACCES)
            try near.setMark(0)
            #expect(try Self.send(datagrams, to: endpoint, through: near).sent == 40)
            #expect(try Self.receive(40, from: far) == datagrams)
            #expect(near.statistics.takenApart == 0)
        }

        /// Runs `body` with its own batch on a thread until it throws.
        private final class Worker: Sendable {
            private let ended = DispatchSemaphore(value: 0)
            private let error = Mutex<TunnelIOError?>(nil)
            let rounds = Atomic<Int>(0)

            init(
                _ prepare: @escaping @Sendable (PacketBatch) -> Void = { _ in },
                _ body: @escaping @Sendable (PacketBatch) throws(TunnelIOError) -> Void
            ) {
                Thread.detachNewThread { [self] in
                    do throws(TunnelIOError) {
                        let batch = try PacketBatch(packetCapacity: 128, byteCapacity: 1 << 20)
                        prepare(batch)
                        while true {
                            try body(batch)
                            rounds.wrappingAdd(1, ordering: .relaxed)
                        }
                    } catch {
                        self.error.withLock { $0 = error }
                    }
                    ended.signal()
                }
            }

            /// The thrown error, or `nil` if there was none in time.
            func wait() -> TunnelIOError? {
                guard ended.wait(timeout: .now() + 20) == .success else { return nil }
                return error.withLock { $0 }
            }
        }

        @Test("A device that is closed under reading and writing threads tells both, and touches no other descriptor")
        func deviceClosedUnderUse() throws {
            for _ in 0..<20 {
                let namespace = try Namespace()
                let tun = try namespace.perform { try LinuxTun(name: "cv0", mtu: 1420) }
                try namespace.run("sh", "-ec", "ip address add 10.9.0.1/24 dev cv0; ip link set cv0 up")
                let flood = try namespace.start("ping", "-n", "-q", "-f", "-c", "100000", "10.9.0.2")
                defer { flood.kill() }
                let reader = Worker { (batch) throws(TunnelIOError) in
                    _ = Poll.isReadable(tun.readiness, before: .now + .milliseconds(10))
                    batch.removeAll()
                    _ = try tun.receive(into: batch)
                }
                let writer = Worker { batch in
                    for _ in 0..<2 { batch.append(copying: [0x45, 0, 0, 20] + [UInt8](repeating: 0, count: 16)) }
                } _: { (batch) throws(TunnelIOError) in
                    _ = try tun.send(batch)
                }
                try eventually("both work") {
                    reader.rounds.load(ordering: .relaxed) > 3 && writer.rounds.load(ordering: .relaxed) > 3
                }
                tun.close()
                // A later file with the same descriptor number must not be affected.
                var ends: [Int32] = [-1, -1]
                #expect(unsafe pipe(&ends) == 0)
                #expect(reader.wait() == TunnelIOError(.closed))
                #expect(writer.wait() == TunnelIOError(.closed))
                #expect(!Poll.isReadable(ends[0], before: .now), "nothing was written to another file")
                for end in ends { close(end) }
            }
        }

        @Test("A socket that is closed under receiving and sending threads tells both", arguments: [false, true])
        func socketClosedUnderUse(_ isIPv6: Bool) throws {
            let namespace = try Namespace()
            for _ in 0..<20 {
                let socket = try namespace.perform { try LinuxUDPSocket(isIPv6: isIPv6, port: 0) }
                let receiver = Worker { (batch) throws(TunnelIOError) in
                    _ = Poll.isReadable(socket.readiness, before: .now + .milliseconds(10))
                    batch.removeAll()
                    _ = try socket.receive(into: batch)
                }
                let here = Endpoint(
                    address: IPAddress(isIPv6: isIPv6, high: 0, low: isIPv6 ? 1 : 0x7f00_0001), port: socket.port)
                let sender = Worker { batch in
                    for _ in 0..<32 { batch.append(copying: [UInt8](repeating: 5, count: 1000), endpoint: here) }
                } _: { (batch) throws(TunnelIOError) in
                    _ = try socket.send(batch, in: 0..<32)
                }
                try eventually("both work") {
                    receiver.rounds.load(ordering: .relaxed) > 3 && sender.rounds.load(ordering: .relaxed) > 3
                }
                socket.close()
                var ends: [Int32] = [-1, -1]
                #expect(unsafe pipe(&ends) == 0)
                #expect(receiver.wait() == TunnelIOError(.closed))
                #expect(sender.wait() == TunnelIOError(.closed))
                for end in ends { close(end) }
            }
        }
    }
#endif
