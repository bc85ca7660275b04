// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import NetworkAddresses

    /// Reads and writes the control messages of UDP sockets without the C macros, which Swift cannot import.
    enum UDPControlMessages {
        /// A header and its payload are padded to this.
        private static let alignment = MemoryLayout<Int>.size
        /// The header in front of each payload.
        static let headerLength = (MemoryLayout<cmsghdr>.size + alignment - 1) & ~(alignment - 1)

        /// The bytes that a payload of `length` takes with its header and padding.
        @inline(__always)
        static func space(_ length: Int) -> Int { headerLength &+ padded(length) }

        @inline(__always)
        private static func padded(_ length: Int) -> Int { (length &+ alignment &- 1) & ~(alignment &- 1) }

        /// Reads the packet info into `endpoint`, and the count of datagrams dropped by a full queue into `overflow`.
        /// - Returns: the length of each joined datagram; zero if the message is one datagram.
        @unsafe
        @discardableResult
        @inline(__always)
        static func read(
            _ control: UnsafeRawPointer, length: Int, into endpoint: inout Endpoint, overflow: inout UInt32
        ) -> Int {
            var offset = 0
            var segment = 0
            while length &- offset >= headerLength {
                let header = unsafe (control + offset).loadUnaligned(as: cmsghdr.self)
                let size = Int(truncatingIfNeeded: header.cmsg_len)
                guard size >= headerLength, size <= length &- offset else { return segment }
                let payload = unsafe control + (offset &+ headerLength)
                switch (header.cmsg_level, header.cmsg_type, size &- headerLength) {
                case (Int32(IPPROTO_IP), CTUNNEL_IP_PKTINFO, MemoryLayout<ctunnel_in_pktinfo>.size...):
                    let info = unsafe payload.loadUnaligned(as: ctunnel_in_pktinfo.self)
                    endpoint.source.interfaceIndex = info.ipi_ifindex
                    endpoint.source.low = UInt64(UInt32(bigEndian: info.ipi_spec_dst))
                case (Int32(IPPROTO_IPV6), CTUNNEL_IPV6_PKTINFO, MemoryLayout<ctunnel_in6_pktinfo>.size...):
                    endpoint.source.high = UInt64(bigEndian: unsafe payload.loadUnaligned(as: UInt64.self))
                    endpoint.source.low = UInt64(
                        bigEndian: unsafe payload.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                    endpoint.source.interfaceIndex = unsafe payload.loadUnaligned(fromByteOffset: 16, as: UInt32.self)
                case (SOL_SOCKET, CTUNNEL_SO_RXQ_OVFL, 4...):
                    overflow = unsafe payload.loadUnaligned(as: UInt32.self)
                case (Int32(IPPROTO_UDP), CTUNNEL_UDP_GRO, 4...):
                    segment = Int(truncatingIfNeeded: unsafe payload.loadUnaligned(as: Int32.self)) & 0xffff
                default:
                    break
                }
                offset &+= headerLength &+ padded(size &- headerLength)
            }
            return segment
        }

        /// Writes the source address and interface of `endpoint`, from which the system then sends the datagram.
        /// - Returns: the length of the control message; zero if neither is set and routing chooses them.
        @unsafe
        @inline(__always)
        static func write(_ endpoint: Endpoint, to control: UnsafeMutableRawPointer) -> Int {
            var interface = endpoint.source.interfaceIndex
            // An IPv4 socket address has no scope, so the packet info contains it.
            if interface == 0, !endpoint.isIPv6 { interface = endpoint.scopeID }
            guard interface != 0 || endpoint.source.low != 0 || endpoint.source.high != 0 else { return 0 }
            let payload = unsafe control + headerLength
            if endpoint.isIPv6 {
                unsafe writeHeader(
                    to: control, level: Int32(IPPROTO_IPV6), type: CTUNNEL_IPV6_PKTINFO,
                    payloadLength: MemoryLayout<ctunnel_in6_pktinfo>.size)
                unsafe payload.storeBytes(of: endpoint.source.high.bigEndian, as: UInt64.self)
                unsafe payload.storeBytes(of: endpoint.source.low.bigEndian, toByteOffset: 8, as: UInt64.self)
                unsafe payload.storeBytes(of: interface, toByteOffset: 16, as: UInt32.self)
                return space(MemoryLayout<ctunnel_in6_pktinfo>.size)
            }
            unsafe writeHeader(
                to: control, level: Int32(IPPROTO_IP), type: CTUNNEL_IP_PKTINFO,
                payloadLength: MemoryLayout<ctunnel_in_pktinfo>.size)
            let source = UInt32(truncatingIfNeeded: endpoint.source.low)
            let info = ctunnel_in_pktinfo(ipi_ifindex: interface, ipi_spec_dst: source.bigEndian, ipi_addr: 0)
            unsafe payload.storeBytes(of: info, as: ctunnel_in_pktinfo.self)
            return space(MemoryLayout<ctunnel_in_pktinfo>.size)
        }

        /// The bytes that ``writeSegmentSize(_:to:)`` takes.
        static let segmentLength = space(MemoryLayout<UInt16>.size)

        /// Writes the length of the datagrams into which the system splits the message.
        @unsafe
        @inline(__always)
        static func writeSegmentSize(_ size: Int, to control: UnsafeMutableRawPointer) {
            unsafe writeHeader(
                to: control, level: Int32(IPPROTO_UDP), type: CTUNNEL_UDP_SEGMENT,
                payloadLength: MemoryLayout<UInt16>.size)
            unsafe (control + headerLength).storeBytes(of: UInt16(truncatingIfNeeded: size), as: UInt16.self)
        }

        @unsafe
        @inline(__always)
        private static func writeHeader(
            to control: UnsafeMutableRawPointer, level: Int32, type: Int32, payloadLength: Int
        ) {
            var header = cmsghdr()
            header.cmsg_len = numericCast(headerLength &+ payloadLength)
            header.cmsg_level = level
            header.cmsg_type = type
            unsafe control.storeBytes(of: header, as: cmsghdr.self)
        }
    }
#endif
