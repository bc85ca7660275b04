// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnelTesting
    import Testing
    import WireGuardCore

    @testable import culvert_wg

    extension DaemonTests {
        @Suite("Lanes", .timeLimit(.minutes(5)))
        struct LaneTests {
            /// A value of `CULVERT_LANES`, and the resulting lanes.
            struct Layout: CustomTestStringConvertible, Sendable {
                var text: String
                var queues: Int
                var threads: Int

                var testDescription: String { text }

                static let all = [
                    Layout(text: "1", queues: 1, threads: 1), Layout(text: "2", queues: 1, threads: 2),
                    Layout(text: "3", queues: 3, threads: 3), Layout(text: "4+2", queues: 4, threads: 4),
                ]
            }

            private func pair(_ layout: Layout) throws -> TunnelPair {
                var options = PairOptions()
                options.environment = ["CULVERT_LANES=\(layout.text)"]
                return try TunnelPair(.culvert, .wireguardGo, options)
            }

            @Test("The daemon has the requested threads, queues and sockets", arguments: Layout.all)
            func resources(_ layout: Layout) throws {
                let pair = try pair(layout)
                try pair.ping(from: pair.left)
                let queues = try pair.left.shell("ls /sys/class/net/\(pair.left.name)/queues | grep -c tx-")
                #expect(queues.trimmingCharacters(in: .whitespacesAndNewlines) == "\(layout.queues)")
                let sockets = try pair.left.shell("ss -Hlun4 'sport = :\(pair.left.port)' | wc -l")
                #expect(sockets.trimmingCharacters(in: .whitespacesAndNewlines) == "\(layout.queues)")
                let processes = DaemonRemains.processes(of: "culvert-wg", with: pair.left.name)
                let process = try #require(processes.first)
                let tasks = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
                let names = tasks.compactMap { task in
                    FileManager.default.contents(atPath: "/proc/\(process)/task/\(task)/comm").map {
                        String(decoding: $0, as: UTF8.self)
                    }
                }
                #expect(names.filter { $0.hasPrefix("culvert-lane") }.count == layout.threads, "\(names)")
                try pair.left.daemon.stop()
                #expect(try DaemonRemains.of(pair.left.name, in: pair.left.namespace) == [])
            }

            @Test("Bytes arrive as they were sent, over one connection and over several", arguments: Layout.all)
            func integrity(_ layout: Layout) throws {
                let pair = try pair(layout)
                for family in [IPFamily.v4, .v6] {
                    try pair.ping(from: pair.left, family, sizes: [0, 1000])
                    try pair.ping(from: pair.right, family, sizes: [1000])
                    try InteropTraffic.exchange(pair, family, byteCount: 4 << 20)
                }
                for direction in [[], ["-R"]] {
                    let server = try pair.right.namespace.start(
                        "iperf3", "-s", "-1", "-B", pair.right.inner4, "--forceflush")
                    try server.waitForOutput(containing: "listening")
                    let command =
                        [
                            "ip", "netns", "exec", pair.left.namespace.name, "iperf3", "-J", "-c", pair.right.inner4,
                            "-P", "4", "-n", "4M",
                        ] + direction
                    let report = try PrivilegedTests.run(command, deadline: .seconds(60)).output
                    #expect(report.contains("sum_received") && !report.contains("\"error\""), "\(report)")
                    #expect(try server.wait().status == 0)
                }
            }

            @Test("UDP datagrams of a flow arrive in the order in which they were sent", arguments: Layout.all)
            func order(_ layout: Layout) throws {
                let pair = try pair(layout)
                try pair.ping(from: pair.left)
                for (from, to) in [(pair.left, pair.right), (pair.right, pair.left)] {
                    try sendInOrder(from, to, flows: 6, rounds: 40, burst: 8)
                }
            }

            /// Sends numbered datagrams in several flows, in bursts, and checks the order in which they arrive.
            private func sendInOrder(_ from: PairEnd, _ to: PairEnd, flows: Int, rounds: Int, burst: Int) throws {
                let receivers = try (0..<flows).map { _ in
                    try TestSocket.datagrams(in: to.namespace, at: to.inner4)
                }
                let senders = try (0..<flows).map { _ in
                    try TestSocket.datagrams(in: from.namespace, at: from.inner4)
                }
                let addresses = try receivers.map { try SocketAddress(to.inner4, $0.port) }
                var arrived = 0
                var last = Array(repeating: -1, count: flows)
                for round in 0..<rounds {
                    for number in 0..<burst {
                        let sequence = round * burst + number
                        for flow in 0..<flows {
                            let size = 2 + (sequence * 7 + flow * 13) % 1200
                            let head = [UInt8(sequence >> 8), UInt8(sequence & 0xff)]
                            senders[flow].send(head + [UInt8](repeating: 1, count: size), to: addresses[flow])
                        }
                    }
                    for flow in 0..<flows {
                        for _ in 0..<burst {
                            let datagram = try #require(receivers[flow].receive()?.bytes)
                            let sequence = Int(datagram[0]) << 8 | Int(datagram[1])
                            #expect(sequence > last[flow])
                            last[flow] = sequence
                            arrived += 1
                        }
                    }
                }
                #expect(arrived == flows * rounds * burst)
            }

            @Test("A new port, the same one again and a roaming peer find all lanes", arguments: Layout.all)
            func ports(_ layout: Layout) throws {
                let pair = try pair(layout)
                try pair.ping(from: pair.left)
                for port in [4001, 4002, 4001] {
                    try Wg.run("set", pair.left.name, "listen-port", "\(port)")
                    try pair.pingForAWhile(from: pair.left)
                    try InteropTraffic.exchange(pair, .v4, byteCount: 1 << 18)
                    #expect(try pair.right.peer(pair.left).endpoint == "\(pair.left.outer4):\(port)")
                }
                try Wg.run("set", pair.right.name, "listen-port", "4100")
                try pair.pingForAWhile(from: pair.right)
                try InteropTraffic.exchange(pair, .v4, byteCount: 1 << 18)
                #expect(try pair.left.peer(pair.right).endpoint == "\(pair.right.outer4):4100")
                // After down and up, the sockets were closed and opened again.
                try pair.left.shell("ip link set \(pair.left.name) down; ip link set \(pair.left.name) up")
                try pair.ping(from: pair.left)
                try pair.left.shell("ip link delete \(pair.left.name)")
                #expect(try pair.left.daemon.waitUntilEnded().status == 0)
            }

            @Test("A port of another daemon is refused with any number of lanes")
            func takenPort() throws {
                let namespace = try Namespace()
                let environment = ["CULVERT_LANES=3"]
                let first = try DaemonProcess(.culvert, in: namespace, environment: environment)
                let second = try DaemonProcess(.culvert, in: namespace, environment: environment)
                for daemon in [first, second] { try namespace.run("ip", "link", "set", daemon.name, "up") }
                try Wg.run("set", first.name, "listen-port", "4000")
                let result = try PrivilegedTests.runAllowingFailure(
                    ["wg", "set", second.name, "listen-port", "4000"])
                #expect(result.status != 0)
                #expect(result.output.contains("Address already in use"), "\(result.output)")
            }

            @Test("In the background, the daemon has the requested lanes")
            func background() throws {
                let namespace = try Namespace()
                let daemon = try BackgroundDaemon(in: namespace, environment: ["CULVERT_LANES=3"])
                #expect(daemon.start.status == 0, "\(daemon.start.output)")
                let queues = try namespace.run("sh", "-c", "ls /sys/class/net/\(daemon.name)/queues | grep -c tx-")
                    .output
                #expect(queues.trimmingCharacters(in: .whitespacesAndNewlines) == "3")
            }

            @Test("An invalid value is refused at the start, by name", arguments: ["0", "many", "65", "1+"])
            func badValue(_ value: String) throws {
                let result = try PrivilegedTests.runAllowingFailure(
                    ["env", "CULVERT_LANES=\(value)", DaemonProgram.culvert.path, "-f", UniqueInterface.next()])
                #expect(result.status == 2)
                #expect(
                    result.output.contains("CULVERT_LANES is '\(value)'; it must be auto, server, 1, 2,"),
                    "\(result.output)")
                #expect(throws: DaemonOptions.UsageError.self) {
                    try DaemonOptions.parse(["wg0"]) { $0 == "CULVERT_LANES" ? value : nil }
                }
            }

            @Test("A memory budget is read from the environment, in the background too")
            func budget() throws {
                let namespace = try Namespace()
                let daemon = try BackgroundDaemon(in: namespace, environment: ["CULVERT_MEMORY=8:2"])
                #expect(daemon.start.status == 0, "\(daemon.start.output)")
                var random = SeededGenerator(seed: 7)
                var results: [(status: Int32, output: String)] = []
                for _ in 0..<3 {
                    var engine = Engine(random: SystemRandomNumberGenerator())
                    engine.setPrivateKey(PrivateKey(using: &random))
                    let publicKey = engine.publicKey
                    let key = try #require(publicKey).base64
                    let result = try PrivilegedTests.runAllowingFailure(
                        ["ip", "netns", "exec", namespace.name, "wg", "set", daemon.name, "peer", key])
                    results.append((result.status, result.output))
                }
                #expect(results[0].status == 0 && results[1].status == 0)
                #expect(results[2].status != 0)
                #expect(results[2].output.contains("Cannot allocate memory"), "\(results[2].output)")
            }

            @Test(
                "An invalid or too small budget is refused at the start, by name",
                arguments: ["much", "1:100000"])
            func badBudget(_ value: String) throws {
                let result = try PrivilegedTests.runAllowingFailure(
                    ["env", "CULVERT_MEMORY=\(value)", DaemonProgram.culvert.path, "-f", UniqueInterface.next()])
                #expect(result.status == 2)
                #expect(result.output.contains("CULVERT_MEMORY is '\(value)'"), "\(result.output)")
            }

            @Test("A daemon with an interface of one queue starts with the layout for one, and logs it once")
            func oneQueue() throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                try namespace.run("ip", "tuntap", "add", "dev", name, "mode", "tun")
                let daemon = try DaemonProcess(.culvert, name: name, in: namespace, environment: ["CULVERT_LANES=3"])
                let lines = daemon.log.split(separator: "\n").filter { $0.contains("using 1 instead of 3 lanes") }
                #expect(lines.count == 1 && lines[0].contains("create it with IFF_MULTI_QUEUE"), "\(daemon.log)")
                try namespace.run("ip", "link", "set", name, "up")
                try Wg.run("set", name, "listen-port", "4000")
                #expect(try daemon.stop().status == 0)
            }

            @Test("Sixteen idle lanes use less than 4 MiB more than one")
            func idleMemory() throws {
                let namespace = try Namespace()
                let bytes = try [1, 16].map { lanes in
                    let daemon = try DaemonProcess(.culvert, in: namespace, environment: ["CULVERT_LANES=\(lanes)"])
                    let process = try #require(DaemonRemains.processes(of: "culvert-wg", with: daemon.name).first)
                    let text = try #require(DaemonRemains.status("RssAnon", of: process))
                    try daemon.stop()
                    return try #require(text.split(separator: " ").first.flatMap { Int($0) }) << 10
                }
                #expect(bytes[1] - bytes[0] < 4 << 20, "\(bytes)")
            }

            @Test("A daemon with an interface of several queues starts with one thread")
            func severalQueues() throws {
                let namespace = try Namespace()
                let name = UniqueInterface.next()
                try namespace.run("ip", "tuntap", "add", "dev", name, "mode", "tun", "multi_queue")
                let daemon = try DaemonProcess(.culvert, name: name, in: namespace, environment: ["CULVERT_LANES=1"])
                #expect(!daemon.log.contains("instead of"), "\(daemon.log)")
                #expect(try daemon.stop().status == 0)
            }
        }
    }
#endif
