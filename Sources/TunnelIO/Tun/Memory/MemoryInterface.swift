// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The shared state of the queues of one in-memory interface. It exists as long as one of them.
final class MemoryInterface: Sendable {
    let name: String
    let state: Mutex<State>
    private let queueCapacity: Int
    private let byteCapacity: Int

    init(name: String, mtu: Int, queueCapacity: Int, byteCapacity: Int) throws(TunnelIOError) {
        let delivered = try PacketRing(packetCapacity: queueCapacity, byteCapacity: byteCapacity)
        self.name = name
        self.queueCapacity = queueCapacity
        self.byteCapacity = byteCapacity
        state = Mutex(State(delivered: delivered, mtu: mtu))
    }

    /// The receiving half of one device, guarded by the interface's lock.
    final class Queue: @unchecked Sendable {
        let packets: WakeSignal
        let links: WakeSignal
        var inbound: PacketRing
        var events: [LinkEvent] = []
        var isClosed = false

        fileprivate init(packetCapacity: Int, byteCapacity: Int) throws(TunnelIOError) {
            packets = try WakeSignal()
            links = try WakeSignal()
            inbound = try PacketRing(packetCapacity: packetCapacity, byteCapacity: byteCapacity)
        }

        fileprivate func report(_ event: LinkEvent) {
            if events.isEmpty { links.raise() }
            events.append(event)
        }
    }

    @safe
    struct State: ~Copyable, Sendable {
        /// The open queues.
        var queues: [Queue] = []
        var delivered: PacketRing
        var isUp = true
        var mtu: Int
        var isRemoved = false
        var injectionsDropped = 0
        var deliveriesDropped = 0
        var responder: MemoryTun.Responder?
        var onDeliver: MemoryTun.DeliveryHandler?
        weak var other: MemoryInterface?
        /// Called when there is room for a sent packet after there was none.
        var onRoom: (@Sendable () -> Void)?
        /// Called after a packet was added to `delivered`, or if there was no room for it.
        var onQueue: (@Sendable () -> Void)?
        /// Whether a sender waits for room in `delivered`.
        var owesRoom = false
        /// The connected interfaces that wait for room in a queue of this one.
        var senders: [Sender] = []

        init(delivered: consuming PacketRing, mtu: Int) {
            self.delivered = delivered
            self.mtu = mtu
        }

        func report(_ event: LinkEvent) {
            for queue in queues { queue.report(event) }
        }

        /// - Parameter sender: The interface that keeps the packet if there is no room, and waits; `nil`: the packet is dropped.
        mutating func inject(_ packet: UnsafeRawBufferPointer, from sender: MemoryInterface? = nil) -> Outcome {
            guard isUp, !isRemoved, !queues.isEmpty, unsafe MemoryInterface.isIP(packet), packet.count <= mtu else {
                injectionsDropped += 1
                return .refused
            }
            let queue = unsafe queues.count == 1 ? queues[0] : queues[FlowHash.of(packet) % queues.count]
            guard unsafe queue.inbound.push(packet) else {
                guard let sender, packet.count <= queue.inbound.byteCapacity else {
                    injectionsDropped += 1
                    return .refused
                }
                if !isAwaited(by: sender) { senders.append(Sender(interface: sender)) }
                return .full
            }
            if queue.inbound.count == 1 { queue.packets.raise() }
            return .taken
        }

        func isAwaited(by sender: MemoryInterface) -> Bool { senders.contains { $0.interface === sender } }

        /// Returns the waiting interfaces, and removes them: each receives one report of room.
        mutating func takeSenders() -> [Sender] {
            guard !senders.isEmpty else { return [] }
            defer { senders = [] }
            return senders
        }
    }

    struct Sender: Sendable {
        weak var interface: MemoryInterface?
    }

    /// The result for a packet that was sent or injected.
    enum Outcome {
        case taken
        /// The queue is full; the sender receives a report of room.
        case full
        /// It was dropped.
        case refused
    }

    static func isIP(_ packet: UnsafeRawBufferPointer) -> Bool {
        guard let first = unsafe packet.first else { return false }
        return first >> 4 == 4 || first >> 4 == 6
    }

