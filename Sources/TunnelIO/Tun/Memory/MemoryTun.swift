// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// A TUN device in memory, for tests, demonstrations and simulators.
///
/// It behaves as the system's does. It can be down, has an MTU, drops packets that its bounded queues cannot hold, and
/// refuses bytes that are not an IP packet. It reports changes, can have several queues, and can be removed.
///
/// This API is also the other side, in place of the system's network stack: ``inject(_:)-([UInt8])`` routes a packet to
/// the device. A packet that is sent through the device is delivered to the first of these that is set: the connected
/// device, ``responder``, ``onDeliver``; otherwise it waits for ``takeDelivered()``. Queues of one interface share the
/// other side, but each injected packet is delivered to one queue, the same for all packets of a flow.
///
/// Unlike the system's device, it can also report that it is full instead of dropping, so that a test can see push-back.
///
/// All methods may be called from any thread.
public final class MemoryTun: TunDevice, FlowControlledTun {
    /// Responds to a packet that was sent through the device; `nil` for no response. The bytes are valid during the call.
    public typealias Responder = @Sendable (UnsafeRawBufferPointer) -> [UInt8]?
    /// Receives a packet that was sent through the device. The bytes are valid during the call.
    public typealias DeliveryHandler = @Sendable (UnsafeRawBufferPointer) -> Void

    let interface: MemoryInterface
    private let queue: MemoryInterface.Queue

    /// A descriptor that polls readable while packets wait to be received, and forever once the device is removed or closed.
    public let readiness: Int32
    /// A descriptor that polls readable while ``drainLinkEvents()`` has something to give.
    public let linkReadiness: Int32?

    /// Creates a device that is up.
    ///
    /// - Parameters:
    ///   - name: the name that ``currentName()`` returns.
    ///   - mtu: in bytes, 68 to 65,535.
    ///   - queueCapacity: the most packets that wait in either direction.
    ///   - byteCapacity: the most bytes that wait in either direction.
    /// - Throws: `.outOfMemory`, or `.eventLoop` if the system has no descriptors left.
    public convenience init(
        name: String = "memory", mtu: Int = 1420, queueCapacity: Int = 1024, byteCapacity: Int = 1 << 20
    ) throws(TunnelIOError) {
        let interface = try MemoryInterface(
            name: name, mtu: mtu, queueCapacity: queueCapacity, byteCapacity: byteCapacity)
        self.init(interface, try interface.makeQueue())
    }

    private init(_ interface: MemoryInterface, _ queue: MemoryInterface.Queue) {
        self.interface = interface
        self.queue = queue
        readiness = queue.packets.descriptor
        linkReadiness = queue.links.descriptor
    }

    deinit {
        interface.close(queue)
    }

    // MARK: - The device

    /// The interface's name.
    /// - Throws: `.deviceRemoved`, `.closed`.
    public func currentName() throws(TunnelIOError) -> String {
        try interface.state.withLock { state throws(TunnelIOError) in try interface.check(queue, state) }
        return interface.name
    }

    /// The most bytes that one IP packet may have on this interface.
    /// - Throws: as ``currentLinkState()``.
    public func currentMTU() throws(TunnelIOError) -> Int {
        try currentLinkState().mtu
    }

    /// Whether the device is up, and the largest IP packet that it carries, in bytes.
    public func currentLinkState() throws(TunnelIOError) -> LinkState {
        try interface.state.withLock { state throws(TunnelIOError) in
            try interface.check(queue, state)
            return LinkState(isUp: state.isUp, mtu: state.mtu)
        }
    }

