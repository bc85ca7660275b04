// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
package import NetworkAddresses
package import TunnelIO
package import WireGuardCore

/// The small host behind one end's interface in memory: answers pings, and counts and compares packets of bulk transfers.
package final class DemoHost: Sendable {
    struct State {
        /// The arrival of the first echo request since this was cleared, on ``LaneClock``.
        var requestArrival: Int64?
        var reply: (identifier: UInt16, sequence: UInt16, arrival: Int64)?
        var bulk: BulkReceiver?
    }

    package let name: String
    package let tun: MemoryTun
    private let addresses: [IPAddress]
    let state = Monitor(State())

    /// - Parameter addresses: The host's addresses in the tunnel: one of each family.
    package init(name: String, addresses: [IPAddress], mtu: Int) throws(DemoFailure) {
        (self.name, self.addresses) = (name, addresses)
        do throws(TunnelIOError) {
            tun = try MemoryTun(name: name, mtu: mtu, queueCapacity: 2048, byteCapacity: 4 << 20)
        } catch {
            throw DemoFailure("\(error)")
        }
        unsafe tun.onDeliver = { [weak self] packet in unsafe self?.handle(packet) }
    }

    func address(isIPv6: Bool) throws(DemoFailure) -> IPAddress {
        guard let address = addresses.first(where: { $0.isIPv6 == isIPv6 }) else {
            throw DemoFailure("\(name) has no address of IPv\(isIPv6 ? 6 : 4)")
        }
        return address
    }

    /// The update that makes a peer known to a device.
    package static func peer(
        _ key: PublicKey, _ presharedKey: PresharedKey?, at endpoint: Endpoint?, allowedIPs: [IPPrefix]
    ) -> UAPIPeerUpdate {
        var update = UAPIPeerUpdate(publicKey: key)
        update.presharedKey = presharedKey.map { .set($0) } ?? .clear
        update.endpoint = endpoint
        update.replaceAllowedIPs = true
        update.allowedIPs = allowedIPs.map { .add($0) }
        return update
    }

    // MARK: - Packets out of the tunnel, on the lane's thread

    private func handle(_ packet: UnsafeRawBufferPointer) {
        guard let first = unsafe packet.first else { return }
        let header = first >> 4 == 4 ? 20 : 40
        guard packet.count >= header + 8 else { return }
        switch unsafe packet[header == 20 ? 9 : 6] {
        case PacketBuilder.IPProtocol.udp: state.update { state in unsafe state.bulk?.count(packet) ?? false }
        case PacketBuilder.IPProtocol.icmp, PacketBuilder.IPProtocol.icmpv6: unsafe handleEcho(packet, header)
        default: break
        }
    }

    private func handleEcho(_ packet: UnsafeRawBufferPointer, _ header: Int) {
        let now = LaneClock.now()
        func word(_ offset: Int) -> UInt16 {
            unsafe packet.loadUnaligned(fromByteOffset: header + offset, as: UInt16.self).bigEndian
        }
        if let reply = unsafe ICMPResponder().reply(to: packet) {
            state.withValue { $0.requestArrival = $0.requestArrival ?? now }
            tun.inject(reply)
        } else if unsafe packet[header] == 0 || packet[header] == 129 {
            let reply = (word(4), word(6), now)
            state.update { state in
                state.reply = reply
                return true
            }
        }
    }

    // MARK: - Pings

    /// Sends an echo request.
    /// - Returns: The round-trip time, or `nil` if there was no answer in time.
    package func ping(
        _ other: DemoHost, isIPv6: Bool = false, identifier: UInt16, sequence: UInt16 = 0, within limit: Duration
    ) throws(DemoFailure) -> Duration? {
        let packet = PacketBuilder.icmpEcho(
            from: try address(isIPv6: isIPv6), to: try other.address(isIPv6: isIPv6), identifier: identifier,
            sequence: sequence, payload: Array(repeating: 0x77, count: 56))
        let start = LaneClock.now()
        guard tun.inject(packet) else { return nil }
        return state.wait(until: start + Int64(limit.milliseconds * 1e6)) { state in
            guard let reply = state.reply, reply.identifier == identifier, reply.sequence == sequence,
                reply.arrival >= start
            else { return nil }
            return .nanoseconds(reply.arrival - start)
        }
    }

    /// Sends a packet that needs a handshake.
    /// - Returns: The times until the other host had the packet, and until its answer was here.
    package func firstPacket(
        to other: DemoHost, identifier: UInt16
    ) throws(DemoFailure) -> (delivery: Duration, answer: Duration) {
        other.state.withValue { $0.requestArrival = nil }
        let start = LaneClock.now()
        guard let answer = try ping(other, identifier: identifier, within: .seconds(6)),
            let arrival = other.state.withValue({ $0.requestArrival })
        else { throw DemoFailure("no session within 6 s; is UDP on 127.0.0.1 blocked by a firewall?") }
        return (.nanoseconds(arrival - start), answer)
    }

    /// Sends a series of echo requests, each after the answer to the one before.
    /// - Throws: `DemoFailure` if none is answered.
    package func pings(
        _ count: Int, to other: DemoHost, isIPv6: Bool = false, identifier: UInt16
    ) throws(DemoFailure) -> Pings {
        var (sent, roundTrips): (Int, [Duration]) = (0, [])
        // A lost ping takes a second, and ten of them are enough.
        while sent < count, sent - roundTrips.count < 10 {
            let time = try ping(
                other, isIPv6: isIPv6, identifier: identifier, sequence: UInt16(truncatingIfNeeded: sent),
                within: .seconds(1))
            if let time { roundTrips.append(time) }
            sent += 1
        }
        guard !roundTrips.isEmpty else { throw DemoFailure("none of \(sent) pings was answered") }
        return Pings(sent: sent, roundTrips: roundTrips)
    }

    /// The steps of pings, of both families.
    package func showPings(
        _ count: Int, to other: DemoHost, _ view: DemoView, _ report: inout DemoReport
    ) throws(DemoFailure) {
        for (step, isIPv6) in [("ping IPv4", false), ("ping IPv6", true)] {
            view.begin(step)
            let pings = try pings(count, to: other, isIPv6: isIPv6, identifier: isIPv6 ? 3 : 2)
            report.add(isIPv6 ? "ipv6" : "ipv4", pings)
            view.finish(pings.text)
        }
        report.summarizePings()
    }
}