    @safe
    private struct Handlers {
        var responder: MemoryTun.Responder?
        var onDeliver: MemoryTun.DeliveryHandler?
        var onRoom: (@Sendable () -> Void)?
        var onQueue: (@Sendable () -> Void)?
    }

    /// Adds a queue.
    /// - Throws: `.closed` if `sibling`, the queue that requests it, is closed; `.deviceRemoved` if the interface was
    ///   removed.
    func makeQueue(beside sibling: Queue? = nil) throws(TunnelIOError) -> Queue {
        let queue = try Queue(packetCapacity: queueCapacity, byteCapacity: byteCapacity)
        try state.withLock { state throws(TunnelIOError) in
            if let sibling { try check(sibling, state) }
            state.queues.append(queue)
        }
        return queue
    }

    /// - Throws: unless `queue` can be used.
    func check(_ queue: Queue, _ state: borrowing State) throws(TunnelIOError) {
        if queue.isClosed { throw TunnelIOError(.closed) }
        if state.isRemoved { throw TunnelIOError(.deviceRemoved(name: name)) }
    }

    /// Closes a queue. Closing the last queue disconnects the interface and releases its handlers.
    func close(_ queue: Queue) {
        let (handlers, senders) = state.withLock { state -> (Handlers?, [Sender]) in
            guard !queue.isClosed else { return (nil, []) }
            queue.isClosed = true
            queue.inbound.removeAll()
            queue.packets.raise()
            state.queues.removeAll { $0 === queue }
            guard state.queues.isEmpty else { return (nil, state.takeSenders()) }
            state.other = nil
            let handlers = unsafe Handlers(
                responder: state.responder, onDeliver: state.onDeliver, onRoom: state.onRoom, onQueue: state.onQueue)
            unsafe state.responder = nil
            unsafe state.onDeliver = nil
            (state.onRoom, state.onQueue) = (nil, nil)
            return (handlers, state.takeSenders())
        }
        // Tasks that wait for room find out that it is closed.
        handlers?.onRoom?()
        Self.reportRoom(to: senders)
        // The handlers' captured objects must not be released under the lock.
        withExtendedLifetime(handlers) {}
    }

    /// Gives the interface a packet to receive.
    func inject(_ packet: UnsafeRawBufferPointer, from sender: MemoryInterface? = nil) -> Outcome {
        state.withLock { unsafe $0.inject(packet, from: sender) }
    }

    /// Connects the interface to `other`, which then receives its packets; `nil` disconnects it.
    func connect(to other: MemoryInterface?) {
        state.withLock { $0.other = other }
        reportRoom()
    }

    /// Reports that there may be room for the packets of this interface.
    func reportRoom() {
        let handler = state.withLock { state -> (@Sendable () -> Void)? in
            state.owesRoom = false
            return state.onRoom
        }
        handler?()
    }

    static func reportRoom(to senders: [Sender]) {
        for sender in senders { sender.interface?.reportRoom() }
    }
}

/// Groups packets by addresses, protocol and ports.
enum FlowHash {
    /// Returns a nonnegative number that is the same for all packets of a flow. For a fragment it depends on the
    /// addresses only, since only the first fragment has ports.
    static func of(_ packet: UnsafeRawBufferPointer) -> Int {
        guard let first = unsafe packet.first else { return 0 }
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        func add(_ bytes: Range<Int>) {
            for index in bytes.clamped(to: 0..<packet.count) {
                hash = (hash ^ UInt64(unsafe packet[index])) &* 0x100_0000_01b3
            }
        }
        if first >> 4 == 4, packet.count >= 20 {
            add(12..<20)
            let isFragment = unsafe (packet[6] & 0x3f) | packet[7] != 0
            if !isFragment { addPorts(unsafe packet[9], at: unsafe Int(packet[0] & 0x0f) * 4) }
        } else if packet.count >= 40 {
            add(8..<40)
            addPorts(unsafe packet[6], at: 40)
        }
        func addPorts(_ number: UInt8, at offset: Int) {
            hash = (hash ^ UInt64(number)) &* 0x100_0000_01b3
            if number == 6 || number == 17 { add(offset..<offset + 4) }
        }
        return Int(truncatingIfNeeded: (hash ^ (hash >> 32)) & 0x7fff_ffff)
    }
}
