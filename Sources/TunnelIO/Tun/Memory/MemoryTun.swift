// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A TUN device in memory, for tests, demonstrations and simulators.
///
/// It behaves as the system's does: it can be down, has an MTU, drops what its bounded queues cannot hold, refuses what
/// is no IP packet, reports changes, and can be removed. The other side, where the system's network stack would be, is
/// this API: ``inject(_:)-([UInt8])`` is what the system routes to the device, and what the device is sent goes to the
/// first of these that is set: the connected device, ``responder``, ``onDeliver``; and else waits for
/// ``takeDelivered()``.
///
/// All methods may be called from any thread.
public final class MemoryTun: TunDevice {
    /// What answers a packet that the device was sent; nil where there is no answer. The bytes are valid during the call.
    public typealias Responder = @Sendable (UnsafeRawBufferPointer) -> [UInt8]?
    /// What takes a packet that the device was sent. The bytes are valid during the call.
    public typealias DeliveryHandler = @Sendable (UnsafeRawBufferPointer) -> Void

    private let state: Mutex<State>
    private let name: String

    /// A descriptor that polls readable while packets wait to be received, and forever once the device is removed or closed.
    public let readiness: Int32
    /// A descriptor that polls readable while ``drainLinkEvents()`` has something to give.
    public let linkReadiness: Int32?

    /// A device that is up.
    ///
    /// - Parameters:
    ///   - name: what ``currentName()`` says.
    ///   - mtu: in bytes, 68 to 65,535.
    ///   - queueCapacity: the most packets that wait in either direction.
    ///   - byteCapacity: the most bytes that wait in either direction.
    /// - Throws: `.outOfMemory`, or `.eventLoop` when the system has no more descriptors.
    public init(
        name: String = "memory", mtu: Int = 1420, queueCapacity: Int = 1024, byteCapacity: Int = 1 << 20
    ) throws(TunnelIOError) {
        let state = try State(mtu: mtu, queueCapacity: queueCapacity, byteCapacity: byteCapacity)
        self.name = name
        readiness = state.packets.descriptor
        linkReadiness = state.links.descriptor
        self.state = Mutex(state)
    }

    @safe
    private struct State: ~Copyable, Sendable {
        let packets: WakeSignal
        let links: WakeSignal
        var inbound: PacketRing
        var delivered: PacketRing
        var events: [LinkEvent] = []
        var isUp = true
        var mtu: Int
        var isRemoved = false
        var isClosed = false
        var injectionsDropped = 0
        var deliveriesDropped = 0
        var responder: Responder?
        var onDeliver: DeliveryHandler?
        weak var other: MemoryTun?

        init(mtu: Int, queueCapacity: Int, byteCapacity: Int) throws(TunnelIOError) {
            let packets = try WakeSignal()
            let links = try WakeSignal()
            let inbound = try PacketRing(packetCapacity: queueCapacity, byteCapacity: byteCapacity)
            let delivered = try PacketRing(packetCapacity: queueCapacity, byteCapacity: byteCapacity)
            self.packets = packets
            self.links = links
            self.inbound = inbound
            self.delivered = delivered
            self.mtu = mtu
        }

        mutating func report(_ event: LinkEvent) {
            if events.isEmpty { links.raise() }
            events.append(event)
        }

        func check(name: String) throws(TunnelIOError) {
            if isClosed { throw TunnelIOError(.closed) }
            if isRemoved { throw TunnelIOError(.deviceRemoved(name: name)) }
        }

        mutating func inject(_ packet: UnsafeRawBufferPointer) -> Bool {
            guard isUp, !isRemoved, !isClosed, unsafe MemoryTun.isIP(packet), packet.count <= mtu,
                unsafe inbound.push(packet)
            else {
                injectionsDropped += 1
                return false
            }
            if inbound.count == 1 { packets.raise() }
            return true
        }
    }

    private static func isIP(_ packet: UnsafeRawBufferPointer) -> Bool {
        guard let first = unsafe packet.first else { return false }
        return first >> 4 == 4 || first >> 4 == 6
    }

