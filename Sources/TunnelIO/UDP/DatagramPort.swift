// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import Synchronization

/// A UDP datagram that was received or will be sent.
public struct Datagram: Hashable, Sendable {
    /// Its payload.
    public var bytes: [UInt8]
    /// The sender of a received datagram, or the destination of one to send. A reply to the endpoint of a received
    /// datagram has as its source the address that the datagram was sent to.
    public var endpoint: Endpoint

    /// A datagram.
    public init(_ bytes: [UInt8], _ endpoint: Endpoint) {
        self.bytes = bytes
        self.endpoint = endpoint
    }
}

/// A UDP port of this host in both families, for one datagram at a time, without a thread: for your own protocols that need
/// no ``Lane``.
///
/// You can call every method from any thread, several at once: each datagram goes to one caller. Datagrams, ``close()`` and
/// cancellation end a wait.
public final class DatagramPort: Sendable {
    private let sockets: DatagramSockets
    private let waiters: Waiters<TunnelIOError>
    private let inbox: Mutex<Inbox>
    private let outbox: Mutex<Outbox>
    private let isClosed = Atomic<Bool>(false)

    private struct Inbox: ~Copyable, @unchecked Sendable {
        let batch: PacketBatch
        /// The first unread datagram of the batch.
        var next = 0
        /// The socket that is read first; the sockets alternate.
        var turn = 0
    }

    private struct Outbox: ~Copyable, @unchecked Sendable {
        let batch: PacketBatch
    }

    /// Binds a port in the families that the host has.
    ///
    /// - Parameters:
    ///   - port: in host order; zero for a free one.
    ///   - network: the system's, or a ``MemoryDatagramNetwork`` in a test.
    ///   - mark: `SO_MARK` of the sent datagrams. A provider passes its context's `socketMark`, so that datagrams bypass the
    ///     tunnel's own routes. `nil`: none.
    ///   - loop: the event loop. The caller runs it, and stops it only after the port was closed. `nil`: the port starts a
    ///     thread at the first wait.
    /// - Throws: `.bind`, `.outOfMemory`.
    public init(
        _ port: UInt16 = 0, on network: any DatagramNetwork = SystemDatagramNetwork(), mark: UInt32? = nil,
        loop: EventLoop? = nil
    ) throws(TunnelIOError) {
        let inbox = try PacketBatch()
        let outbox = try PacketBatch(packetCapacity: 1, byteCapacity: 1 << 16)
        sockets = try network.bind(port: port, mark: mark ?? 0)
        self.inbox = Mutex(Inbox(batch: inbox))
        self.outbox = Mutex(Outbox(batch: outbox))
        waiters = Waiters(descriptors: sockets.all.map(\.readiness), loop: loop) { $0 }
    }

    deinit { close() }

    /// The port, in host order.
    public var port: UInt16 { sockets.port }

    // MARK: - Receiving

    /// The next datagram, if there is one now.
    /// - Throws: `.closed`.
    public func receiveNow() throws(TunnelIOError) -> Datagram? {
        if isClosed.load(ordering: .acquiring) { throw TunnelIOError(.closed) }
        let (datagram, isLast) = try inbox.withLock { (inbox) throws(TunnelIOError) -> (Datagram?, Bool) in
            if inbox.next >= inbox.batch.count { try refill(&inbox) }
            guard inbox.next < inbox.batch.count else { return (nil, true) }
            let index = inbox.next
            inbox.next += 1
            let datagram = Datagram(inbox.batch.copy(of: index), inbox.batch[endpoint: index])
            return (datagram, inbox.next == inbox.batch.count)
        }
        // No descriptor becomes readable for the datagrams that are left in the batch.
        if !isLast { waiters.wakeAll() }
        return datagram
    }

    private func refill(_ inbox: inout Inbox) throws(TunnelIOError) {
        inbox.batch.removeAll()
        inbox.next = 0
        let all = sockets.all
        // Alternate, so that a flooded socket does not delay the other one.
        inbox.turn &+= 1
        for index in all.indices {
            _ = try all[(index + inbox.turn) % all.count].receive(into: inbox.batch)
        }
    }

    /// Waits for the next datagram.
    /// - Throws: `.cancelled` if the task is cancelled; `.closed`, immediately, even during the wait; `.eventLoop` if the
    ///   system has no descriptors left.
    public func nextDatagram() async throws(TunnelIOError) -> Datagram {
        try await waiters.next(unless: hasReasonToReturn) { () throws(TunnelIOError) in try receiveNow() }
    }

    private func hasReasonToReturn() -> Bool {
        isClosed.load(ordering: .acquiring) || inbox.withLock { $0.next < $0.batch.count }
    }

    /// The datagrams as they arrive. The sequence ends when the port is closed or the task is cancelled.
    public var datagrams: Datagrams { Datagrams(port: self) }

    /// A sequence of the datagrams of a port.
    public struct Datagrams: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let port: DatagramPort

        /// The sequence itself: it has no state.
        public func makeAsyncIterator() -> Datagrams { self }

        /// Waits for the next datagram.
        public func next() async throws(TunnelIOError) -> Datagram? {
            do throws(TunnelIOError) {
                return try await port.nextDatagram()
            } catch {
                switch error.code {
                case .closed, .cancelled: return nil
                default: throw error
                }
            }
        }

        /// Waits for the next datagram.
        public func next(isolation actor: isolated (any Actor)?) async throws(TunnelIOError) -> Datagram? {
            try await next()
        }
    }

    // MARK: - Sending

    /// Sends a datagram. It never waits: the system accepts it immediately or not at all.
    /// - Returns: false if it was dropped: the host has no such family or no route, its queue is full, or the datagram is too
    ///   long.
    /// - Throws: `.closed`.
    @discardableResult
    public func send(_ bytes: [UInt8], to endpoint: Endpoint) throws(TunnelIOError) -> Bool {
        if isClosed.load(ordering: .acquiring) { throw TunnelIOError(.closed) }
        guard let socket = endpoint.isIPv6 ? sockets.v6 : sockets.v4 else { return false }
        return try outbox.withLock { (outbox) throws(TunnelIOError) in
            outbox.batch.removeAll()
            guard outbox.batch.append(copying: bytes, endpoint: endpoint) != nil else { return false }
            return try socket.send(outbox.batch, in: 0..<1).sent == 1
        }
    }

    /// Closes the port. Waiting calls throw `.closed` immediately. You can call it more than once.
    public func close() {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        // Before the sockets are closed, since other files may then get their descriptor numbers.
        waiters.close()
        sockets.close()
    }
}
