// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// `sockaddr_in`, `sockaddr_in6` and packet info as the kernel lays them out, to and from endpoints.
    enum UDPSocketAddress {
        /// Writes the remote end of `endpoint`.
        /// - Returns: the length of the address.
        @unsafe
        @inline(__always)
        static func write(_ endpoint: DatagramEndpoint, to name: UnsafeMutableRawPointer) -> Int {
            if endpoint.isIPv6 {
                unsafe name.storeBytes(of: UInt16(AF_INET6), as: UInt16.self)
                unsafe name.storeBytes(of: endpoint.port.bigEndian, toByteOffset: 2, as: UInt16.self)
                unsafe name.storeBytes(of: 0, toByteOffset: 4, as: UInt32.self)
                unsafe name.storeBytes(of: endpoint.high.bigEndian, toByteOffset: 8, as: UInt64.self)
                unsafe name.storeBytes(of: endpoint.low.bigEndian, toByteOffset: 16, as: UInt64.self)
                unsafe name.storeBytes(of: endpoint.scopeID, toByteOffset: 24, as: UInt32.self)
                return 28
            }
            unsafe name.storeBytes(of: UInt16(AF_INET), as: UInt16.self)
            unsafe name.storeBytes(of: endpoint.port.bigEndian, toByteOffset: 2, as: UInt16.self)
            let address = UInt32(truncatingIfNeeded: endpoint.low)
            unsafe name.storeBytes(of: address.bigEndian, toByteOffset: 4, as: UInt32.self)
            unsafe name.storeBytes(of: 0, toByteOffset: 8, as: UInt64.self)
            return 16
        }

        /// The remote end that the kernel wrote.
        @unsafe
        @inline(__always)
        static func read(_ name: UnsafeRawPointer) -> DatagramEndpoint {
            let family = Int32(unsafe name.load(as: UInt16.self))
            let port = UInt16(bigEndian: unsafe name.load(fromByteOffset: 2, as: UInt16.self))
            if family == AF_INET6 {
                return DatagramEndpoint(
                    isIPv6: true,
                    high: UInt64(bigEndian: unsafe name.load(fromByteOffset: 8, as: UInt64.self)),
                    low: UInt64(bigEndian: unsafe name.load(fromByteOffset: 16, as: UInt64.self)), port: port,
                    scopeID: unsafe name.load(fromByteOffset: 24, as: UInt32.self))
            }
            let address = UInt32(bigEndian: unsafe name.load(fromByteOffset: 4, as: UInt32.self))
            return DatagramEndpoint(isIPv6: false, high: 0, low: UInt64(address), port: port)
        }
    }
#endif
