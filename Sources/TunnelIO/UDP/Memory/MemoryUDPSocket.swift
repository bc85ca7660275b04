// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import Synchronization

/// A socket of a host in a ``MemoryInternet``.
public final class MemoryUDPSocket: DatagramSocket {
    private struct State {
        var queue: [MemoryDatagram] = []
        /// The index in `queue` of the first datagram that was not received yet.
        var head = 0
        var mark: UInt32
        var isClosed = false
        var drops = DatagramReceiveDrops()
    }

    /// Whether this is an IPv6 socket (and only that).
    public let isIPv6: Bool
    /// The bound port in host order.
    public let port: UInt16
    private let host: MemoryDatagramNetwork
    private let signal: WakeSignal
    private let state: Mutex<State>

    /// The only interface of a host.
    static let interface: UInt32 = 1
    /// The least number of bytes between two datagrams in a batch.
    private static let gap = 32

    /// The largest payload of UDP over this family.
    private var largestPayload: Int { isIPv6 ? 65_527 : 65_507 }

    init(host: MemoryDatagramNetwork, isIPv6: Bool, port: UInt16, mark: UInt32, signal: WakeSignal) {
        self.host = host
        self.isIPv6 = isIPv6
        self.port = port
        self.signal = signal
        state = Mutex(State(mark: mark))
    }

    /// A descriptor that polls readable while there is something to receive.
    public var readiness: Int32 { signal.descriptor }

    /// The mark of sent datagrams.
    public var mark: UInt32 { state.withLock { $0.mark } }

    /// Appends datagrams until there are no more or the batch has no room for another.
    public func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try state.withLock { (state) throws(TunnelIOError) in
            guard !state.isClosed else { throw TunnelIOError(.closed) }
            var appended = 0
            while state.head < state.queue.count, batch.count < batch.packetCapacity {
                let datagram = state.queue[state.head]
                if Self.append(datagram, to: batch) {
                    appended += 1
                } else if batch.isEmpty {
                    // The datagram does not fit into an empty batch; the system would truncate it.
                    state.drops.oversize += 1
                } else {
                    break
                }
                state.head += 1
            }
            if state.head == state.queue.count {
                state.queue.removeAll(keepingCapacity: true)
                state.head = 0
                signal.clear()
            }
            return appended
        }
    }

    private static func append(_ datagram: MemoryDatagram, to batch: PacketBatch) -> Bool {
        var offset = batch.tail
        if !batch.isEmpty { offset = (offset + gap + 63) & ~63 }
        guard datagram.bytes.count <= batch.byteCapacity - gap - offset else { return false }
        let endpoint = Endpoint(
            address: datagram.source, port: datagram.sourcePort,
            source: EndpointSource(
                interfaceIndex: interface, high: datagram.destination.high, low: datagram.destination.low))
        unsafe datagram.bytes.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return }
            unsafe (batch.base + offset).copyMemory(from: start, byteCount: bytes.count)
        }
        return batch.append(offset: offset, length: datagram.bytes.count, endpoint: endpoint) != nil
    }

    /// Sends the datagrams in `range` that are not empty and of this family.
    public func send(_ batch: PacketBatch, in range: Range<Int>) throws(TunnelIOError) -> DatagramSendResult {
        let (isClosed, mark) = state.withLock { ($0.isClosed, $0.mark) }
        guard !isClosed else { throw TunnelIOError(.closed) }
        var result = DatagramSendResult()
        for index in range.clamped(to: 0..<batch.count) {
            let length = Int(batch[index].length)
            let endpoint = batch[endpoint: index]
            guard length > 0, endpoint.isIPv6 == isIPv6 else { continue }
            let code = transmit(batch.copy(of: index), to: endpoint, mark: mark)
            if code == 0 {
                result.sent += 1
                result.bytes += length
            } else {
                result.dropped += 1
                result.lastError = code
            }
        }
        return result
    }

    /// - Returns: zero, or the error number that the system would give.
    private func transmit(_ bytes: [UInt8], to endpoint: Endpoint, mark: UInt32) -> Int32 {
        guard bytes.count <= largestPayload else { return EMSGSIZE }
        guard endpoint.port != 0 else { return EINVAL }
        guard let source = host.source(for: endpoint) else { return ENETUNREACH }
        host.internet.deliver(
            MemoryDatagram(
                source: source, sourcePort: port,
                destination: endpoint.address, destinationPort: endpoint.port, mark: mark, bytes: bytes))
        return 0
    }

    /// Datagrams that were too large for the batch or found the queue full.
    public var receiveDrops: DatagramReceiveDrops { state.withLock { $0.drops } }

    /// Sets the mark for policy routing of later datagrams; zero clears it.
    public func setMark(_ mark: UInt32) throws(TunnelIOError) {
        try state.withLock { (state) throws(TunnelIOError) in
            guard !state.isClosed else { throw TunnelIOError(.closed) }
            state.mark = mark
        }
    }

    /// Closes the socket. Safe to repeat.
    public func close() {
        state.withLock { state in
            state.isClosed = true
            state.queue = []
            state.head = 0
            signal.clear()
        }
        host.forget(self)
    }

    /// Queues a datagram for ``receive(into:)``.
    /// - Returns: false if the queue is full, `nil` if the socket is closed.
    func enqueue(_ datagram: MemoryDatagram) -> Bool? {
        state.withLock { state in
            guard !state.isClosed else { return nil }
            guard state.queue.count - state.head < host.internet.queueLimit else {
                state.drops.overflowed += 1
                return false
            }
            if state.head > host.internet.queueLimit {
                state.queue.removeFirst(state.head)
                state.head = 0
            }
            state.queue.append(datagram)
            signal.raise()
            return true
        }
    }
}
