// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization
import TunnelIO
import TunnelSystem

/// The system's packet flow as an interface.
///
/// Packets wait in the form in which the system passed them, and are copied once, into the reader's batch. The next
/// packets are requested when all have been read. Until then the system keeps further packets, and drops those that do
/// not fit into its queue. The system decides how many packets it delivers. If there are more than the capacity,
/// several reads return them, and each read releases its packets.
final class PacketFlowTun: TunDevice {
    private struct State {
        var packets: [Data] = []
        var next = 0
        var isClosed = false
        var mtu: Int
        var events: [LinkEvent] = []
        var statistics = TunStatistics()
        var overflow = 0
        var refusedWrites: UInt64 = 0
        var refusals = BoundedLog(most: 3)
    }

    private let reader: PacketFlowReader
    private let name: String
    private let packetCapacity: Int
    private let byteCapacity: Int
    private let state: Mutex<State>
    private let report: @Sendable (String) -> Void
    private let arrived: WakeSignal
    private let links: WakeSignal
    /// The number of packets that are copied and passed to the system in one call.
    private static let writeCount = 64

    /// - Parameters:
    ///   - packetCapacity: The maximum number of packets of one ``receive(into:)``.
    ///   - byteCapacity: The maximum number of bytes of those packets, at least 65,536.
    ///   - report: Called with a warning, at most three times a minute.
    /// - Throws: `.eventLoop` when the system has no more descriptors.
    init(
        _ reader: PacketFlowReader, name: String, mtu: Int, packetCapacity: Int, byteCapacity: Int,
        report: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(TunnelIOError) {
        self.reader = reader
        self.report = report
        self.name = name
        self.packetCapacity = max(packetCapacity, 1)
        self.byteCapacity = max(byteCapacity, 1 << 16)
        arrived = try WakeSignal()
        links = try WakeSignal()
        state = Mutex(State(mtu: mtu))
    }

    /// Begins to read.
    func start() { reader.ask(for: self) }

    // MARK: - Packets from the system into the tunnel

    /// Adds the packets that the system delivered in one read.
    func accept(_ packets: [Data]) {
        let isEmpty = state.withLock { state -> Bool? in
            guard !state.isClosed else { return nil }
            (state.packets, state.next) = (packets, 0)
            if !packets.isEmpty { arrived.raise() }
            return packets.isEmpty
        }
        if isEmpty == true { reader.ask(for: self) }
    }

    func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try batch.checkReadable()
        let before = batch.count
        let isDrained = try state.withLock { (state) throws(TunnelIOError) -> Bool in
            if state.isClosed { throw TunnelIOError(.closed) }
            guard !state.packets.isEmpty else { return false }
            let (first, end) = (state.next, min(state.packets.count, state.next + packetCapacity))
            var bytes = 0
            while state.next < end {
                bytes += state.packets[state.next].count
                guard state.next == first || bytes <= byteCapacity,
                    append(state.packets[state.next], into: batch, &state)
                else { break }
                // A large delivery is read over some time, so release each packet once it is copied.
                if state.packets.count > packetCapacity { state.packets[state.next] = Data() }
                state.next += 1
            }
            guard state.next == state.packets.count else { return false }
            // Release the packets now rather than at the system's next delivery, to free their memory.
            state.packets = []
            arrived.clear()
            return true
        }
        if isDrained { reader.ask(for: self) }
        return batch.count - before
    }

    /// Copies a packet into the batch. Returns whether the packet needs no further read: it was copied, or is not
    /// usable.
    private func append(_ packet: Data, into batch: PacketBatch, _ state: inout State) -> Bool {
        guard let first = packet.first, first >> 4 == 4 || first >> 4 == 6 else {
            state.statistics.malformedFrames += 1
            return true
        }
        guard packet.count <= PacketBatch.longestPacket else {
            // No batch can hold it, so it would block the queue.
            state.overflow += 1
            return true
        }
        return unsafe packet.withUnsafeBytes { unsafe batch.appendRead($0) }
    }