    // MARK: - The device

    /// The interface's name.
    /// - Throws: `.deviceRemoved`, `.closed`.
    public func currentName() throws(TunnelIOError) -> String {
        try state.withLock { state throws(TunnelIOError) in try state.check(name: name) }
        return name
    }

    /// The most bytes that one IP packet may have on this interface.
    /// - Throws: as ``currentLinkState()``.
    public func currentMTU() throws(TunnelIOError) -> Int {
        try currentLinkState().mtu
    }

    /// Whether the device is up, and the most bytes that one IP packet may have on it.
    public func currentLinkState() throws(TunnelIOError) -> LinkState {
        try state.withLock { state throws(TunnelIOError) in
            try state.check(name: name)
            return LinkState(isUp: state.isUp, mtu: state.mtu)
        }
    }

    /// Appends packets, at multiples of 16, until there are no more or the batch has no room for the next one.
    ///
    /// A packet that an empty batch could not hold is dropped.
    public func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try state.withLock { state throws(TunnelIOError) in
            try state.check(name: name)
            let before = batch.count
            while unsafe state.inbound.pop({ unsafe Self.append($0, to: batch) }) {}
            if state.inbound.count > 0, batch.isEmpty {
                _ = unsafe state.inbound.pop { _ in true }
                state.injectionsDropped += 1
            }
            if state.inbound.count == 0 { state.packets.clear() }
            return batch.count - before
        }
    }

    private static func append(_ packet: UnsafeRawBufferPointer, to batch: PacketBatch) -> Bool {
        let margin = 32
        let start = (batch.tail + (batch.tail == 0 ? margin : 2 * margin) + 15) & ~15
        guard start + packet.count + margin <= batch.byteCapacity,
            batch.append(offset: start, length: packet.count) != nil
        else { return false }
        if let bytes = packet.baseAddress {
            unsafe (batch.base + start).copyMemory(from: bytes, byteCount: packet.count)
        }
        return true
    }

    /// Hands every packet of nonzero length to the other side.
    /// - Returns: how many were taken, and how many dropped.
    /// - Throws: `.deviceRemoved`, `.closed`.
    public func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        var result = TunSendResult(sent: 0, dropped: 0)
        for index in 0..<batch.count {
            let packet = unsafe UnsafeRawBufferPointer(batch.bytes(of: index))
            guard packet.count > 0 else { continue }
            if try unsafe deliver(packet) { result.sent += 1 } else { result.dropped += 1 }
        }
        return result
    }

    /// Where a packet goes that the device is sent.
    @safe
    private enum Destination {
        case other(MemoryTun)
        case responder(Responder)
        case handler(DeliveryHandler)
        case queue(taken: Bool)
    }

    private func deliver(_ packet: UnsafeRawBufferPointer) throws(TunnelIOError) -> Bool {
        let destination = try state.withLock { state throws(TunnelIOError) -> Destination in
            try state.check(name: name)
            guard state.isUp, unsafe Self.isIP(packet) else { return .queue(taken: false) }
            if let other = state.other { return .other(other) }
            if let responder = unsafe state.responder { return unsafe .responder(responder) }
            if let handler = unsafe state.onDeliver { return unsafe .handler(handler) }
            let taken = unsafe state.delivered.push(packet)
            if !taken { state.deliveriesDropped += 1 }
            return .queue(taken: taken)
        }
        // Outside the lock: what is called may call back, and two connected devices may send at once.
        switch destination {
        case .other(let other): return unsafe other.inject(packet)
        case .responder(let respond):
            if let answer = unsafe respond(packet) { inject(answer) }
            return true
        case .handler(let handle):
            unsafe handle(packet)
            return true
        case .queue(let taken): return taken
        }
    }

    /// The changes of the interface since the last call, oldest first. Does not block.
    public func drainLinkEvents() -> [LinkEvent] {
        state.withLock { state in
            let events = state.events
            state.events = []
            state.links.clear()
            return events
        }
    }

    /// Closes the device. Safe to repeat.
    public func close() {
        state.withLock { state in
            state.isClosed = true
            state.inbound.removeAll()
            state.other = nil
            unsafe state.responder = nil
            unsafe state.onDeliver = nil
            state.packets.raise()
        }
    }

    // MARK: - The other side

    /// Gives the device a packet to receive, as the system does when it routes one to it.
    /// - Returns: false when it was dropped: the device is down or gone, the queue is full, the packet is longer than
    ///   the MTU or is no IP packet.
    @discardableResult
    public func inject(_ packet: [UInt8]) -> Bool {
        unsafe packet.withUnsafeBytes { unsafe inject($0) }
    }

    /// Gives the device a packet to receive, as ``inject(_:)-([UInt8])`` does.
    @discardableResult
    public func inject(_ packet: UnsafeRawBufferPointer) -> Bool {
        state.withLock { unsafe $0.inject(packet) }
    }

    /// Gives the device every packet of nonzero length to receive.
    /// - Returns: how many were not dropped.
    @discardableResult
    public func inject(_ batch: PacketBatch) -> Int {
        state.withLock { state in
            var taken = 0
            for index in 0..<batch.count where batch[index].length > 0 {
                if unsafe state.inject(UnsafeRawBufferPointer(batch.bytes(of: index))) { taken += 1 }
            }
            return taken
        }
    }

    /// The packets that the device was sent since the last call, oldest first.
    public func takeDelivered() -> [[UInt8]] {
        state.withLock { state in
            var packets: [[UInt8]] = []
            while unsafe state.delivered.pop({ packet in
                unsafe packets.append(Array(packet))
                return true
            }) {}
            return packets
        }
    }

    /// What takes the packets that the device is sent, on the sender's thread.
    public var onDeliver: DeliveryHandler? {
        get { unsafe state.withLock { unsafe $0.onDeliver } }
        set { state.withLock { unsafe $0.onDeliver = newValue } }
    }

    /// What answers the packets that the device is sent, on the sender's thread. Answers are injected.
    public var responder: Responder? {
        get { unsafe state.withLock { unsafe $0.responder } }
        set { state.withLock { unsafe $0.responder = newValue } }
    }

    /// Connects two devices: what one is sent, the other receives. Neither keeps the other alive.
    public static func connect(_ one: MemoryTun, _ two: MemoryTun) {
        one.state.withLock { $0.other = two }
        two.state.withLock { $0.other = one }
    }

    /// Injected packets that were dropped.
    public var injectionsDropped: Int { state.withLock { $0.injectionsDropped } }

    /// Sent packets that ``takeDelivered()`` left no room for.
    public var deliveriesDropped: Int { state.withLock { $0.deliveriesDropped } }

    /// Brings the device up or takes it down.
    public func setUp(_ isUp: Bool) throws(TunnelIOError) {
        try state.withLock { state throws(TunnelIOError) in
            try state.check(name: name)
            guard state.isUp != isUp else { return }
            state.isUp = isUp
            state.report(isUp ? .up : .down)
        }
    }

    /// Sets the most bytes that one IP packet may have.
    /// - Throws: `.device` when it is not within 68 to 65,535.
    public func setMTU(_ mtu: Int) throws(TunnelIOError) {
        try state.withLock { state throws(TunnelIOError) in
            try state.check(name: name)
            guard (68...65_535).contains(mtu) else {
                throw TunnelIOError(.device(name: name, operation: "set the MTU to \(mtu)"))
            }
            guard state.mtu != mtu else { return }
            state.mtu = mtu
            state.report(.mtu(mtu))
        }
    }

    /// Removes the device, as deleting the interface does. Safe to repeat.
    public func removeDevice() {
        state.withLock { state in
            guard !state.isRemoved, !state.isClosed else { return }
            state.isRemoved = true
            state.inbound.removeAll()
            state.report(.removed)
            state.packets.raise()
        }
    }
}
