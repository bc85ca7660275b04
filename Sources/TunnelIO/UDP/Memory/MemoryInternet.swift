// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
import Synchronization

/// A datagram on its way through a ``MemoryInternet``.
public struct MemoryDatagram: Hashable, Sendable {
    /// The sender's address.
    public var source: IPAddress
    /// The sender's port.
    public var sourcePort: UInt16
    /// The receiver's address, of the same family.
    public var destination: IPAddress
    /// The receiver's port.
    public var destinationPort: UInt16
    /// The mark of the sending socket.
    public var mark: UInt32
    /// The payload.
    public var bytes: [UInt8]
}

/// An internet in memory: hosts with addresses, sockets with bounded queues, and a filter in the middle.
///
/// A datagram is in its receiver's queue, or dropped and counted, when the sender's call returns, so that a test is
/// deterministic: nothing is reordered or late.
public final class MemoryInternet: Sendable {
    /// The counters of datagrams so far.
    public struct Statistics: Hashable, Sendable {
        /// Datagrams that reached a socket's queue.
        public var delivered = 0
        /// Datagrams that the filter dropped.
        public var filtered = 0
        /// Datagrams for an address that no host has or a port that no socket is bound to.
        public var unreachable = 0
        /// Datagrams that were dropped because the receiver's queue was full.
        public var overflowed = 0
    }

    /// Filters each datagram on the sender's thread: it may change the datagram, and returns false to drop it. So a
    /// filter can simulate a NAT, a lossy link or a forger. It must not use the internet itself.
    public typealias Filter = @Sendable (inout MemoryDatagram) -> Bool

    private struct State {
        var hosts: [IPAddress: MemoryDatagramNetwork] = [:]
        var filter: Filter?
        var statistics = Statistics()
    }

    /// The most datagrams that a socket queues.
    public let queueLimit: Int
    private let state = Mutex(State())

    /// An internet without hosts.
    public init(queueLimit: Int = 1024) {
        self.queueLimit = queueLimit
    }

    /// Adds a host with these addresses; the first of each family is the one it sends from by default.
    ///
    /// An address that another host has moves to the new one.
    public func attach(_ addresses: [IPAddress]) -> MemoryDatagramNetwork {
        let host = MemoryDatagramNetwork(internet: self)
        host.move(to: addresses)
        return host
    }

    /// Adds a host with these addresses as text, such as `192.0.2.1` or `2001:db8::1`.
    /// - Throws: an error that describes the invalid address. Then no host is added.
    public func attach(_ addresses: String...) throws(AddressTextError) -> MemoryDatagramNetwork {
        attach(try addresses.map { (text) throws(AddressTextError) in try IPAddress(text) })
    }

    /// Sets the filter of all datagrams; `nil` removes it.
    public func setFilter(_ filter: Filter?) {
        state.withLock { $0.filter = filter }
    }

    /// The counters of datagrams so far.
    public var statistics: Statistics { state.withLock { $0.statistics } }

    func route(_ host: MemoryDatagramNetwork, from old: [IPAddress], to new: [IPAddress]) {
        state.withLock { state in
            for address in old where state.hosts[address] === host { state.hosts[address] = nil }
            for address in new { state.hosts[address] = host }
        }
    }

    /// Carries a datagram to its receiver's queue.
    func deliver(_ datagram: MemoryDatagram) {
        var datagram = datagram
        let filter = state.withLock { $0.filter }
        if let filter, !filter(&datagram) { return state.withLock { $0.statistics.filtered += 1 } }
        let host = state.withLock { $0.hosts[datagram.destination] }
        let socket = host?.socket(for: datagram)
        let isTaken = socket?.enqueue(datagram)
        state.withLock { state in
            switch isTaken {
            case true: state.statistics.delivered += 1
            case false: state.statistics.overflowed += 1
            case nil: state.statistics.unreachable += 1
            }
        }
    }
}