    var readiness: Int32 { arrived.descriptor }

    /// The number of packets from the system that no batch can hold.
    var overflowCount: Int { state.withLock { $0.overflow } }

    /// The number of packets out of the tunnel that the system refused.
    var refusedWriteCount: UInt64 { state.withLock { $0.refusedWrites } }

    // MARK: - Packets out of the tunnel

    func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        if state.withLock({ $0.isClosed }) { throw TunnelIOError(.closed) }
        var result = TunSendResult(sent: 0, dropped: 0)
        var next = 0
        while next < batch.count {
            // The system creates its own objects for each packet.
            autoreleasepool { write(batch, from: &next, &result) }
        }
        return result
    }

    private func write(_ batch: PacketBatch, from next: inout Int, _ result: inout TunSendResult) {
        var packets: [Data] = []
        var families: [NSNumber] = []
        packets.reserveCapacity(min(Self.writeCount, batch.count - next))
        families.reserveCapacity(min(Self.writeCount, batch.count - next))
        while next < batch.count, packets.count < Self.writeCount {
            let bytes = unsafe UnsafeRawBufferPointer(batch.bytes(of: next))
            next += 1
            guard let first = unsafe bytes.first else { continue }
            switch first >> 4 {
            case 4: families.append(PacketFamily.inet)
            case 6: families.append(PacketFamily.inet6)
            default:
                result.dropped += 1
                continue
            }
            unsafe packets.append(Data(bytes))
        }
        guard !packets.isEmpty else { return }
        if reader.flow.writePackets(packets, withProtocols: families) {
            result.sent += packets.count
        } else {
            result.dropped += packets.count
            recordRefusal(of: packets.count)
        }
    }

    private func recordRefusal(of count: Int) {
        let now = Int64((ContinuousClock.now - Self.origin) / .nanoseconds(1))
        let lines = state.withLock { state in
            state.refusedWrites += UInt64(count)
            return state.refusals.lines(
                "the system refused \(count) packets from the tunnel (\(state.refusedWrites) since the start)", at: now)
        }
        for line in lines { report(line) }
    }

    private static let origin = ContinuousClock.now

    // MARK: - The interface

    private func check() throws(TunnelIOError) {
        if state.withLock({ $0.isClosed }) { throw TunnelIOError(.closed) }
    }

    func currentName() throws(TunnelIOError) -> String {
        try check()
        return name
    }

    func currentMTU() throws(TunnelIOError) -> Int { try currentLinkState().mtu }

    func currentLinkState() throws(TunnelIOError) -> LinkState {
        try check()
        return state.withLock { LinkState(isUp: true, mtu: $0.mtu) }
    }

    /// Called when new settings are in effect.
    func setMTU(_ mtu: Int) {
        state.withLock { state in
            guard state.mtu != mtu else { return }
            state.mtu = mtu
            if state.events.isEmpty { links.raise() }
            state.events.append(.mtu(mtu))
        }
    }

    var linkReadiness: Int32? { links.descriptor }

    func drainLinkEvents() -> [LinkEvent] {
        state.withLock { state in
            links.clear()
            defer { state.events = [] }
            return state.events
        }
    }

    var hasBufferedPackets: Bool { false }

    func makeQueue() throws(TunnelIOError) -> any TunDevice { throw .oneQueue }

    var statistics: TunStatistics { state.withLock { $0.statistics } }

    func close() {
        state.withLock { state in
            state.isClosed = true
            (state.packets, state.next) = ([], 0)
        }
        // Wake waiting readers, which then find that the device is closed.
        arrived.raise()
    }
}

/// The protocol families in Darwin's numbering, which the packet flow expects.
private enum PacketFamily {
    static let inet = NSNumber(value: 2 as Int32)
    static let inet6 = NSNumber(value: 30 as Int32)
}
