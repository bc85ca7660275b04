// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization

/// A tunnel's interface that is leased to a data plane. Its packets out of the tunnel can be filtered.
///
/// Without a filter, it costs one load of an atomic flag word for each batch. A filter takes a lock for each batch, and
/// copies each ICMP message and each datagram from port 53.
package final class TapTun: ForwardingTun {
    /// Receives a packet out of the tunnel, and returns true to remove it. Called on the device's threads.
    package typealias Filter = @Sendable ([UInt8]) -> Bool

    /// The part that the queues of one interface share: a reply may arrive at any of them.
    private final class Shared: Sendable {
        let flags = Atomic<UInt8>(0)
        let filter = Mutex<Filter?>(nil)
        let awaiting = Mutex<(@Sendable () -> Void)?>(nil)
    }

    private enum Flag {
        static let isEnded: UInt8 = 1
        static let isFiltering: UInt8 = 2
        static let hasDelivered: UInt8 = 4
        static let isAwaited: UInt8 = 8
    }

    package let device: any TunDevice
    private let shared: Shared
    private let filtersQueues: Bool
    private let isLease: Bool

    /// - Parameters:
    ///   - device: The interface. If it is already a lease, the new device shares that lease: closing either ends it.
    ///   - filter: Whether a filter also receives the packets of further queues.
    ///   - lease: Whether ``close()`` ends the use of the device and leaves it open, instead of closing it.
    package convenience init(_ device: any TunDevice, filter: Bool = false, lease: Bool = false) {
        if let leased = device as? TapTun, leased.isLease, !leased.filtersQueues {
            self.init(leased.device, leased.shared, filter: filter, lease: true)
        } else {
            self.init(device, Shared(), filter: filter, lease: lease)
        }
    }

    private init(_ device: any TunDevice, _ shared: Shared, filter: Bool, lease: Bool) {
        (self.device, self.shared, filtersQueues, isLease) = (device, shared, filter, lease)
    }

    /// Sets the filter of ICMP messages, and of UDP datagrams from port 53, on all queues.
    package func setFilter(_ filter: Filter?) {
        let old = shared.filter.withLock { present -> Filter? in
            defer { present = filter }
            if filter == nil {
                shared.flags.bitwiseAnd(~Flag.isFiltering, ordering: .releasing)
            } else {
                shared.flags.bitwiseOr(Flag.isFiltering, ordering: .releasing)
            }
            return present
        }
        // The captures of the old filter must not be released under the lock.
        withExtendedLifetime(old) {}
    }

    /// Whether the tunnel has delivered a packet since the start, or since ``forgetPackets()``.
    package var hasDelivered: Bool { shared.flags.load(ordering: .relaxed) & Flag.hasDelivered != 0 }

    package func forgetPackets() { shared.flags.bitwiseAnd(~Flag.hasDelivered, ordering: .relaxed) }

    /// Has `handler` called once, when the next packet passes through the tunnel in either direction or
    /// ``reportEvent()`` is called, on a thread of the device. `nil` ends the wait.
    package func onNextPacket(_ handler: (@Sendable () -> Void)?) {
        let old = shared.awaiting.withLock { present -> (@Sendable () -> Void)? in
            defer { present = handler }
            if handler == nil {
                shared.flags.bitwiseAnd(~Flag.isAwaited, ordering: .relaxed)
            } else {
                shared.flags.bitwiseOr(Flag.isAwaited, ordering: .relaxed)
            }
            return present
        }
        withExtendedLifetime(old) {}
    }

    // MARK: - The device

    /// Whether the lease has ended.
    package var isEnded: Bool { isLease && shared.flags.load(ordering: .acquiring) & Flag.isEnded != 0 }

    package func check() throws(TunnelIOError) {
        if isEnded { throw TunnelIOError(.closed) }
    }

    /// Another queue, which its user closes: it is not part of the lease.
    package func makeQueue() throws(TunnelIOError) -> any TunDevice {
        try check()
        let queue = try device.makeQueue()
        return filtersQueues ? TapTun(queue, shared, filter: true, lease: false) : queue
    }

    package func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try check()
        let count = try device.receive(into: batch)
        if count > 0, shared.flags.load(ordering: .relaxed) & Flag.isAwaited != 0 { reportEvent() }
        return count
    }

    /// Calls the handler of ``onNextPacket(_:)``, if one waits. It is for packets, and for events of the owner.
    package func reportEvent() {
        let handler = shared.awaiting.withLock { present -> (@Sendable () -> Void)? in
            defer { present = nil }
            shared.flags.bitwiseAnd(~Flag.isAwaited, ordering: .relaxed)
            return present
        }
        handler?()
    }

    package func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        let flags = shared.flags.load(ordering: .acquiring)
        if isLease, flags & Flag.isEnded != 0 { throw TunnelIOError(.closed) }
        // Queues on several threads share the word: write it only if it changes.
        if flags & Flag.hasDelivered == 0, batch.count > 0 {
            shared.flags.bitwiseOr(Flag.hasDelivered, ordering: .relaxed)
        }
        if flags & Flag.isAwaited != 0, batch.count > 0 { reportEvent() }
        if flags & Flag.isFiltering != 0 { removeReplies(from: batch) }
        return try device.send(batch)
    }

    package func close() {
        guard isLease else { return device.close() }
        shared.flags.bitwiseOr(Flag.isEnded, ordering: .releasing)
    }

    private func removeReplies(from batch: PacketBatch) {
        guard let filter = shared.filter.withLock({ $0 }) else { return }
        for index in 0..<batch.count {
            let isCandidate = unsafe Self.isCandidate(UnsafeRawBufferPointer(batch.bytes(of: index)))
            if isCandidate, filter(batch.copy(of: index)) { batch[index].length = 0 }
        }
    }

    /// Whether the packet can be a reply to a probe: ICMP, or UDP from the port of DNS.
    @inline(__always)
    private static func isCandidate(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let packet = unsafe IPPacketView(bytes), packet.payload.count >= 8 else { return false }
        switch packet.number {
        case PacketBuilder.IPProtocol.icmp: return !packet.source.isIPv6
        case PacketBuilder.IPProtocol.icmpv6: return packet.source.isIPv6
        case PacketBuilder.IPProtocol.udp:
            let start = packet.payload.lowerBound
            return unsafe bytes[start] == 0 && bytes[start + 1] == 53
        default: return false
        }
    }
}
