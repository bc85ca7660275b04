// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import TunnelIO

    @testable import TunnelServer

    @Suite(
        "Flows of a tunnel server's clients", .enabled(if: Privileged.isAvailable), .serialized,
        .timeLimit(.minutes(5)))
    struct ServerFlowTests {
        /// The addresses of the scene in one family.
        struct Addresses: CustomTestStringConvertible {
            let anna: String
            let ben: String
            let router: String
            var testDescription: String { anna.contains(":") ? "IPv6" : "IPv4" }

            static let all = [
                Addresses(anna: "10.66.0.2", ben: "10.66.0.3", router: "203.0.113.7"),
                Addresses(anna: "fd66::2", ben: "fd66::3", router: "2001:db8:7::7"),
            ]
        }

        /// An ICMP error: the port of the quoted packet is closed.
        private func portUnreachable(from source: String, quoting packet: [UInt8]) throws -> [UInt8] {
            let (source, isIPv6) = (try IPAddress(source), packet[0] >> 4 == 6)
            let quoted = isIPv6 ? packet[8..<24] : packet[12..<16]
            let destination = try #require(IPAddress(bytes: Array(quoted)))
            var message: [UInt8] = (isIPv6 ? [1, 4] : [3, 3]) + [0, 0, 0, 0, 0, 0] + packet
            var checksum =
                isIPv6
                ? PacketBuilder.pseudoHeader(from: source, to: destination, number: 58, length: message.count)
                : InternetChecksum()
            unsafe message.withUnsafeBytes { unsafe checksum.add($0) }
            message[2] = UInt8(checksum.value >> 8)
            message[3] = UInt8(checksum.value & 0xff)
            return PacketBuilder.ipPacket(
                from: source, to: destination, number: isIPv6 ? 58 : 1, payload: message)
        }

        /// A UDP flow from one end to the other, each of which has sent a datagram.
        private final class Flow {
            let near: TestSocket
            let far: TestSocket
            let back: SocketAddress
            /// The packet of a datagram from near to far.
            let packet: [UInt8]

            init(from: Namespace, _ source: String, to namespace: Namespace, _ destination: String) throws {
                far = try TestSocket.datagrams(in: namespace, at: destination)
                near = try TestSocket.datagrams(in: from, at: source, to: destination, port: far.port)
                try #require(near.write([1]))
                back = try #require(far.receive()).source
                try #require(far.send([2], to: back))
                packet = PacketBuilder.udp(
                    from: try IPAddress(source), port: UInt16(near.port), to: try IPAddress(destination),
                    port: UInt16(far.port), payload: [1])
                try #require(arrives() == [2])
            }

            /// The next datagram at the near end.
            /// - Throws: The error of an ICMP message.
            func arrives() throws -> [UInt8] {
                try #require(Poll.isReadable(near.descriptor, before: .now + Privileged.patience))
                return try near.read()
            }
        }

        @Test("A forged ICMP error about another client's flow is dropped", arguments: Addresses.all)
        func forgedErrors(addresses: Addresses) async throws {
            let scene = try await ServerRulesScene()
            try await scene.allow("anna")
            try await scene.allow("ben", [rule(.allow)].towardsClient)
            #expect(try scene.pings(addresses.router, from: scene.anna, patience: 9))
            let flow = try Flow(from: scene.anna, addresses.anna, to: scene.world.router, addresses.router)
            try scene.inject(try portUnreachable(from: addresses.ben, quoting: flow.packet))
            // The error would arrive before this datagram.
            try #require(flow.far.send([3], to: flow.back))
            #expect(try flow.arrives() == [3])
            // Nor can ben end the flow at its other end.
            let reply = PacketBuilder.udp(
                from: try IPAddress(addresses.router), port: UInt16(flow.far.port),
                to: try IPAddress(addresses.anna), port: UInt16(flow.near.port), payload: [2])
            let before = try scene.world.counted("errors")
            try scene.inject(try portUnreachable(from: addresses.ben, quoting: reply))
            #expect(try scene.world.counted("errors") > before)
            // An error from the other end of the flow arrives.
            let other = try Flow(from: scene.anna, addresses.anna, to: scene.ben, addresses.ben)
            try scene.inject(try portUnreachable(from: addresses.ben, quoting: other.packet))
            #expect(throws: CommandFailure.self) { try other.arrives() }
            await scene.stop()
        }

        @Test("A client sends ICMP errors about flows of the network behind it")
        func errorsOfNetwork() async throws {
            let scene = try await ServerRulesScene()
            let site = ServerRulesScene.site
            try await scene.allow("anna", [rule(.allow)])
            try await scene.allow("ben", subnets: ["192.168.50.0/24"], [rule(.allow)].towardsClient)
            #expect(try scene.pings(site, from: scene.anna, patience: 9))
            let flow = try Flow(from: scene.anna, "10.66.0.2", to: scene.ben, site)
            // Once the network is not ben's any longer, ben's own address may not send errors about it.
            try scene.inject(try portUnreachable(from: "10.66.0.3", quoting: flow.packet))
            #expect(throws: CommandFailure.self) { try flow.arrives() }
            await scene.stop()
        }

        @Test("A source has only as many flows as the limit, and other sources have theirs", arguments: Addresses.all)
        func flowLimit(addresses: Addresses) async throws {
            let scene = try await ServerRulesScene { $0.flowsPerSource = 20 }
            try await scene.allow("anna")
            try await scene.allow("ben")
            #expect(try scene.pings(addresses.router, from: scene.ben, patience: 9))
            let far = try TestSocket.datagrams(in: scene.world.router, at: addresses.router, port: 7777)
            /// Sends datagrams from some ports of anna, and one of ben.
            /// - Returns: the number of anna's that arrived before ben's.
            func arrivals(_ ports: Range<UInt16>) throws -> Int {
                for port in ports {
                    try scene.inject(
                        PacketBuilder.udp(
                            from: try IPAddress(addresses.anna), port: port, to: try IPAddress(addresses.router),
                            port: 7777, payload: [1]))
                }
                try scene.inject(
                    PacketBuilder.udp(
                        from: try IPAddress(addresses.ben), port: 9, to: try IPAddress(addresses.router), port: 7777,
                        payload: [2]))
                var count = 0
                while try #require(far.receive()).bytes == [1] { count += 1 }
                return count
            }
            #expect(try arrivals(1000..<1040) == 20)
            // The flows that there are continue.
            #expect(try arrivals(1000..<1020) == 20)
            #expect(try arrivals(1040..<1041) == 0)
            // Once they have ended, there can be others.
            try scene.world.host.run(
                "conntrack", "-D", "-s", addresses.anna, "-f", addresses.anna.contains(":") ? "ipv6" : "ipv4")
            try eventually("another flow may begin", pollEvery: .milliseconds(20)) {
                try arrivals(2000..<2001) == 1
            }
            await scene.stop()
        }

        private func rule(_ action: AccessRule.Action) -> AccessRule { AccessRule(action) }
    }
#endif
