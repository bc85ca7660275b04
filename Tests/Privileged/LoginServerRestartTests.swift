// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing

    @testable import CredentialTunnel

    @Suite(
        "A gateway's login tunnel after a restart", .enabled(if: Privileged.isAvailable), .serialized,
        .timeLimit(.minutes(3)))
    struct LoginServerRestartTests {
        private let password = "correct horse battery"

        /// A gateway with a client of Anna's, to which a machine in the internet sends an endless stream.
        private struct Stream {
            let scene: LoginGatewayScene
            let anna: LoginClient
            let first: Body.Assignment
            private let source: SpawnedProcess
            private let sink: SpawnedProcess

            init(_ changes: [String: Any] = [:], password: String) throws {
                scene = try LoginGatewayScene()
                try scene.initialize(changes)
                try scene.start()
                for login in ["anna", "ben"] { try scene.add(login, password) }
                anna = try scene.client("cli0")
                first = try anna.logIn("anna", password).get()
                try anna.configure(first)
                source = try scene.world.router.start(
                    "sh", "-c", "while echo segment; do sleep 0.05; done | ncat -v -l 203.0.113.7 5001")
                try source.waitForOutput(containing: "Listening on 203.0.113.7:5001")
                // ncat would end the stream at the end of its input.
                sink = try anna.namespace.start("sh", "-c", "sleep 1000 | ncat 203.0.113.7 5001")
                try sink.waitForOutput(containing: "segment")
            }

            /// Ends the gateway and then Anna's machine, without notifying the other end. The stream is paused until
            /// ``resume()``, because segments that arrive while no client has the address would be refused, which would
            /// end the stream.
            func interrupt(_ signal: Int32) throws {
                let router = scene.world.router
                try router.run("nft", "add table inet hold")
                try router.run("nft", "add chain inet hold output { type filter hook output priority 0; }")
                try router.run("nft", "add rule inet hold output tcp sport 5001 drop")
                scene.process?.signal(signal)
                _ = try scene.process?.wait()
                anna.close()
                sink.kill()
            }

            /// Lets the other end repeat its unacknowledged segments.
            func resume() throws { try scene.world.router.run("nft", "delete table inet hold") }

            /// Creates a client, and counts the packets of the stream that it receives.
            func watchedClient() throws -> LoginClient {
                let ben = try scene.client("cli1")
                try ben.namespace.run("nft", "add table inet watch")
                try ben.namespace.run("nft", "add chain inet watch input { type filter hook input priority 0; }")
                try ben.namespace.run("nft", "add rule inet watch input iifname cli1 tcp sport 5001 counter")
                return ben
            }

            /// Resumes the stream, waits until the other end has sent packets of it, and expects that the client has
            /// received none.
            func expectNothing(for ben: LoginClient, _ addresses: String) throws {
                let router = scene.world.router
                try router.run("nft", "add table inet sent")
                try router.run("nft", "add chain inet sent output { type filter hook output priority 1; }")
                try router.run("nft", "add rule inet sent output tcp sport 5001 counter")
                try resume()
                try eventually("the other end of the stream has sent again", within: .seconds(60)) {
                    try !router.run("nft", "list", "chain", "inet", "sent", "output").output
                        .contains("counter packets 0 ")
                }
                // The answer follows those packets.
                #expect(try ben.pings("203.0.113.7"))
                try expectNoPacket(of: ben, addresses)
            }

            private func expectNoPacket(of ben: LoginClient, _ addresses: String) throws {
                let counted = try ben.namespace.run("nft", "list", "chain", "inet", "watch", "input").output
                print("restart: \(addresses); ben's counter: \(counted)")
                #expect(counted.contains("counter packets 0 "))
            }

            /// Resumes the stream, waits until the gateway's host has reset it, and expects that the client has
            /// received none of its packets.
            func expectEnd(without ben: LoginClient, _ addresses: String) throws {
                try resume()
                try eventually("the other end of the stream has heard of its end", within: .seconds(60)) {
                    try !scene.world.router.run("ss", "-Htn", "state", "established", "sport", "=", ":5001").output
                        .contains("203.0.113.7")
                }
                try expectNoPacket(of: ben, addresses)
            }

            func end() { source.kill() }
        }

        @Test(
            "After a restart a user gets neither another user's address nor packets of its TCP stream",
            arguments: [SIGKILL, SIGTERM])
        func stream(_ signal: Int32) throws {
            let stream = try Stream(password: password)
            let (scene, first) = (stream.scene, stream.first)
            let address = try #require(first.addresses.first).address.description
            #expect(try !scene.world.host.connections(of: address).isEmpty)
            try stream.interrupt(signal)
            try scene.start()
            let ben = try stream.watchedClient()
            let second = try ben.logIn("ben", password).get()
            try ben.configure(second)
            try stream.expectNothing(for: ben, "anna had \(first.addresses), ben has \(second.addresses)")
            #expect(Set(first.addresses).isDisjoint(with: second.addresses))
            // Anna's own address is hers again.
            let again = try scene.client("cli0")
            #expect(try again.logIn("anna", password).get().addresses == first.addresses)
            stream.end()
        }

        /// The next user gets the same address here, because the pool has only one. The address was released while no
        /// gateway could end its connections.
        @Test(
            "After a restart a user with a former user's address does not receive the rest of its TCP stream",
            arguments: [SIGKILL, SIGTERM])
        func sameAddress(_ signal: Int32) throws {
            let stream = try Stream(["addresses": ["10.66.0.1/30"]], password: password)
            let (scene, first) = (stream.scene, stream.first)
            try stream.interrupt(signal)
            try scene.startWithoutTunnel()
            let removed = try scene.ask("user", "remove", "anna")
            #expect(removed.status == 0, "\(removed)")
            try scene.stop()
            try scene.start()
            let ben = try stream.watchedClient()
            let second = try ben.logIn("ben", password).get()
            #expect(second.addresses == first.addresses)
            try ben.configure(second)
            try stream.expectEnd(without: ben, "both had \(second.addresses)")
            stream.end()
        }

        /// Makes the host track connections even while no gateway runs.
        private func track(in host: Namespace) throws {
            try host.run("nft", "add table inet track")
            try host.run("nft", "add chain inet track output { type filter hook output priority 0; }")
            try host.run("nft", "add rule inet track output ct state new counter")
            try keepEntries(in: host)
        }

        /// Keeps entries of unanswered connections for longer than a test waits, so that none expires.
        private func keepEntries(in host: Namespace) throws {
            for kind in ["udp", "icmp", "icmpv6"] {
                try host.run("sysctl", "-qw", "net.netfilter.nf_conntrack_\(kind)_timeout=600")
            }
        }

        /// Adds a connection of an address that no client has. A gateway ends it when it lists all connections.
        private func addStray(in host: Namespace) throws {
            try TestSocket.datagrams(in: host, at: "192.0.2.2").send([0], to: try SocketAddress("10.66.0.200", 9))
            #expect(try !host.connections(of: "10.66.0.200").isEmpty)
        }

        private func expectNoStray(in host: Namespace) throws {
            try eventually("the connection of no client is gone") {
                try host.connections(of: "10.66.0.200").isEmpty
            }
        }

        @Test("The connections of present clients last through a restart")
        func present() throws {
            let stream = try Stream(password: password)
            let (scene, first) = (stream.scene, stream.first)
            let address = try #require(first.addresses.first).address.description
            try track(in: scene.world.host)
            try stream.interrupt(SIGTERM)
            try addStray(in: scene.world.host)
            try scene.start()
            try expectNoStray(in: scene.world.host)
            #expect(try !scene.world.host.connections(of: address).isEmpty)
            stream.end()
        }

        @Test("The gateway's memory at its start does not grow with the connections that the host tracks")
        func memory() throws {
            let scene = try LoginGatewayScene()
            try scene.initialize()
            let host = scene.world.host
            try track(in: host)
            var peaks: [Int] = []
            for round in 0..<2 {
                if round == 1 {
                    // 40,000 flows of the host itself, to an interface on which nothing answers.
                    try host.run("ip", "link", "add", "sink0", "type", "veth", "peer", "name", "sink1")
                    try host.run("ip", "link", "set", "sink1", "up")
                    try host.run("ip", "address", "add", "100.100.0.1/16", "dev", "sink0")
                    try host.run("ip", "link", "set", "sink0", "up", "arp", "off")
                    let socket = try TestSocket.datagrams(in: host, at: "100.100.0.1")
                    for number in 0..<40_000 {
                        socket.send(
                            [0], to: try SocketAddress("100.100.1.\(number / 10_000 + 1)", 1024 + number % 10_000))
                    }
                    let count = try host.run("conntrack", "-C").output
                    #expect((Int(count.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0) >= 39_000, "\(count)")
                }
                try addStray(in: host)
                try scene.start()
                try expectNoStray(in: host)
                let process = try #require(scene.process)
                let peak = try #require(DaemonRemains.status("VmHWM", of: process.processID))
                peaks.append(peak.split(separator: " ").first.flatMap { Int($0) } ?? .max)
                try scene.stop()
            }
            print(
                "connections: the gateway's peak is \(peaks[0]) KiB without, and \(peaks[1]) KiB beside 40,000 others")
            #expect(peaks[1] < peaks[0] + 6144)
        }

        @Test("The connections of a client end when its user is removed, and other clients keep theirs")
        func release() throws {
            let scene = try LoginGatewayScene()
            try scene.initialize()
            try scene.start()
            try keepEntries(in: scene.world.host)
            for login in ["anna", "ben"] { try scene.add(login, password) }
            let (anna, ben) = (try scene.client("cli0"), try scene.client("cli1"))
            var addresses: [[String]] = []
            for (client, login) in [(anna, "anna"), (ben, "ben")] {
                let assignment = try client.logIn(login, password).get()
                try client.configure(assignment)
                #expect(try client.pings("203.0.113.7") && client.pings("2001:db8:7::7"))
                addresses.append(assignment.addresses.map(\.address.description))
            }
            for address in addresses.flatMap(\.self) {
                #expect(try !scene.world.host.connections(of: address).isEmpty, "\(address)")
            }
            let removed = try scene.ask("user", "remove", "anna")
            #expect(removed.status == 0, "\(removed)")
            for address in addresses[0] {
                try eventually("the connections of \(address) are gone") {
                    try scene.world.host.connections(of: address).isEmpty
                }
            }
            #expect(try ben.pings("203.0.113.7") && ben.pings("2001:db8:7::7"))
            for address in addresses[1] {
                #expect(try !scene.world.host.connections(of: address).isEmpty, "\(address)")
            }
        }
    }
#endif
