// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
package import NetworkAddresses
package import TunnelIO
package import WireGuardCore
package import WireGuardDevice

/// The small host behind one end's interface in memory: answers pings, and counts and compares packets of bulk transfers.
package final class DemoHost: Sendable {
    struct State {
        /// The arrival of the first echo request since this was cleared, on ``LaneClock``.
        var requestArrival: Int64?
        /// The reply to the last ping, and its arrival.
        var (reply, replyArrival): ([UInt8], Int64?) = ([], nil)
        var sequence: UInt16 = 0
        var bulk: BulkTransfer?
    }

    package let name: String
    package let tun: MemoryTun
    private let addresses: [IPAddress]
    let state = Monitor(State())

    /// - Parameter addresses: The host's addresses in the tunnel: one of each family.
    package init(name: String, addresses: [IPAddress], mtu: Int) throws {
        (self.name, self.addresses) = (name, addresses)
        tun = try MemoryTun(name: name, mtu: mtu, queueCapacity: 2048, byteCapacity: 4 << 20)
        unsafe tun.onDeliver = { [weak self] packet in unsafe self?.handle(packet) }
    }

    /// Starts a WireGuard on the interface, over real UDP.
    package func startDevice() throws -> WireGuardDevice {
        let device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork())
        try device.start()
        return device
    }

    func address(isIPv6: Bool) throws -> IPAddress {
        guard let address = addresses.first(where: { $0.isIPv6 == isIPv6 }) else {
            throw CommandFailure("\(name) has no address of IPv\(isIPv6 ? 6 : 4)")
        }
        return address
    }

    /// Receives a packet from the tunnel, on the lane's thread.
    private func handle(_ packet: UnsafeRawBufferPointer) {
        let isUDP = unsafe packet.count > 9 && packet[0] >> 4 == 4 && packet[9] == PacketBuilder.IPProtocol.udp
        guard !isUDP else { return state.update { state in unsafe state.bulk?.count(packet) ?? false } }
        let now = LaneClock.now()
        if let reply = unsafe ICMPResponder().reply(to: packet) {
            state.withValue { $0.requestArrival = $0.requestArrival ?? now }
            tun.inject(reply)
            return
        }
        state.update { state in
            guard unsafe packet.elementsEqual(state.reply) else { return false }
            state.replyArrival = now
            return true
        }
    }

    // MARK: - Pings

    /// Sends an echo request.
    /// - Returns: The round-trip time, or `nil` if there was no answer in time.
    package func ping(_ other: DemoHost, isIPv6: Bool = false, within limit: Duration) throws -> Duration? {
        let (source, destination) = (try address(isIPv6: isIPv6), try other.address(isIPv6: isIPv6))
        let packet = state.withValue { state in
            state.sequence &+= 1
            let packet = PacketBuilder.icmpEcho(
                from: source, to: destination, identifier: 1, sequence: state.sequence,
                payload: Array(repeating: 0x77, count: 56))
            (state.reply, state.replyArrival) = (ICMPResponder().reply(to: packet) ?? [], nil)
            return packet
        }
        let start = LaneClock.now()
        guard tun.inject(packet) else { return nil }
        return state.wait(until: start + Int64(limit.milliseconds * 1e6)) { state in
            state.replyArrival.map { .nanoseconds($0 - start) }
        }
    }

    /// Sends a packet that needs a handshake.
    /// - Returns: The times until the other host had the packet, and until its answer was here.
    package func firstPacket(to other: DemoHost) throws -> (delivery: Duration, answer: Duration) {
        other.state.withValue { $0.requestArrival = nil }
        let start = LaneClock.now()
        guard let answer = try ping(other, within: .seconds(6)),
            let arrival = other.state.withValue({ $0.requestArrival })
        else { throw CommandFailure("no session within 6 s; is UDP on 127.0.0.1 blocked by a firewall?") }
        return (.nanoseconds(arrival - start), answer)
    }

    /// Sends a series of echo requests, each after the answer to the one before.
    /// - Throws: `CommandFailure` if none is answered.
    package func pings(_ count: Int, to other: DemoHost, isIPv6: Bool = false) throws -> Pings {
        var (sent, times): (Int, [Double]) = (0, [])
        // A lost ping takes a second, and ten of them are enough.
        while sent < count, sent - times.count < 10 {
            try Task.checkCancellation()
            if let time = try ping(other, isIPv6: isIPv6, within: .seconds(1)) { times.append(time.milliseconds) }
            sent += 1
        }
        guard let least = times.min(), let most = times.max() else {
            throw CommandFailure("none of \(sent) pings was answered")
        }
        let mean = times.reduce(0, +) / Double(times.count)
        return Pings(sent: sent, answered: times.count, times: [least, mean, most])
    }

    /// The steps of pings, of both families.
    package func showPings(_ count: Int, to other: DemoHost, _ report: DemoReport) throws {
        for (step, path, isIPv6) in [("ping IPv4", "ping.ipv4", false), ("ping IPv6", "ping.ipv6", true)] {
            report.view.begin(step)
            report.add(path, try pings(count, to: other, isIPv6: isIPv6))
        }
    }
}

extension WireGuardDevice {
    /// Gives the device peers, and a private key unless that is `nil`.
    /// - Parameter replacing: Whether the peers that it has go, and their sessions with them.
    package func setPeers(_ peers: [PeerConfiguration], key: PrivateKey? = nil, replacing: Bool = false) throws {
        let interface = InterfaceConfiguration(privateKey: key)
        var update = try TunnelConfiguration(interface: interface, peers: peers).deviceUpdate(mode: .add)
        update.replacePeers = replacing
        try apply(update)
    }
}
