// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import Synchronization

/// A UDP datagram that came, or that is to go.
public struct Datagram: Hashable, Sendable {
    /// Its payload.
    public var bytes: [UInt8]
    /// Where it is from, or where it goes. Sent to the endpoint that it came from, a reply leaves from the address that was asked.
    public var endpoint: Endpoint

    /// A datagram.
    public init(_ bytes: [UInt8], _ endpoint: Endpoint) {
        self.bytes = bytes
        self.endpoint = endpoint
    }
}

/// A UDP port of this host in both families, one datagram at a time, awaited without a thread: for protocols of one's own that
/// need no ``Lane``.
///
/// Every method may be called from any thread, also several at once: each datagram goes to one caller. Who waits is woken by
/// datagrams, by ``close()``, and by the end of its task.
public final class DatagramPort: Sendable {
    private let sockets: DatagramSockets
    private let waiters: Waiters<TunnelIOError>
    private let inbox: Mutex<Inbox>
    private let outbox: Mutex<Outbox>
    private let isClosed = Atomic<Bool>(false)

    private struct Inbox: ~Copyable, @unchecked Sendable {
        let batch: PacketBatch
        /// The first of the batch that nobody has taken.
        var next = 0
        /// Which socket is asked first; they take turns.
        var turn = 0
    }

    private struct Outbox: ~Copyable, @unchecked Sendable {
        let batch: PacketBatch
    }

    /// Binds a port in the families that the host has.
    ///
    /// - Parameters:
    ///   - port: in host order; zero takes a free one.
    ///   - network: the system's, or a ``MemoryDatagramNetwork`` in a test.
    ///   - mark: `SO_MARK` of what is sent: a provider gives its context's `socketMark`, so that datagrams get past the tunnel's
    ///     own routes. nil: none.
    ///   - loop: what is waited with; it is the caller's to run and to stop, and not to stop before the port is closed. nil: the
    ///     port starts a thread of its own when it is first waited for.
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
        // No descriptor tells of the rest.
        if !isLast { waiters.wakeAll() }
        return datagram
    }

    private func refill(_ inbox: inout Inbox) throws(TunnelIOError) {
        inbox.batch.removeAll()
        inbox.next = 0
        let all = sockets.all
        // One that is flooded does not keep the other one waiting.
        inbox.turn &+= 1
        for index in all.indices {
            _ = try all[(index + inbox.turn) % all.count].receive(into: inbox.batch)
        }
    }

    /// Waits for the next datagram.
    /// - Throws: `.cancelled` as soon as the task is; `.closed`, at once, also in the middle of waiting; `.eventLoop` when the
    ///   system has no more descriptors.
    public func nextDatagram() async throws(TunnelIOError) -> Datagram {
        try await waiters.next(unless: hasReasonToReturn) { () throws(TunnelIOError) in try receiveNow() }
    }

    private func hasReasonToReturn() -> Bool {
        isClosed.load(ordering: .acquiring) || inbox.withLock { $0.next < $0.batch.count }
    }

    /// Datagrams as they come, until the port is closed or the task is cancelled, at which the sequence ends.
    public var datagrams: Datagrams { Datagrams(port: self) }

    /// Datagrams of a port as they come.
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

    /// Sends a datagram. It never waits: the system takes it at once or not at all.
    /// - Returns: false when it was dropped: the host has no such family or no route, its queue is full, or there are more bytes
    ///   than a datagram has.
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

    /// Closes the port; everybody who waits throws `.closed` at once. Safe to repeat.
    public func close() {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        // Before the numbers can become other files'.
        waiters.close()
        sockets.close()
    }
}
