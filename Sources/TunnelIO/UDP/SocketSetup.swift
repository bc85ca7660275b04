// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses

/// The setup of each UDP socket that all systems share.
enum SocketSetup {
    /// Binds a socket to the port of a binding, at the wildcard address of its family.
    /// - Parameter write: lays an endpoint out as the system's socket address and returns its length.
    /// - Returns: the bound port, which the system chooses if the binding's port is zero.
    static func bindSocket(
        _ descriptor: Int32, isIPv6: Bool, to binding: DatagramBinding,
        write: (Endpoint, UnsafeMutableRawPointer) -> Int
    ) throws(TunnelIOError) -> UInt16 {
        let port = binding.port
        var name = sockaddr_in6()
        let any = Endpoint(address: isIPv6 ? .v6(0, 0) : .v4(0), port: port)
        let length = unsafe withUnsafeMutableBytes(of: &name) { bytes -> Int in
            guard let base = bytes.baseAddress else { return 0 }
            return unsafe write(any, base)
        }
        let bound = unsafe withUnsafeMutablePointer(to: &name) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe bind(descriptor, address, socklen_t(length))
            }
        }
        guard bound == 0 else { throw TunnelIOError(.bind(port: port, operation: "bind"), errno: errno) }
        var size = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let named = unsafe withUnsafeMutablePointer(to: &name) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe getsockname(descriptor, address, &size)
            }
        }
        guard named == 0 else { throw TunnelIOError(.bind(port: port, operation: "getsockname"), errno: errno) }
        // The port has the same offset in both kinds of address.
        return UInt16(bigEndian: name.sin6_port)
    }

    /// Connects a socket to `endpoint`. The system then reports a refusal of its datagrams by the other host to it.
    /// - Parameter write: lays an endpoint out as the system's socket address and returns its length.
    /// - Returns: zero or an error number.
    static func connectSocket(
        _ descriptor: Int32, to endpoint: Endpoint, write: (Endpoint, UnsafeMutableRawPointer) -> Int
    ) -> Int32 {
        var name = sockaddr_in6()
        let length = unsafe withUnsafeMutableBytes(of: &name) { bytes -> Int in
            guard let base = bytes.baseAddress else { return 0 }
            return unsafe write(endpoint, base)
        }
        return unsafe withUnsafePointer(to: &name) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe connect(descriptor, address, socklen_t(length)) == 0 ? 0 : errno
            }
        }
    }

    /// Sets an option that is a number.
    /// - Returns: zero or an error number.
    static func setOption(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) -> Int32 {
        var value = value
        let size = socklen_t(MemoryLayout<Int32>.size)
        return unsafe setsockopt(descriptor, level, option, &value, size) == 0 ? 0 : errno
    }
}
