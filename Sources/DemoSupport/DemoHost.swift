// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineSupport
package import NetworkAddresses
package import TunnelIO
import WireGuardCore
package import WireGuardDevice

/// The small host behind one end's interface in memory: sends and answers pings, and takes part in bulk transfers.
package final class DemoHost: Sendable {
    private struct State {
        /// The reply to the last ping, and its arrival on ``LaneClock``.
        var (reply, replyArrival): ([UInt8], Int64?) = ([], nil)
        var sequence: UInt16 = 0
    }

    package let name: String
    package let tun: MemoryTun
    let mtu: Int
    package let addresses: [IPAddress]
    private let state = Monitor(State())

    /// - Parameter addresses: The host's addresses in the tunnel: one of each family.
    package init(name: String, addresses: [IPAddress], mtu: Int) throws {
        (self.name, self.addresses, self.mtu) = (name, addresses, mtu)
        tun = try MemoryTun(name: name, mtu: mtu, queueCapacity: 2048, byteCapacity: 4 << 20)
        answerPings()
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

    // MARK: - Pings

    /// Answers echo requests from now on, and waits for the replies to those that it sends.
    func answerPings() {
        unsafe tun.responder = { [state] packet in
            if let answer = unsafe ICMPResponder().reply(to: packet) { return answer }
            state.update { state in
                guard unsafe packet.elementsEqual(state.reply) else { return false }
                state.replyArrival = LaneClock.now()
                return true
            }
            return nil
        }
    }

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
        return state.wait(until: start + limit.wholeNanoseconds) { state in
            state.replyArrival.map { .nanoseconds($0 - start) }
        }
    }

    /// Sends a ping that needs a handshake.
    package func firstPing(_ other: DemoHost) throws -> Duration {
        guard let time = try ping(other, within: .seconds(6)) else {
            throw CommandFailure("no session within 6 s; is UDP on the loopback interface blocked by a firewall?")
        }
        return time
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
        guard !times.isEmpty else { throw CommandFailure("none of \(sent) pings was answered") }
        return Pings(sent: sent, roundTrips: times)
    }

    /// The steps of pings, of both families.
    package func showPings(_ count: Int, to other: DemoHost, _ report: DemoReport) throws {
        for (step, path, isIPv6) in [("ping IPv4", "ping.ipv4", false), ("ping IPv6", "ping.ipv6", true)] {
            report.view.begin(step)
            report.add(path, try pings(count, to: other, isIPv6: isIPv6))
        }
    }
}
