// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import TunnelIO
    import WireGuardCore

    extension DaemonTests {
        @Suite("Segmentation offload under load", .timeLimit(.minutes(5)))
        struct OffloadLoadTests {
            /// The direction of the bulk traffic, relative to the end that is closed.
            enum Direction: String, CaseIterable, Sendable {
                case out, into, both

                var options: [String] {
                    switch self {
                    case .out: []
                    case .into: ["-R"]
                    case .both: ["--bidir"]
                    }
                }
            }

            /// Starts iperf3 in both namespaces and waits until it has transferred data.
            private func load(_ pair: TunnelPair, _ direction: Direction) throws -> [SpawnedProcess] {
                let (left, right) = (pair.left, pair.right)
                let server = try right.namespace.start("iperf3", "-s", "-1", "-B", right.inner4, "--forceflush")
                try server.waitForOutput(containing: "listening")
                let command = ["ip", "netns", "exec", left.namespace.name, "iperf3", "-c", right.inner4, "-t", "60"]
                let client = try SpawnedProcess(command + direction.options)
                try eventually("traffic flows") {
                    let peer = try left.peer(right)
                    return (direction == .into || peer.sent > 4 << 20) && (direction == .out || peer.received > 4 << 20)
                }
                return [client, server]
            }

            @Test(
                "A daemon ends immediately and cleanly at every event, with full load in either direction",
                arguments: DaemonLifecycleTests.End.allCases, Direction.allCases)
            func ends(_ end: DaemonLifecycleTests.End, _ direction: Direction) throws {
                let pair = try TunnelPair(.culvert, .culvert)
                let daemon = pair.left.daemon
                let traffic = try load(pair, direction)
                #expect(daemon.process.isRunning)
                try end.bring(daemon.name, daemon.process.processID, in: daemon.namespace)
                let result = try daemon.process.wait(deadline: .seconds(5))
                #expect(result.status == 0, "\(result)")
                #expect(try DaemonRemains.of(daemon.name, in: daemon.namespace) == [])
                #expect(try daemon.namespace.run("ss", "-Hlun").output == "")
                // The other end is not affected.
                #expect(pair.right.daemon.process.isRunning)
                #expect(try pair.right.daemon.stop().status == 0)
                for process in traffic { process.kill() }
                try? FileManager.default.removeItem(atPath: ManagementClient.path(daemon.name) + ".old")
            }

            @Test("A device deleted under load at the far end of wireguard-go")
            func deletedBesideOther() throws {
                let pair = try TunnelPair(.culvert, .wireguardGo)
                let daemon = pair.left.daemon
                let traffic = try load(pair, .both)
                try daemon.namespace.run("ip", "link", "delete", "dev", daemon.name)
                #expect(try daemon.process.wait(deadline: .seconds(5)).status == 0)
                #expect(try DaemonRemains.of(daemon.name, in: daemon.namespace) == [])
                for process in traffic { process.kill() }
            }

            @Test("Traffic continues after ten downs and ups under load")
            func downAndUp() throws {
                let pair = try TunnelPair(.culvert, .culvert)
                let traffic = try load(pair, .both)
                for _ in 0..<10 {
                    try pair.left.shell("ip link set \(pair.left.name) down; ip link set \(pair.left.name) up")
                }
                for process in traffic { process.kill() }
                try pair.pingForAWhile(from: pair.left)
                #expect(try pair.left.daemon.stop().status == 0)
            }

            @Test(
                "UDP sent in large pieces arrives in the datagrams that it is made of, both ways",
                arguments: InteropMatrixTests.Ends.all, [IPFamily.v4, .v6])
            func largePieces(_ ends: InteropMatrixTests.Ends, _ family: IPFamily) throws {
                let pair = try TunnelPair(ends.initiator, ends.responder)
                try pair.ping(from: pair.left, family)
                let isIPv6 = family == .v6
                let left = try pair.left.namespace.perform { try LinuxUDPSocket(isIPv6: isIPv6, port: 0) }
                let right = try pair.right.namespace.perform { try LinuxUDPSocket(isIPv6: isIPv6, port: 0) }
                let batch = try PacketBatch(packetCapacity: 512, byteCapacity: 1 << 20)
                for (count, size) in [(1, 1), (2, 1), (64, 1), (40, 1000), (64, 700), (40, 1372), (63, 16)] {
                    for (from, to, number) in [(left, right, 2), (right, left, 1)] {
                        let bytes = InteropTraffic.random(count * size, seed: UInt64(size))
                        var sent = (0..<count).map { Array(bytes[($0 * size)..<(($0 + 1) * size)]) }
                        // Make the last datagram shorter.
                        if size > 1 { sent[count - 1].removeLast(size / 2) }
                        let endpoint = Endpoint(
                            address: IPAddress(
                                isIPv6: isIPv6, high: isIPv6 ? 0xfd24 << 48 : 0,
                                low: UInt64(number) + (isIPv6 ? 0 : 0xc0a8_f100)), port: to.port)
                        batch.removeAll()
                        for datagram in sent { batch.append(copying: datagram, endpoint: endpoint) }
                        #expect(try from.send(batch, in: 0..<count).sent == count)
                        var received: [[UInt8]] = []
                        while received.count < count, Poll.isReadable(to.readiness, before: .now + .seconds(5)) {
                            batch.removeAll()
                            _ = try to.receive(into: batch)
                            received += (0..<batch.count).map { batch.copy(of: $0) }
                        }
                        #expect(received == sent, "\(count) of \(size) bytes")
                    }
                }
                #expect(left.statistics.takenApart == 0 && right.statistics.takenApart == 0)
            }
        }
    }
#endif
