// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import TunnelIO

@testable import PacketTunnel

@Suite("Pings through the tunnel")
struct EchoProbeTests {
    static let pairs: [(IPAddress, IPAddress)] = [
        (.v4(10, 0, 0, 2), .v4(192, 0, 2, 1)), (.v6(0xfd00 << 48, 2), .v6(0x2001_0db8 << 32, 1)),
    ]

    @Test("A request is answered by a network, and its reply counts once", arguments: pairs)
    func reply(source: IPAddress, target: IPAddress) throws {
        var random = SeededGenerator(seed: 1)
        var probe = try #require(EchoProbe(from: source, to: target, using: &random))
        let network = VirtualNetwork()
        for _ in 0..<3 {
            let answer = try #require(network.receive(probe.request()))
            #expect(probe.classify(answer) == .reply)
            #expect(probe.classify(answer) == .stale, "a copy proves nothing")
        }
    }

    @Test("f1.4: damaged, foreign and unsolicited replies do not count", arguments: pairs)
    func wrong(source: IPAddress, target: IPAddress) throws {
        var random = SeededGenerator(seed: 2)
        var probe = try #require(EchoProbe(from: source, to: target, using: &random))
        let request = probe.request()
        let good = try #require(VirtualNetwork().receive(request))
        #expect(probe.classify(request) == .other, "a request is no reply")
        for byte in good.indices {
            for bit in 0..<8 {
                var damaged = good
                damaged[byte] ^= 1 << UInt8(bit)
                // The version's bits, the traffic class, the flow label and the hop limit of IPv6 have no checksum.
                let hasChecksum = !source.isIPv6 || byte >= 40 || (byte >= 4 && byte != 7)
                if hasChecksum { #expect(probe.classify(damaged) != .reply, "byte \(byte) bit \(bit)") }
            }
        }
        for count in 0..<good.count { #expect(probe.classify(Array(good.prefix(count))) != .reply) }
        var other = try #require(EchoProbe(from: source, to: target, using: &random))
        let foreign = try #require(VirtualNetwork().receive(other.request()))
        #expect(probe.classify(foreign) == .other)
        #expect(probe.classify(good) == .reply, "and the good one still does")
    }

    @Test("f1.5: sequence numbers wrap after 65,535, and late answers are not counted")
    func manyPings() throws {
        var random = SeededGenerator(seed: 3)
        let (source, target) = Self.pairs[0]
        var probe = try #require(EchoProbe(from: source, to: target, using: &random))
        let network = VirtualNetwork()
        let first = try #require(network.receive(probe.request()))
        for _ in 0..<70_000 { _ = probe.request() }
        #expect(probe.classify(first) == .stale)
        let last = try #require(network.receive(probe.request()))
        #expect(probe.classify(last) == .reply)
    }

    @Test("A probe needs addresses of one family")
    func families() {
        var random = SeededGenerator(seed: 4)
        #expect(EchoProbe(from: Self.pairs[0].0, to: Self.pairs[1].1, using: &random) == nil)
    }

    @Test("Answers to probes are consumed, and all other packets are delivered")
    func filtering() throws {
        let device = try MemoryTun()
        let probed = TapTun(device, filter: true)
        let prober = TunnelProber(target: "192.0.2.1", sources: [.v4(10, 0, 0, 2)], servers: [])
        let ping = try #require(prober.packets().first)
        #expect(ping.destination == .v4(192, 0, 2, 1))
        let reply = try #require(VirtualNetwork().receive(ping.packet))
        let foreign = PacketBuilder.icmpEcho(
            from: .v4(192, 0, 2, 1), to: .v4(10, 0, 0, 2), identifier: 1, sequence: 1, isReply: true)
        let datagram = PacketBuilder.udp(
            from: .v4(192, 0, 2, 1), port: 53, to: .v4(10, 0, 0, 2), port: 9, payload: [1, 2, 3])
        let batch = try PacketBatch(packetCapacity: 8, byteCapacity: 1 << 14)
        for packet in [foreign, reply, datagram] { batch.append(copying: packet) }
        probed.setFilter { prober.consume($0) }
        #expect(try probed.send(batch).sent == 2)
        #expect(device.takeDelivered() == [foreign, datagram])
        #expect(prober.takeReply())
        #expect(!prober.takeReply(), "counted once")
        #expect(prober.counts == (1, 1))
    }

    @Test("A name is resolved by the tunnel's servers, inside the tunnel, and then pinged")
    func name() throws {
        let source = IPAddress.v4(10, 0, 0, 2)
        let prober = TunnelProber(target: "probe.example", sources: [source], servers: [.v4(10, 0, 0, 53)])
        let question = try #require(prober.packets().first)
        #expect(question.destination == .v4(10, 0, 0, 53))
        let answer = DNSAnswers.answer(to: question.packet, [.v4(192, 0, 2, 9)])
        var forged = answer
        forged[28] ^= 1
        #expect(!prober.consume(forged), "of another identifier")
        #expect(prober.consume(answer))
        let ping = try #require(prober.packets().first)
        #expect(ping.destination == .v4(192, 0, 2, 9))
        let reply = try #require(VirtualNetwork().receive(ping.packet))
        #expect(prober.consume(reply))
        #expect(prober.takeReply())
    }

    @Test("Answers of name servers that end anywhere, or lie about their lengths, give no address")
    func brokenAnswers() throws {
        let prober = TunnelProber(target: "p.example", sources: [.v4(10, 0, 0, 2)], servers: [.v4(10, 0, 0, 53)])
        let question = try #require(prober.packets().first)
        let answer = DNSAnswers.answer(to: question.packet, [.v4(192, 0, 2, 9)])
        var random = SeededGenerator(seed: 5)
        for count in 0..<answer.count - 4 { _ = prober.consume(Array(answer.prefix(count))) }
        for _ in 0..<2000 {
            var damaged = answer
            damaged[random.int(in: 38..<answer.count - 4)] = UInt8(random.int(in: 0...255))
            _ = DNSQuestion.parsesWithoutTrapping(damaged)
        }
        #expect(prober.packets().first?.destination == .v4(10, 0, 0, 53), "still asking")
    }
}

extension DNSQuestion {
    /// Parses `packet` with a question that matches its addresses.
    fileprivate static func parsesWithoutTrapping(_ packet: [UInt8]) -> Bool {
        var random = SeededGenerator(seed: 6)
        let question = DNSQuestion(
            name: "p.example", wantsIPv6: false, from: .v4(10, 0, 0, 2), to: .v4(10, 0, 0, 53), using: &random)
        guard let question else { return false }
        var packet = packet
        packet.replaceSubrange(22..<24, with: [UInt8(question.port >> 8), UInt8(question.port & 0xff)])
        packet.replaceSubrange(28..<30, with: [UInt8(question.identifier >> 8), UInt8(question.identifier & 0xff)])
        return question.answer(in: packet) != nil
    }
}

/// A name server's answers.
enum DNSAnswers {
    /// Returns the answer with these IPv4 addresses to the question in an IPv4 packet.
    static func answer(to question: [UInt8], _ addresses: [IPAddress]) -> [UInt8] {
        guard let client = IPAddress(bytes: question[12..<16]),
            let server = IPAddress(bytes: question[16..<20])
        else { return [] }
        var message = Array(question[28...])
        message[2] = 0x81
        message[3] = 0x80
        message[7] = UInt8(addresses.count)
        for address in addresses {
            message += [0xc0, 12, 0, address.isIPv6 ? 28 : 1, 0, 1, 0, 0, 0, 60, 0, UInt8(address.bytes.count)]
            message += address.bytes
        }
        return PacketBuilder.udp(
            from: server, port: 53, to: client,
            port: UInt16(question[20]) << 8 | UInt16(question[21]), payload: message)
    }
}
