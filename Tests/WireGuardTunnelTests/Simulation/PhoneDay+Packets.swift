// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import TunnelIO
import WireGuardCore

@testable import WireGuardTunnel

// The packets that programs on the phone send, and their results.
extension PhoneDay {
    /// Sends packets of programs to hosts in the Internet, which echo them.
    func burst(_ count: Int) {
        let first = nextPacket
        for _ in 0..<count { sendPacket() }
        if let goodSince, world.now - goodSince > Self.bound(configuration), host.status.status == .connected,
            count >= 8
        {
            probeBurst = (world.now, first, false)
        }
    }

    private func sendPacket() {
        nextPacket += 1
        let id = nextPacket
        let payload =
            [UInt8(id >> 24), UInt8(id >> 16 & 255), UInt8(id >> 8 & 255), UInt8(id & 255)]
            + random.bytes(random.int(in: 0...60))
        let packet = PacketBuilder.udp(
            from: Self.inner, port: 5_000, to: .v4(203, 0, 113, 7), port: 7, payload: payload)
        figures.sent += 1
        if host.platform.settings != nil {
            expectedAtServer[id] = packet
            expectedEcho[id] = VirtualNetwork().receive(packet)
            host.platform.inject(packet)
            world.plane?.pump()
        } else if host.platform.guardPolicy != nil {
            figures.blocked += 1
        } else if mustHold {
            problem("a packet left outside of the tunnel under \(policy)")
        }
    }

    private static func id(of packet: [UInt8]) -> UInt32? {
        guard packet.count >= 32 else { return nil }
        return packet[28..<32].reduce(0) { $0 << 8 | UInt32($1) }
    }

    func arrived(_ packet: [UInt8]) {
        // The provider sends the pings itself.
        guard packet.count > 9, packet[9] == PacketBuilder.IPProtocol.udp else { return }
        guard let id = Self.id(of: packet), let expected = expectedAtServer.removeValue(forKey: id) else {
            return problem("the server got a packet that nobody sent, or got it twice")
        }
        if expected != packet { problem("the server got a packet that was altered") }
    }

    func deliver() {
        for packet in host.platform.takeDelivered() {
            guard let id = Self.id(of: packet), let expected = expectedEcho.removeValue(forKey: id) else {
                problem("a program got a packet that was not for it, or got it twice")
                continue
            }
            if expected != packet { problem("a program got a packet that was altered") }
            figures.echoed += 1
            if let burst = probeBurst, id >= burst.first { probeBurst?.echoed = true }
        }
    }
}
