// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import Synchronization
package import TunnelIO

/// A small network in memory: every address in it answers ping (RFC 792, RFC 4443) and echoes UDP (RFC 862).
public final class VirtualNetwork: Sendable {
    /// The counters of a network.
    public struct Statistics: Hashable, Sendable {
        /// Packets that the network received.
        public var packetsReceived = 0
        /// Bytes that the network received.
        public var bytesReceived = 0
        /// Echo requests that were answered.
        public var pingsAnswered = 0
        /// UDP datagrams that were echoed.
        public var datagramsEchoed = 0
        /// Packets that got no answer.
        public var unanswered = 0
    }

    private struct State {
        var isReachable = true
        var statistics = Statistics()
    }

    /// The networks whose addresses answer.
    public let prefixes: [IPPrefix]
    private let echoPort: UInt16?
    private let state = Mutex(State())

    /// A network.
    ///
    /// - Parameters:
    ///   - prefixes: the networks whose addresses answer; by default all.
    ///   - echoPort: the UDP port that echoes; nil is every port.
    public init(prefixes: [IPPrefix] = [.allIPv4, .allIPv6], echoPort: UInt16? = nil) {
        self.prefixes = prefixes
        self.echoPort = echoPort
    }

    /// The counters so far.
    public var statistics: Statistics { state.withLock { $0.statistics } }

    /// Whether the network answers. If not, it drops every packet.
    public var isReachable: Bool {
        get { state.withLock { $0.isReachable } }
        set { state.withLock { $0.isReachable = newValue } }
    }

    /// Takes an IP packet and returns the answer, if there is one.
    public func receive(_ packet: [UInt8]) -> [UInt8]? {
        let isReachable = state.withLock { state in
            state.statistics.packetsReceived += 1
            state.statistics.bytesReceived += packet.count
            return state.isReachable
        }
        guard isReachable, let header = unsafe packet.withUnsafeBytes({ unsafe IPPacketView($0) }),
            prefixes.contains(where: { $0.contains(header.destination) })
        else { return count(\.unanswered, nil) }
        if let answer = ICMPResponder().reply(to: packet) {
            return count(\.pingsAnswered, answer)
        }
        if let answer = echo(packet) { return count(\.datagramsEchoed, answer) }
        return count(\.unanswered, nil)
    }

    private func count(_ counter: WritableKeyPath<Statistics, Int>, _ answer: [UInt8]?) -> [UInt8]? {
        state.withLock { $0.statistics[keyPath: counter] += 1 }
        return answer
    }

    /// Returns the datagram of `packet` addressed back to its sender, or `nil` if it is not a complete and correct UDP
    /// datagram.
    private func echo(_ packet: [UInt8]) -> [UInt8]? {
        guard let datagram = UDPDatagramView(packet), datagram.isIntact,
            echoPort == nil || datagram.destinationPort == echoPort
        else { return nil }
        let (source, destination) = (datagram.packet.source, datagram.packet.destination)
        guard !source.isMulticast, !destination.isMulticast else { return nil }
        return PacketBuilder.udp(
            from: destination, port: datagram.destinationPort, to: source, port: datagram.sourcePort,
            payload: Array(packet[datagram.payload]))
    }
}

extension VirtualNetwork {
    /// Makes an interface in memory in front of this network.
    package func makeTun(name: String = "memory") throws(TunnelIOError) -> MemoryTun {
        let tun = try MemoryTun(name: name)
        tun.connect(to: self)
        return tun
    }
}

extension MemoryTun {
    /// Sends to `network` from now on, and receives its answers.
    package func connect(to network: VirtualNetwork) {
        unsafe responder = { packet in unsafe network.receive(Array(packet)) }
        disconnect()
    }
}