    /// Appends packets, at multiples of 16, until there are no more or the batch has no room for the next one.
    ///
    /// The batch has at least ``PacketBatch/minimumReadBytes``, as for any device.
    public func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try batch.checkReadable()
        let before = batch.count
        let senders = try interface.state.withLock { state throws(TunnelIOError) -> [MemoryInterface.Sender] in
            try interface.check(queue, state)
            while unsafe queue.inbound.pop({ unsafe batch.appendRead($0) }) {}
            if queue.inbound.count == 0 { queue.packets.clear() }
            return batch.count > before ? state.takeSenders() : []
        }
        MemoryInterface.reportRoom(to: senders)
        return batch.count - before
    }

    /// Always false: ``readiness`` reports every packet.
    public var hasBufferedPackets: Bool { false }

    /// Sends every packet of nonzero length to the other side.
    /// - Returns: the numbers of packets that were accepted and dropped.
    /// - Throws: `.deviceRemoved`, `.closed`.
    public func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        var result = TunSendResult(sent: 0, dropped: 0)
        for index in 0..<batch.count {
            let packet = unsafe UnsafeRawBufferPointer(batch.bytes(of: index))
            guard packet.count > 0 else { continue }
            if try unsafe deliver(packet) == .taken { result.sent += 1 } else { result.dropped += 1 }
        }
        return result
    }

    /// Whether ``sendUntilFull(_:)`` may send a packet.
    package var hasRoom: Bool {
        let (other, isFull) = interface.state.withLock { state -> (MemoryInterface?, Bool) in
            // Sending fails or drops the packet immediately, since a task must not wait.
            guard !queue.isClosed, !state.isRemoved, state.isUp else { return (nil, false) }
            return (state.other, state.owesRoom)
        }
        guard let other else { return !isFull }
        return other.state.withLock { !$0.isAwaited(by: interface) }
    }

    package func setRoomHandler(_ handler: @escaping @Sendable () -> Void) {
        let old = interface.state.withLock { state -> (@Sendable () -> Void)? in
            defer { state.onRoom = handler }
            return state.onRoom
        }
        // The captures of the old handler must not be released under the lock.
        withExtendedLifetime(old) {}
    }

    /// Sends packets from the front of the batch until the device is full; a packet longer than the MTU is dropped.
    package func sendUntilFull(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        var result = TunSendResult(sent: 0, dropped: 0)
        for index in 0..<batch.count {
            let packet = unsafe UnsafeRawBufferPointer(batch.bytes(of: index))
            guard packet.count > 0 else { continue }
            switch try unsafe deliver(packet, waitsForRoom: true) {
            case .taken: result.sent += 1
            case .refused: result.dropped += 1
            case .full: return result
            }
            batch[index].length = 0
        }
        return result
    }

    /// The destination of a packet that is sent through the device.
    @safe
    private enum Destination {
        case other(MemoryInterface)
        case responder(Responder)
        case handler(DeliveryHandler)
        case queue(MemoryInterface.Outcome, onQueue: (@Sendable () -> Void)?)
    }

    /// - Parameter waitsForRoom: Whether the sender keeps the packet if the queue is full, and receives a report of room.
    private func deliver(
        _ packet: UnsafeRawBufferPointer, waitsForRoom: Bool = false
    ) throws(TunnelIOError) -> MemoryInterface.Outcome {
        let destination = try interface.state.withLock { state throws(TunnelIOError) -> Destination in
            try interface.check(queue, state)
            guard state.isUp, unsafe MemoryInterface.isIP(packet), !waitsForRoom || packet.count <= state.mtu else {
                return .queue(.refused, onQueue: nil)
            }
            if let other = state.other { return .other(other) }
            if let responder = unsafe state.responder { return unsafe .responder(responder) }
            if let handler = unsafe state.onDeliver { return unsafe .handler(handler) }
            if unsafe state.delivered.push(packet) { return .queue(.taken, onQueue: state.onQueue) }
            guard waitsForRoom, packet.count <= state.delivered.byteCapacity else {
                state.deliveriesDropped += 1
                return .queue(.refused, onQueue: state.onQueue)
            }
            state.owesRoom = true
            return .queue(.full, onQueue: state.onQueue)
        }
        // Outside the lock: the handler may call back, and two connected devices may send at the same time.
        switch destination {
        case .other(let other): return unsafe other.inject(packet, from: waitsForRoom ? interface : nil)
        case .responder(let respond):
            if let answer = unsafe respond(packet) { inject(answer) }
            return .taken
        case .handler(let handle):
            unsafe handle(packet)
            return .taken
        case .queue(let outcome, let onQueue):
            onQueue?()
            return outcome
        }
    }

    /// The changes of the interface since the last call, oldest first. Does not block.
    public func drainLinkEvents() -> [LinkEvent] {
        interface.state.withLock { _ in
            let events = queue.events
            queue.events = []
            queue.links.clear()
            return events
        }
    }

    /// Another queue of this interface, with separate limits as large as this one's. The interface is removed with its last
    /// queue.
    /// - Throws: `.deviceRemoved`, `.closed`, `.outOfMemory`, `.eventLoop`.
    public func cloneQueue() throws(TunnelIOError) -> MemoryTun {
        MemoryTun(interface, try interface.makeQueue(beside: queue))
    }

    /// Another queue of this interface, as ``cloneQueue()``.
    public func makeQueue() throws(TunnelIOError) -> any TunDevice { try cloneQueue() }

    /// Always zero: an invalid packet is refused when it is injected.
    public var statistics: TunStatistics { TunStatistics() }

    /// Changes the interface's state with `body`, unless this device was removed. Tasks that wait for room try again, since
    /// their packets may be dropped now.
    func change(_ body: (inout MemoryInterface.State) throws(TunnelIOError) -> Void) throws(TunnelIOError) {
        let senders = try interface.state.withLock { state throws(TunnelIOError) -> [MemoryInterface.Sender] in
            try interface.check(queue, state)
            try body(&state)
            return state.takeSenders()
        }
        interface.reportRoom()
        MemoryInterface.reportRoom(to: senders)
    }

    /// Closes the device; packets that wait in its queue are lost. Safe to repeat.
    public func close() {
        interface.close(queue)
    }
}
