// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A bound UDP socket that moves whole batches.
///
/// All methods may be called from any thread, but ``receive(into:)`` from one at a time. None of them blocks.
public protocol DatagramSocket: AnyObject, Sendable {
    /// Whether this is an IPv6 socket (and only that).
    var isIPv6: Bool { get }

    /// The bound port in host order.
    var port: UInt16 { get }

    /// A descriptor that polls readable when ``receive(into:)`` has something to give. Owned by the socket.
    var readiness: Int32 { get }

    /// Appends datagrams with their endpoints until there are no more or the batch has no room for another. If the system
    /// delivers them joined, it may stop at 64 or more, to limit the size of one delivery.
    ///
    /// Joined datagrams are adjacent in memory; others are at least 32 bytes apart.
    /// - Returns: the number of datagrams appended; zero if there was none.
    /// - Throws: `.closed` after ``close()``. Temporary errors of the network (refused, unreachable) are not thrown.
    func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int

    /// Sends the datagrams of `batch` in `range` whose length is not zero and whose endpoint is of this socket's family.
    ///
    /// It continues after a partial send. A datagram that cannot be sent (unreachable, no buffer) is dropped and counted, and
    /// later ones are still sent.
    /// - Throws: `.closed` after ``close()``.
    func send(_ batch: PacketBatch, in range: Range<Int>) throws(TunnelIOError) -> DatagramSendResult

    /// Sets the mark for policy routing of later datagrams; zero clears it.
    func setMark(_ mark: UInt32) throws(TunnelIOError)

    /// The received datagrams that the socket or the system dropped.
    var receiveDrops: DatagramReceiveDrops { get }

    /// Closes the socket. Safe to repeat.
    func close()
}

/// The received datagrams that a socket or the system dropped.
public struct DatagramReceiveDrops: Hashable, Sendable {
    /// Datagrams that were too large for the buffer.
    public var oversize: Int
    /// Datagrams that were dropped because the queue was full.
    public var overflowed: Int

    /// Drops.
    public init(oversize: Int = 0, overflowed: Int = 0) {
        self.oversize = oversize
        self.overflowed = overflowed
    }
}

extension DatagramReceiveDrops {
    /// The drop causes of sockets.
    package static let dropCauses: [DropCause<Self, Int>] = [
        ("socket queue full", \.overflowed, "Datagrams that arrived while the system's queue of the socket was full."),
        ("oversize", \.oversize, "Datagrams that were larger than the buffer."),
    ]

    /// Adds the drops of these sockets.
    package mutating func add(_ sockets: DatagramSockets) {
        for socket in sockets.all {
            let drops = socket.receiveDrops
            oversize &+= drops.oversize
            overflowed &+= drops.overflowed
        }
    }
}

/// The result of one ``DatagramSocket/send(_:in:)``.
public struct DatagramSendResult: Hashable, Sendable {
    /// Datagrams that the system took.
    public var sent: Int
    /// Datagrams that could not be sent.
    public var dropped: Int
    /// The bytes of the datagrams that the system took.
    public var bytes: Int
    /// The error number of the last dropped datagram; 0 if none was dropped.
    public var lastError: Int32

    /// A result.
    public init(sent: Int = 0, dropped: Int = 0, bytes: Int = 0, lastError: Int32 = 0) {
        self.sent = sent
        self.dropped = dropped
        self.bytes = bytes
        self.lastError = lastError
    }
}

/// The sockets of one port: IPv4, IPv6, or both where the host has both.
public struct DatagramSockets: Sendable {
    /// The IPv4 socket; `nil` if the host has no IPv4.
    public var v4: (any DatagramSocket)?
    /// The IPv6 socket; `nil` if the host has no IPv6.
    public var v6: (any DatagramSocket)?
    /// The port that both are bound to.
    public var port: UInt16
    /// The error of the next pair for this port, if it could not be bound.
    package var nextPairError: TunnelIOError?

    /// A pair of sockets.
    public init(v4: (any DatagramSocket)?, v6: (any DatagramSocket)?, port: UInt16) {
        self.v4 = v4
        self.v6 = v6
        self.port = port
    }

    /// The sockets that exist.
    public var all: [any DatagramSocket] { [v4, v6].compactMap { $0 } }

    /// Closes both.
    public func close() {
        for socket in all { socket.close() }
    }
}
