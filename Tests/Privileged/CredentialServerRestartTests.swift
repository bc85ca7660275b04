// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing

    @testable import CredentialTunnel

    @Suite(
        "The login tunnel's server after a restart", .enabled(if: Privileged.isAvailable), .serialized,
        .timeLimit(.minutes(3)))
    struct CredentialServerRestartTests {
        private let password = "correct horse battery"

        /// A server with a client of Anna's, to which a machine in the internet sends a stream that never ends.
        private struct Stream {
            let scene: CredentialServerScene
            let anna: LoginClient
            let first: Body.Assignment
            private let source: SpawnedProcess
            private let sink: SpawnedProcess

            init(_ changes: [String: Any] = [:], password: String) throws {
                scene = try CredentialServerScene()
                try scene.initialize(
                    changes.merging(["passwordCost": ["n": 16, "r": 8, "p": 1]]) { given, _ in given })
                for login in ["anna", "ben"] { try scene.add(login, password) }
                try scene.start()
                anna = try scene.client("cli0")
                first = try anna.logIn("anna", password).get()
                try anna.configure(first)
                source = try scene.world.router.start(
                    "sh", "-c", "while echo segment; do sleep 0.05; done | ncat -v -l 203.0.113.7 5001")
                try source.waitForOutput(containing: "Listening on 203.0.113.7:5001")
                sink = try anna.namespace.start("ncat", "203.0.113.7", "5001")
                try sink.waitForOutput(containing: "segment")
            }

            /// Ends the server, and then Anna's machine, which does not tell the other end. Starts the server again.
            func restart(_ signal: Int32) throws {
                scene.process?.signal(signal)
                _ = try scene.process?.wait()
                anna.close()
                sink.kill()
                try scene.start()
            }

            /// A client whose packets of the stream are counted.
            func watchedClient() throws -> LoginClient {
                let ben = try scene.client("cli1")
                try ben.namespace.run("nft", "add table inet watch")
                try ben.namespace.run("nft", "add chain inet watch input { type filter hook input priority 0; }")
                try ben.namespace.run("nft", "add rule inet watch input iifname cli1 tcp sport 5001 counter")
                return ben
            }

            /// Waits until the server's host has reset the stream, and expects that the client has received no packet of it.
            func expectEnd(without ben: LoginClient, _ addresses: String) throws {
                try eventually("the other end of the stream has heard of its end", within: .seconds(60)) {
                    try !scene.world.router.run("ss", "-Htn", "state", "established", "sport", "=", ":5001").output
                        .contains("203.0.113.7")
                }
                let counted = try ben.namespace.run("nft", "list", "chain", "inet", "watch", "input").output
                print("restart: \(addresses); ben's counter: \(counted)")
                #expect(counted.contains("counter packets 0 "))
            }

            func end() { source.kill() }
        }

        /// In earlier versions the next user got the same address, and with it the segments that the other end still sent.
        @Test(
            "After a restart a user gets neither another user's address nor the rest of its TCP stream",
            arguments: [SIGKILL, SIGTERM])
        func stream(_ signal: Int32) throws {
            let stream = try Stream(password: password)
            let (scene, first) = (stream.scene, stream.first)
            let address = try #require(first.addresses.first).address.description
            #expect(try !scene.world.host.connections(of: address).isEmpty)
            try stream.restart(signal)
            #expect(try scene.world.host.connections(of: address).isEmpty)

            let ben = try stream.watchedClient()
            let second = try ben.logIn("ben", password).get()
            try ben.configure(second)
            try stream.expectEnd(without: ben, "anna had \(first.addresses), ben has \(second.addresses)")
            #expect(Set(first.addresses).isDisjoint(with: second.addresses))
            // Anna's own address is hers again.
            let again = try scene.client("cli0")
            #expect(try again.logIn("anna", password).get().addresses == first.addresses)
            let file = "\(scene.directory)/addresses.json"
            #expect(try run(["stat", "-c", "%a", file]).output.hasPrefix("600"))
            stream.end()
        }

        /// The next user gets the same address here: the pool has one, which need not rest.
        @Test(
            "After a restart a user with another user's former address does not receive the rest of its TCP stream",
            arguments: [SIGKILL, SIGTERM])
        func sameAddress(_ signal: Int32) throws {
            let stream = try Stream(["addresses": ["10.66.0.1/30"], "addressRest": 0], password: password)
            let (scene, first) = (stream.scene, stream.first)
            // Segments that arrive while no client has the address are refused, which would end the stream.
            try scene.world.router.run("nft", "add table inet hold")
            try scene.world.router.run("nft", "add chain inet hold output { type filter hook output priority 0; }")
            try scene.world.router.run("nft", "add rule inet hold output tcp sport 5001 drop")
            try stream.restart(signal)
            let ben = try stream.watchedClient()
            let second = try ben.logIn("ben", password).get()
            #expect(second.addresses == first.addresses)
            try ben.configure(second)
            try scene.world.router.run("nft", "delete table inet hold")
            try stream.expectEnd(without: ben, "both had \(second.addresses)")
            stream.end()
        }

        @Test("The server's memory at its start does not grow with the connections that the host tracks")
        func memory() throws {
            let scene = try CredentialServerScene()
            try scene.initialize()
            var peaks: [Int] = []
            for round in 0..<2 {
                if round == 1 {
                    // 40,000 flows of the host's own, to an interface that answers nothing.
                    try scene.world.host.run(
                        "ip", "link", "add", "sink0", "type", "veth", "peer", "name", "sink1")
                    try scene.world.host.run("ip", "link", "set", "sink1", "up")
                    try scene.world.host.run("ip", "address", "add", "100.100.0.1/16", "dev", "sink0")
                    try scene.world.host.run("ip", "link", "set", "sink0", "up", "arp", "off")
                    try scene.world.host.run("nft", "add table inet track")
                    try scene.world.host.run(
                        "nft", "add chain inet track output { type filter hook output priority 0; }")
                    try scene.world.host.run("nft", "add rule inet track output ct state new counter")
                    let socket = try TestSocket.datagrams(in: scene.world.host, at: "100.100.0.1")
                    for number in 0..<40_000 {
                        socket.send(
                            [0], to: try SocketAddress("100.100.1.\(number / 10_000 + 1)", 1024 + number % 10_000))
                    }
                    let count = try scene.world.host.run("conntrack", "-C").output
                    #expect((Int(count.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0) >= 39_000, "\(count)")
                }
                try scene.start()
                let process = try #require(scene.process)
                let peak = try #require(DaemonRemains.status("VmHWM", of: process.processID))
                peaks.append(peak.split(separator: " ").first.flatMap { Int($0) } ?? .max)
                process.signal(SIGTERM)
                _ = try process.wait()
            }
            print("connections: the server's peak is \(peaks[0]) KiB without, and \(peaks[1]) KiB beside 40,000 others")
            #expect(peaks[1] < peaks[0] + 4096)
        }

        @Test("The connections of a client end with its session, and other clients keep theirs")
        func release() throws {
            let scene = try CredentialServerScene()
            try scene.initialize()
            for login in ["anna", "ben"] { try scene.add(login, password) }
            try scene.start()
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
            anna.close()
            for address in addresses[0] {
                try eventually("the connections of \(address) are gone") {
                    try scene.world.host.connections(of: address).isEmpty
                }
            }
            // The entries of a ping end after 30 seconds.
            #expect(try ben.pings("203.0.113.7") && ben.pings("2001:db8:7::7"))
            for address in addresses[1] {
                #expect(try !scene.world.host.connections(of: address).isEmpty, "\(address)")
            }
        }
    }
#endif
