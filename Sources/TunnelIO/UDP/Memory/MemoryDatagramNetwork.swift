// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
public import NetworkAddresses
import Synchronization

/// One host's network in a ``MemoryInternet``, used like the system's network.
///
/// A host supports an address family while it has an address of that family.
public final class MemoryDatagramNetwork: DatagramNetwork {
    private struct Key: Hashable {
        var isIPv6: Bool
        var port: UInt16
    }

    private struct State {
        var addresses: [IPAddress] = []
        /// Sockets that share a port are in the order of their binding.
        var sockets: [Key: [MemoryUDPSocket]] = [:]
        /// The next port for a binding to port zero. Ports are assigned in ascending order, so that runs are alike.
        var nextPort: UInt16 = 49_152
    }

    let internet: MemoryInternet
    private let state = Mutex(State())

    init(internet: MemoryInternet) {
        self.internet = internet
    }

    /// The host's addresses.
    public var addresses: [IPAddress] { state.withLock { $0.addresses } }

    /// Replaces the host's addresses, as when a phone changes its network. Sockets stay open.
    public func move(to addresses: [IPAddress]) {
        let old = state.withLock { state in
            let old = state.addresses
            state.addresses = addresses
            return old
        }
        internet.route(self, from: old, to: addresses)
    }

    /// Replaces the host's addresses by these, given as text.
    /// - Throws: an error that describes the invalid address. Then nothing changes.
    public func move(to addresses: String...) throws(AddressTextError) {
        move(to: try addresses.map { (text) throws(AddressTextError) in try IPAddress(text) })
    }

    /// Binds one port for both families several times; see ``DatagramNetwork``.
    public func bind(_ binding: DatagramBinding, count: Int) throws(TunnelIOError) -> [DatagramSockets] {
        try DatagramPairing.bind(binding, count: count) { (isIPv6, binding, sharing) throws(TunnelIOError) in
            try self.open(isIPv6: isIPv6, binding, sharing: sharing)
        }
    }

    private func open(
        isIPv6: Bool, _ binding: DatagramBinding, sharing: DatagramPairing.Sharing
    ) throws(TunnelIOError) -> MemoryUDPSocket {
        let port = binding.port
        let signal = try WakeSignal()
        return try state.withLock { (state) throws(TunnelIOError) in
            guard state.addresses.contains(where: { $0.isIPv6 == isIPv6 }) else {
                throw TunnelIOError(.bind(port: port, operation: "socket"), errno: EAFNOSUPPORT)
            }
            var chosen = port
            if port == 0 {
                chosen = state.nextPort
                state.nextPort = chosen == .max ? 49_152 : chosen + 1
            }
            let key = Key(isIPv6: isIPv6, port: chosen)
            guard sharing == .joining || state.sockets[key] == nil else {
                throw TunnelIOError(.bind(port: port, operation: "bind"), errno: EADDRINUSE)
            }
            let socket = MemoryUDPSocket(host: self, isIPv6: isIPv6, port: chosen, mark: binding.mark, signal: signal)
            state.sockets[key, default: []].append(socket)
            return socket
        }
    }

    /// Returns the socket that receives a datagram. If several sockets share the port, all datagrams of one source
    /// arrive at the same one.
    func socket(for datagram: MemoryDatagram) -> MemoryUDPSocket? {
        let key = Key(isIPv6: datagram.destination.isIPv6, port: datagram.destinationPort)
        return state.withLock { state in
            guard let sockets = state.sockets[key], let first = sockets.first else { return nil }
            guard sockets.count > 1 else { return first }
            let source = datagram.source.high ^ datagram.source.low ^ UInt64(datagram.sourcePort) << 32
            return sockets[Int((source &* 0x9e37_79b9_7f4a_7c15) >> 33) % sockets.count]
        }
    }

    func forget(_ socket: MemoryUDPSocket) {
        let key = Key(isIPv6: socket.isIPv6, port: socket.port)
        state.withLock { state in
            state.sockets[key]?.removeAll { $0 === socket }
            if state.sockets[key]?.isEmpty == true { state.sockets[key] = nil }
        }
    }

    /// Returns the source address of a datagram to `endpoint`: the address that the endpoint requests if the host has
    /// it, otherwise the host's first address of the family; `nil` if there is none.
    func source(for endpoint: Endpoint) -> IPAddress? {
        let wanted = IPAddress(isIPv6: endpoint.isIPv6, high: endpoint.source.high, low: endpoint.source.low)
        return state.withLock { state in
            if state.addresses.contains(wanted) { return wanted }
            return state.addresses.first { $0.isIPv6 == endpoint.isIPv6 }
        }
    }
}
