// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// Functions for single packets and datagrams: for tests, simulators, and owners that prefer simplicity to speed.
extension Engine {
    /// Sends one IP packet.
    /// - Parameters:
    ///   - packet: The packet's bytes.
    ///   - mtu: The interface's MTU in bytes, which bounds padding; zero for no bound.
    ///   - now: The present time of the owner's clock.
    ///   - wall: The wall clock.
    /// - Returns: The datagrams to send now: the sealed packet, or the handshake that must precede it.
    public mutating func send(_ packet: [UInt8], mtu: Int = 1420, at now: Instant, wall: WallTime) -> [OutgoingDatagram]
    {
        var result: [OutgoingDatagram] = []
        // Reserve space for padding after the packet.
        var bytes = packet + [UInt8](repeating: 0, count: 16)
        let plan = SendPlan()
        let capacity = SendPlan.maximumDatagramByteCount(forPacket: packet.count)
        unsafe bytes.withUnsafeMutableBytes { raw in
            guard let base = raw.baseAddress else { return }
            let view = unsafe PacketView(base: base, count: packet.count)
            unsafe withUnsafePointer(to: view) { pointer in
                let views = unsafe UnsafeBufferPointer(start: pointer, count: 1)
                unsafe planSend(views, mtu: mtu, at: now, wall: wall, into: plan)
                unsafe withUnsafeTemporaryAllocation(byteCount: capacity, alignment: 16) { out in
                    guard let start = out.baseAddress else { return }
                    unsafe plan.seal(views, into: start, capacity: capacity) { offset, byteCount, endpoint in
                        unsafe result.append(
                            OutgoingDatagram(
                                bytes: Array(UnsafeRawBufferPointer(start: start + offset, count: byteCount)),
                                endpoint: endpoint))
                    }
                }
            }
        }
        return result + drainAll(mtu: mtu, at: now, wall: wall)
    }

    /// Receives one datagram.
    /// - Returns: The IP packet inside, if it must be delivered. Then call ``drainAll(mtu:at:wall:)`` for the engine's own
    ///   messages.
    public mutating func receive(
        _ datagram: [UInt8], from source: Endpoint, at now: Instant, wall: WallTime
    ) -> [UInt8]? {
        var bytes = datagram
        let plan = ReceivePlan(capacity: 1)
        return unsafe bytes.withUnsafeMutableBytes { raw -> [UInt8]? in
            guard let base = raw.baseAddress else { return nil }
            let view = unsafe PacketView(base: base, count: raw.count)
            return unsafe withUnsafePointer(to: view) { pointer -> [UInt8]? in
                let views = unsafe UnsafeBufferPointer(start: pointer, count: 1)
                unsafe planOpen(views, endpoints: { _ in source }, at: now, wall: wall, into: plan)
                unsafe plan.open(views)
                unsafe commit(plan, views, endpoints: { _ in source }, at: now, wall: wall)
                let byteCount = plan.packetByteCount(at: 0)
                guard byteCount > 0 else { return nil }
                return unsafe Array(
                    UnsafeRawBufferPointer(start: base + ReceivePlan.packetOffset, count: byteCount))
            }
        }
    }

    /// Returns everything that waits to be sent: handshakes, keepalives, and packets that waited for a session.
    public mutating func drainAll(mtu: Int = 1420, at now: Instant, wall: WallTime) -> [OutgoingDatagram] {
        var result: [OutgoingDatagram] = []
        let plan = DrainPlan()
        while hasPending {
            drain(into: plan, maximumMessages: 64, maximumBytes: 65_536, mtu: mtu, at: now, wall: wall)
            // A call with an empty plan may have started handshakes. The next call then returns them.
            guard plan.count > 0 || !outbox.isEmpty else { break }
            let capacity = 65_536 + SendPlan.maximumDatagramByteCount(forPacket: 65_535)
            unsafe withUnsafeTemporaryAllocation(byteCount: capacity, alignment: 16) { out in
                guard let start = out.baseAddress else { return }
                unsafe plan.write(into: start, capacity: capacity) { offset, byteCount, endpoint in
                    unsafe result.append(
                        OutgoingDatagram(
                            bytes: Array(UnsafeRawBufferPointer(start: start + offset, count: byteCount)),
                            endpoint: endpoint))
                }
            }
        }
        return result
    }
}

/// A datagram that an engine sends.
public struct OutgoingDatagram: Hashable, Sendable {
    /// The UDP payload.
    public var bytes: [UInt8]
    /// The destination.
    public var endpoint: Endpoint

    /// A datagram.
    public init(bytes: [UInt8], endpoint: Endpoint) {
        self.bytes = bytes
        self.endpoint = endpoint
    }
}
