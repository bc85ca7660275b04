// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The properties that a network gives the sockets of a port when it binds them.
public struct DatagramBinding: Hashable, Sendable {
    /// The port in host order; 0 picks a free one, the same for both families.
    public var port: UInt16
    /// The mark for policy routing (`SO_MARK`); 0 sets no mark.
    public var mark: UInt32

    /// A binding to a port of all addresses of the host.
    public init(port: UInt16 = 0, mark: UInt32 = 0) {
        self.port = port
        self.mark = mark
    }

    /// The same binding with the port that was picked.
    func with(port: UInt16) -> DatagramBinding {
        var binding = self
        binding.port = port
        return binding
    }
}

/// A factory of sockets: the system's network, or a network in memory.
public protocol DatagramNetwork: Sendable {
    /// Binds one port for both families several times, so that as many lanes receive from it.
    ///
    /// On a host without one of the families, only the socket of the other family is bound, to the requested port. The
    /// system distributes datagrams over the sockets; those from one address and port arrive at one socket. A network
    /// that cannot do that returns fewer than `count` pairs, but at least one. With a `count` of 1, the port is not
    /// shared.
    /// - Throws: `.bind` if no family can be bound; `EADDRINUSE` if the port is taken in either family.
    func bind(_ binding: DatagramBinding, count: Int) throws(TunnelIOError) -> [DatagramSockets]
}

extension DatagramNetwork {
    /// Binds one port for both families.
    /// - Throws: the errors of ``bind(_:count:)``.
    public func bind(_ binding: DatagramBinding) throws(TunnelIOError) -> DatagramSockets {
        guard let sockets = try bind(binding, count: 1).first else {
            throw TunnelIOError(.bind(port: binding.port, operation: "the network has no sockets"))
        }
        return sockets
    }

    /// Binds one port for both families.
    /// - Throws: the errors of ``bind(_:count:)``.
    public func bind(port: UInt16, mark: UInt32) throws(TunnelIOError) -> DatagramSockets {
        try bind(DatagramBinding(port: port, mark: mark))
    }
}
