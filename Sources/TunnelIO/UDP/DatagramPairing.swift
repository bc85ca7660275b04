// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// Binds a socket of each family to the same port.
enum DatagramPairing {
    /// How often a free port is asked for when the one found for IPv4 is taken for IPv6.
    static let attempts = 100

    /// Whether a socket has its port to itself.
    enum Sharing {
        /// Nobody else has the port.
        case alone
        /// Nobody else has the port yet, but others may join.
        case first
        /// Joins others that have the port.
        case joining
    }

    /// Binds a port several times over, each as ``bind(port:open:)`` does.
    /// - Parameter open: binds a socket of one family; true is IPv6.
    static func bind(
        port: UInt16, count: Int,
        open: (_ isIPv6: Bool, _ port: UInt16, _ sharing: Sharing) throws(TunnelIOError) -> any DatagramSocket
    ) throws(TunnelIOError) -> [DatagramSockets] {
        let first = try bind(port: port) { (isIPv6, port) throws(TunnelIOError) in
            try open(isIPv6, port, count > 1 ? .first : .alone)
        }
        var bound = [first]
        do throws(TunnelIOError) {
            while bound.count < count {
                var next = DatagramSockets(v4: nil, v6: nil, port: first.port)
                if first.v4 != nil { next.v4 = try open(false, first.port, .joining) }
                bound.append(next)
                // It is in the list already, so that it is closed when this fails.
                if first.v6 != nil { bound[bound.count - 1].v6 = try open(true, first.port, .joining) }
            }
        } catch {
            for sockets in bound { sockets.close() }
            throw error
        }
        return bound
    }

    /// Binds IPv4 first, then IPv6 to the same port, where the host has them.
    /// - Parameter open: binds a socket of one family; true is IPv6.
    static func bind(
        port: UInt16, open: (_ isIPv6: Bool, _ port: UInt16) throws(TunnelIOError) -> any DatagramSocket
    ) throws(TunnelIOError) -> DatagramSockets {
        var attempt = 1
        while true {
            var missing: Int32 = 0
            let v4 = try optional(isIPv6: false, port: port, missing: &missing, open: open)
            do throws(TunnelIOError) {
                // Without IPv4 it is the port asked for, not a free one.
                let v6 = try optional(isIPv6: true, port: v4?.port ?? port, missing: &missing, open: open)
                guard let bound = v4?.port ?? v6?.port else {
                    throw TunnelIOError(
                        .bind(port: port, operation: "the host has neither IPv4 nor IPv6"), errno: missing)
                }
                return DatagramSockets(v4: v4, v6: v6, port: bound)
            } catch {
                v4?.close()
                guard error.errno == EADDRINUSE, port == 0, v4 != nil, attempt < attempts else { throw error }
                attempt += 1
            }
        }
    }

    /// A socket, or nil where the host does not have the family.
    private static func optional(
        isIPv6: Bool, port: UInt16, missing: inout Int32,
        open: (_ isIPv6: Bool, _ port: UInt16) throws(TunnelIOError) -> any DatagramSocket
    ) throws(TunnelIOError) -> (any DatagramSocket)? {
        do throws(TunnelIOError) {
            return try open(isIPv6, port)
        } catch {
            guard error.errno == EAFNOSUPPORT || error.errno == EADDRNOTAVAIL else { throw error }
            missing = error.errno
            return nil
        }
    }
}
