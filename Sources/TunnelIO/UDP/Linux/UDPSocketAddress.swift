// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import NetworkAddresses

    /// `sockaddr_in`, `sockaddr_in6` and packet info as the kernel lays them out, to and from endpoints.
    enum UDPSocketAddress {
        /// Writes the address and port of `endpoint`.
        /// - Returns: the length of the address.
        @unsafe
        @inline(__always)
        static func write(_ endpoint: Endpoint, to name: UnsafeMutableRawPointer) -> Int {
            if endpoint.isIPv6 {
                unsafe name.storeBytes(of: UInt16(AF_INET6), as: UInt16.self)
                unsafe name.storeBytes(of: endpoint.port.bigEndian, toByteOffset: 2, as: UInt16.self)
                unsafe name.storeBytes(of: 0, toByteOffset: 4, as: UInt32.self)
                unsafe name.storeBytes(of: endpoint.address.high.bigEndian, toByteOffset: 8, as: UInt64.self)
                unsafe name.storeBytes(of: endpoint.address.low.bigEndian, toByteOffset: 16, as: UInt64.self)
                unsafe name.storeBytes(of: endpoint.scopeID, toByteOffset: 24, as: UInt32.self)
                return 28
            }
            unsafe name.storeBytes(of: UInt16(AF_INET), as: UInt16.self)
            unsafe name.storeBytes(of: endpoint.port.bigEndian, toByteOffset: 2, as: UInt16.self)
            let address = UInt32(truncatingIfNeeded: endpoint.address.low)
            unsafe name.storeBytes(of: address.bigEndian, toByteOffset: 4, as: UInt32.self)
            unsafe name.storeBytes(of: 0, toByteOffset: 8, as: UInt64.self)
            return 16
        }

        /// The remote end that the kernel wrote.
        @unsafe
        @inline(__always)
        static func read(_ name: UnsafeRawPointer) -> Endpoint {
            let family = Int32(unsafe name.load(as: UInt16.self))
            let port = UInt16(bigEndian: unsafe name.load(fromByteOffset: 2, as: UInt16.self))
            if family == AF_INET6 {
                return Endpoint(
                    address: .v6(
                        UInt64(bigEndian: unsafe name.load(fromByteOffset: 8, as: UInt64.self)),
                        UInt64(bigEndian: unsafe name.load(fromByteOffset: 16, as: UInt64.self))),
                    port: port, scopeID: unsafe name.load(fromByteOffset: 24, as: UInt32.self))
            }
            let address = UInt32(bigEndian: unsafe name.load(fromByteOffset: 4, as: UInt32.self))
            return Endpoint(address: .v4(address), port: port)
        }
    }
#endif
