// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The other side of the device: the system's network stack and its administrator.
extension MemoryTun {
    /// Delivers a packet to the device, as the system does when it routes one to it.
    /// - Returns: false if it was dropped: the device is down or removed, the queue is full, the packet is longer than the
    ///   MTU or is not an IP packet.
    @discardableResult
    public func inject(_ packet: [UInt8]) -> Bool {
        unsafe packet.withUnsafeBytes { unsafe inject($0) }
    }

    /// Gives the device a packet to receive, as ``inject(_:)-([UInt8])`` does.
    @discardableResult
    public func inject(_ packet: UnsafeRawBufferPointer) -> Bool {
        unsafe interface.inject(packet) == .taken
    }

    /// Delivers every packet of nonzero length to the device.
    /// - Returns: the number of packets that were not dropped.
    @discardableResult
    public func inject(_ batch: PacketBatch) -> Int {
        interface.state.withLock { state in
            var taken = 0
            for index in 0..<batch.count where batch[index].length > 0 {
                if unsafe state.inject(UnsafeRawBufferPointer(batch.bytes(of: index))) == .taken { taken += 1 }
            }
            return taken
        }
    }

    /// Returns and removes the packets that were sent through the device since the last call, oldest first.
    public func takeDelivered() -> [[UInt8]] { takeDelivered(atMost: .max) }

    /// Returns and removes at most `limit` of the packets that were sent through the device, oldest first.
    package func takeDelivered(atMost limit: Int) -> [[UInt8]] {
        let (packets, owesRoom) = interface.state.withLock { state -> ([[UInt8]], Bool) in
            var packets: [[UInt8]] = []
            while packets.count < limit,
                unsafe state.delivered.pop({ packet in
                    unsafe packets.append(Array(packet))
                    return true
                })
            {}
            return (packets, state.owesRoom && !packets.isEmpty)
        }
        if owesRoom { interface.reportRoom() }
        return packets
    }

    /// Sets the function that is called, on the sender's thread, when a packet may wait for ``takeDelivered()``.
    package func setQueueHandler(_ handler: (@Sendable () -> Void)?) {
        let old = interface.state.withLock { state -> (@Sendable () -> Void)? in
            defer { state.onQueue = handler }
            return state.onQueue
        }
        // The captures of the old handler must not be released under the lock.
        withExtendedLifetime(old) {}
    }

    /// The packets that are sent through the device from now on. It sets ``onDeliver``. The stream ends when the device is
    /// closed or ``onDeliver`` is set again.
    /// - Parameter limit: the number of unread packets that are kept; beyond it the oldest are dropped.
    public func deliveries(keeping limit: Int = 1024) -> AsyncStream<[UInt8]> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: [UInt8].self, bufferingPolicy: .bufferingNewest(limit))
        let tap = DeliveryTap(continuation)
        unsafe onDeliver = { packet in _ = unsafe tap.continuation.yield(Array(packet)) }
        return stream
    }

    /// Receives the packets that are sent through the device, on the sender's thread.
    public var onDeliver: DeliveryHandler? {
        get { unsafe interface.state.withLock { unsafe $0.onDeliver } }
        set {
            let old = unsafe interface.state.withLock { state -> DeliveryHandler? in
                let old = unsafe state.onDeliver
                unsafe state.onDeliver = newValue
                return unsafe old
            }
            // Its captured objects must not be released under the lock.
            unsafe withExtendedLifetime(old) {}
            interface.reportRoom()
        }
    }

    /// Responds to the packets that are sent through the device, on the sender's thread. The responses are injected.
    public var responder: Responder? {
        get { unsafe interface.state.withLock { unsafe $0.responder } }
        set {
            let old = unsafe interface.state.withLock { state -> Responder? in
                let old = unsafe state.responder
                unsafe state.responder = newValue
                return unsafe old
            }
            // Its captured objects must not be released under the lock.
            unsafe withExtendedLifetime(old) {}
            interface.reportRoom()
        }
    }

    /// Connects two devices: each receives the packets that are sent through the other. Neither keeps the other alive.
    public static func connect(_ one: MemoryTun, _ two: MemoryTun) {
        one.interface.connect(to: two.interface)
        two.interface.connect(to: one.interface)
    }

    /// Disconnects the device from the device that receives its packets.
    package func disconnect() { interface.connect(to: nil) }

    /// Injected packets that were dropped.
    public var injectionsDropped: Int { interface.state.withLock { $0.injectionsDropped } }

    /// Sent packets that were dropped because the queue of ``takeDelivered()`` had no room.
    public var deliveriesDropped: Int { interface.state.withLock { $0.deliveriesDropped } }

    /// Brings the device up or takes it down.
    public func setUp(_ isUp: Bool) throws(TunnelIOError) {
        try change { state throws(TunnelIOError) in
            guard state.isUp != isUp else { return }
            state.isUp = isUp
            state.report(isUp ? .up : .down)
        }
    }

    /// Sets the most bytes that one IP packet may have.
    /// - Throws: `.device` when it is not within 68 to 65,535.
    public func setMTU(_ mtu: Int) throws(TunnelIOError) {
        try change { state throws(TunnelIOError) in
            guard (68...65_535).contains(mtu) else {
                throw TunnelIOError(.device(name: interface.name, operation: "set the MTU to \(mtu)"))
            }
            guard state.mtu != mtu else { return }
            state.mtu = mtu
            state.report(.mtu(mtu))
        }
    }

    /// Removes the device with all of its queues, as deleting the interface does. Safe to repeat.
    public func removeDevice() {
        let senders = interface.state.withLock { state -> [MemoryInterface.Sender] in
            guard !state.isRemoved, !state.queues.isEmpty else { return [] }
            state.isRemoved = true
            for queue in state.queues {
                queue.inbound.removeAll()
                queue.packets.raise()
            }
            state.report(.removed)
            return state.takeSenders()
        }
        interface.reportRoom()
        MemoryInterface.reportRoom(to: senders)
    }
}

/// Ends a stream when the handler that feeds it is released.
private final class DeliveryTap: Sendable {
    let continuation: AsyncStream<[UInt8]>.Continuation

    init(_ continuation: AsyncStream<[UInt8]>.Continuation) { self.continuation = continuation }

    deinit { continuation.finish() }
}
