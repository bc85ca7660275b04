// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

// The memory layout of `recvmsg` and `sendmsg` in Darwin's kernel, written byte by byte, so that every system can test it.
// dev/apple/DarwinLayout.c checks each number here against Apple's headers.

/// Socket addresses: `sockaddr_in` and `sockaddr_in6`, whose first byte is their length.
enum DarwinSocketAddress {
    static let ipv4Family: UInt8 = 2
    static let ipv6Family: UInt8 = 30
    static let ipv4Length = 16
    static let ipv6Length = 28

    /// Writes the address and port of `endpoint` to `name`, which must have room for 28 bytes.
    /// - Returns: the length of the address.
    @unsafe
    static func write(_ endpoint: Endpoint, to name: UnsafeMutableRawPointer) -> Int {
        let length = endpoint.isIPv6 ? ipv6Length : ipv4Length
        unsafe name.storeBytes(of: UInt8(length), as: UInt8.self)
        unsafe name.storeBytes(of: endpoint.isIPv6 ? ipv6Family : ipv4Family, toByteOffset: 1, as: UInt8.self)
        unsafe name.storeBytes(of: endpoint.port.bigEndian, toByteOffset: 2, as: UInt16.self)
        if endpoint.isIPv6 {
            unsafe name.storeBytes(of: 0, toByteOffset: 4, as: UInt32.self)
            unsafe name.storeBytes(of: endpoint.address.high.bigEndian, toByteOffset: 8, as: UInt64.self)
            unsafe name.storeBytes(of: endpoint.address.low.bigEndian, toByteOffset: 16, as: UInt64.self)
            unsafe name.storeBytes(of: endpoint.scopeID, toByteOffset: 24, as: UInt32.self)
        } else {
            let address = UInt32(truncatingIfNeeded: endpoint.address.low)
            unsafe name.storeBytes(of: address.bigEndian, toByteOffset: 4, as: UInt32.self)
            unsafe name.storeBytes(of: 0, toByteOffset: 8, as: UInt64.self)
        }
        return length
    }

    /// Reads the remote address and port from 28 bytes that the kernel wrote to.
    @unsafe
    static func read(_ name: UnsafeRawPointer) -> Endpoint {
        let port = UInt16(bigEndian: unsafe name.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
        if unsafe name.load(fromByteOffset: 1, as: UInt8.self) == ipv6Family {
            return Endpoint(
                address: .v6(
                    UInt64(bigEndian: unsafe name.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
                    UInt64(bigEndian: unsafe name.loadUnaligned(fromByteOffset: 16, as: UInt64.self))),
                port: port, scopeID: unsafe name.loadUnaligned(fromByteOffset: 24, as: UInt32.self))
        }
        let address = UInt32(bigEndian: unsafe name.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
        return Endpoint(address: .v4(address), port: port)
    }
}

/// Control messages with `in_pktinfo` and `in6_pktinfo`: the local end of a datagram.
///
/// A message is headed by three 32-bit words (length, level, type) and padded to 4 bytes.
enum DarwinPacketInfo {
    static let headerLength = 12
    static let ipv4Level: Int32 = 0
    static let ipv6Level: Int32 = 41
    static let ipv4Type: Int32 = 26
    /// The headers define these only for RFC 3542.
    static let ipv6Type: Int32 = 46
    static let ipv6ReceivePacketInfo: Int32 = 61
    static let ipv4Length = 12
    static let ipv6Length = 20

    /// Reads the local end out of the control messages of a datagram.
    static func read(_ control: UnsafeRawBufferPointer, into endpoint: inout Endpoint) {
        var offset = 0
        while control.count - offset >= headerLength {
            let size = Int(unsafe control.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
            guard size >= headerLength, size <= control.count - offset else { return }
            let level = unsafe control.loadUnaligned(fromByteOffset: offset + 4, as: Int32.self)
            let type = unsafe control.loadUnaligned(fromByteOffset: offset + 8, as: Int32.self)
            let payload = offset + headerLength
            if level == ipv4Level, type == ipv4Type, size >= headerLength + ipv4Length {
                // `ipi_addr`, the destination of the datagram. The kernel sets `ipi_spec_dst`, before it, to zero.
                let address = unsafe control.loadUnaligned(fromByteOffset: payload + 8, as: UInt32.self)
                endpoint.source.low = UInt64(UInt32(bigEndian: address))
                endpoint.source.interfaceIndex = unsafe control.loadUnaligned(
                    fromByteOffset: payload, as: UInt32.self)
            } else if level == ipv6Level, type == ipv6Type, size >= headerLength + ipv6Length {
                endpoint.source.high = UInt64(
                    bigEndian: unsafe control.loadUnaligned(fromByteOffset: payload, as: UInt64.self))
                endpoint.source.low = UInt64(
                    bigEndian: unsafe control.loadUnaligned(fromByteOffset: payload + 8, as: UInt64.self))
                endpoint.source.interfaceIndex = unsafe control.loadUnaligned(
                    fromByteOffset: payload + 16, as: UInt32.self)
            }
            offset += (size + 3) & ~3
        }
    }

    /// Writes a control message with the source of a datagram to `control`, which must have room for 32 bytes.
    /// - Returns: the length of the control message; zero if the endpoint sets no source address and no interface.
    @unsafe
    static func write(_ endpoint: Endpoint, to control: UnsafeMutableRawPointer) -> Int {
        let source = endpoint.source
        guard
            source.interfaceIndex != 0 || source.low != 0 || source.high != 0
                || (!endpoint.isIPv6 && endpoint.scopeID != 0)
        else { return 0 }
        let size = headerLength + (endpoint.isIPv6 ? ipv6Length : ipv4Length)
        let payload = unsafe control + headerLength
        unsafe control.storeBytes(of: UInt32(size), as: UInt32.self)
        unsafe control.storeBytes(of: endpoint.isIPv6 ? ipv6Level : ipv4Level, toByteOffset: 4, as: Int32.self)
        unsafe control.storeBytes(of: endpoint.isIPv6 ? ipv6Type : ipv4Type, toByteOffset: 8, as: Int32.self)
        if endpoint.isIPv6 {
            unsafe payload.storeBytes(of: source.high.bigEndian, as: UInt64.self)
            unsafe payload.storeBytes(of: source.low.bigEndian, toByteOffset: 8, as: UInt64.self)
            unsafe payload.storeBytes(of: source.interfaceIndex, toByteOffset: 16, as: UInt32.self)
        } else {
            let address = UInt32(truncatingIfNeeded: source.low)
            // With an interface index, the kernel uses any address of that interface instead of `ipi_spec_dst`. The address
            // is more specific. A scope cannot replace it: an IPv4 socket address has none.
            let interface = endpoint.scopeID != 0 ? endpoint.scopeID : address != 0 ? 0 : source.interfaceIndex
            unsafe payload.storeBytes(of: interface, as: UInt32.self)
            unsafe payload.storeBytes(of: address.bigEndian, toByteOffset: 4, as: UInt32.self)
            unsafe payload.storeBytes(of: 0, toByteOffset: 8, as: UInt32.self)
        }
        return size
    }
}
