// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Testing
import TunnelIO

@testable import PacketTunnel

@Suite("The virtual network")
struct VirtualNetworkTests {
    static let v4 = (IPAddress.v4(10, 0, 0, 2), IPAddress.v4(192, 0, 2, 1))
    static let v6 = (IPAddress.v6(0xfd00 << 48, 2), IPAddress.v6(0x2001_0db8 << 32, 1))

    @Test("A virtual network answers ping in both families")
    func ping() {
        let network = VirtualNetwork()
        for (from, to) in [Self.v4, Self.v6] {
            let request = PacketBuilder.icmpEcho(from: from, to: to, identifier: 7, sequence: 9, payload: [1, 2])
            let reply = PacketBuilder.icmpEcho(
                from: to, to: from, identifier: 7, sequence: 9, payload: [1, 2], isReply: true)
            #expect(network.receive(request) == reply)
        }
        #expect(network.statistics.pingsAnswered == 2)
    }

    @Test("A virtual network echoes UDP in both families")
    func echo() {
        let network = VirtualNetwork(echoPort: 7)
        for (from, to) in [Self.v4, Self.v6] {
            let packet = PacketBuilder.udp(from: from, port: 4000, to: to, port: 7, payload: [1, 2, 3])
            let answer = PacketBuilder.udp(from: to, port: 7, to: from, port: 4000, payload: [1, 2, 3])
            #expect(network.receive(packet) == answer)
            let other = PacketBuilder.udp(from: from, port: 4000, to: to, port: 8, payload: [1])
            #expect(network.receive(other) == nil)
        }
        #expect(network.statistics.datagramsEchoed == 2)
        #expect(network.statistics.unanswered == 2)
    }

    @Test("A virtual network ignores damaged, truncated and foreign packets, and all while it is unreachable")
    func silence() throws {
        let network = VirtualNetwork(prefixes: [try IPPrefix("192.0.2.0/24")])
        let packet = PacketBuilder.udp(from: Self.v4.0, port: 1, to: Self.v4.1, port: 7, payload: [1, 2, 3])
        for length in 0..<packet.count { #expect(network.receive(Array(packet[..<length])) == nil) }
        for index in 20..<packet.count {
            var damaged = packet
            damaged[index] ^= 1
            #expect(network.receive(damaged) == nil, "byte \(index)")
        }
        #expect(
            network.receive(PacketBuilder.udp(from: Self.v6.0, port: 1, to: Self.v6.1, port: 7, payload: [])) == nil)
        network.isReachable = false
        #expect(network.receive(packet) == nil)
        network.isReachable = true
        #expect(network.receive(packet) != nil)
    }
}
