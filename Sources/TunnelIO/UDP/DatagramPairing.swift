// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// Binds a socket of each family to the same port.
enum DatagramPairing {
    /// The number of attempts to find a port if the one for IPv4 is in use for IPv6.
    static let attempts = 100

    /// Whether a socket shares its port.
    enum Sharing {
        /// No other socket has the port.
        case alone
        /// No other socket has the port yet, but others may join.
        case first
        /// Joins other sockets that have the port.
        case joining
    }

    /// Binds a port up to `count` times, each as ``bind(_:open:)`` does. There are fewer pairs if one of them fails, since one
    /// pair suffices. The last pair has the error then.
    /// - Parameter open: Binds a socket of one family. Its binding has the port that was picked.
    /// - Throws: the error of the first pair.
    static func bind(
        _ binding: DatagramBinding, count: Int,
        open: (_ isIPv6: Bool, _ binding: DatagramBinding, _ sharing: Sharing) throws(TunnelIOError)
            -> any DatagramSocket
    ) throws(TunnelIOError) -> [DatagramSockets] {
        let first = try bind(binding) { (isIPv6, binding) throws(TunnelIOError) in
            try open(isIPv6, binding, count > 1 ? .first : .alone)
        }
        let binding = binding.with(port: first.port)
        var bound = [first]
        while bound.count < count {
            var next = DatagramSockets(v4: nil, v6: nil, port: first.port)
            do throws(TunnelIOError) {
                if first.v4 != nil { next.v4 = try open(false, binding, .joining) }
                if first.v6 != nil { next.v6 = try open(true, binding, .joining) }
            } catch {
                next.close()
                bound[bound.count - 1].nextPairError = error
                break
            }
            bound.append(next)
        }
        return bound
    }

    /// Binds IPv4 first, then IPv6 to the same port, if the host has them.
    /// - Parameter open: Binds a socket of one family. Its binding has the port that was picked.
    static func bind(
        _ binding: DatagramBinding,
        open: (_ isIPv6: Bool, _ binding: DatagramBinding) throws(TunnelIOError) -> any DatagramSocket
    ) throws(TunnelIOError) -> DatagramSockets {
        var attempt = 1
        while true {
            var missing: Int32 = 0
            let v4 = try optional(isIPv6: false, binding, missing: &missing, open: open)
            do throws(TunnelIOError) {
                // Without an IPv4 socket, IPv6 gets the requested port.
                let v6 = try optional(
                    isIPv6: true, binding.with(port: v4?.port ?? binding.port), missing: &missing, open: open)
                guard let bound = v4?.port ?? v6?.port else {
                    throw TunnelIOError(
                        .bind(port: binding.port, operation: "the host has neither IPv4 nor IPv6"), errno: missing)
                }
                return DatagramSockets(v4: v4, v6: v6, port: bound)
            } catch {
                v4?.close()
                guard error.errno == EADDRINUSE, binding.port == 0, v4 != nil, attempt < attempts else { throw error }
                attempt += 1
            }
        }
    }

    /// A socket, or `nil` if the host does not have the family.
    private static func optional(
        isIPv6: Bool, _ binding: DatagramBinding, missing: inout Int32,
        open: (_ isIPv6: Bool, _ binding: DatagramBinding) throws(TunnelIOError) -> any DatagramSocket
    ) throws(TunnelIOError) -> (any DatagramSocket)? {
        do throws(TunnelIOError) {
            return try open(isIPv6, binding)
        } catch {
            guard error.errno == EAFNOSUPPORT || error.errno == EADDRNOTAVAIL else { throw error }
            missing = error.errno
            return nil
        }
    }
}
