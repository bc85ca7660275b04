// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin
    import NetworkAddresses
    import Synchronization

    extension DarwinUDPSocket {
        /// The most bytes that one datagram and the gap behind it take.
        private static let slot = 65_536 + 64
        private static let gap = 32

        /// Appends datagrams until there are no more or the batch has no room for another.
        public func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
            try receiving.withLock { (descriptor) throws(TunnelIOError) in
                guard descriptor >= 0 else { throw TunnelIOError(.closed) }
                var appended = 0
                while batch.count < batch.packetCapacity {
                    var offset = batch.tail
                    if offset > 0 { offset = (offset + Self.gap + 63) & ~63 }
                    let room = batch.byteCapacity - offset - Self.gap
                    guard room >= Self.slot || batch.isEmpty, room > 0 else { break }
                    let length = unsafe incoming.receive(descriptor, into: batch.base + offset, room: room)
                    if length < 0 {
                        if errno == EINTR { continue }
                        guard errno != EBADF, errno != ENOTSOCK else {
                            throw TunnelIOError(.socket(operation: "recvmsg"), errno: errno)
                        }
                        break
                    }
                    guard !incoming.wasTruncated else {
                        truncated.wrappingAdd(1, ordering: .relaxed)
                        continue
                    }
                    batch.append(offset: offset, length: length, endpoint: incoming.endpoint)
                    appended += 1
                }
                return appended
            }
        }

        /// Sends the datagrams in `range` that are not empty and of this family.
        public func send(_ batch: PacketBatch, in range: Range<Int>) throws(TunnelIOError) -> DatagramSendResult {
            try sending.withLock { (descriptor) throws(TunnelIOError) in
                guard descriptor >= 0 else { throw TunnelIOError(.closed) }
                var result = DatagramSendResult()
                for index in range.clamped(to: 0..<batch.count) {
                    let bytes = unsafe batch.bytes(of: index)
                    let endpoint = batch[endpoint: index]
                    guard bytes.count > 0, endpoint.isIPv6 == isIPv6, let start = unsafe bytes.baseAddress else {
                        continue
                    }
                    var code = unsafe outgoing.send(descriptor, start, bytes.count, to: endpoint, withSource: true)
                    if code == EINVAL || code == ENETUNREACH || code == EADDRNOTAVAIL || code == ENXIO {
                        code = unsafe outgoing.send(descriptor, start, bytes.count, to: endpoint, withSource: false)
                    }
                    if code == 0 {
                        result.sent += 1
                        result.bytes += bytes.count
                    } else {
                        result.dropped += 1
                        result.lastError = code
                    }
                }
                return result
            }
        }
    }

    /// One message with its name and control messages, allocated once per socket and direction.
    @safe
    final class UDPMessage: @unchecked Sendable {
        /// Constants that the headers show only when asked for RFC 3542.
        static let ipv6ReceivePacketInfo: Int32 = 61
        static let ipv6PacketInfo: Int32 = 46
        private static let headerLength = 12
        private static let controlCapacity = 128

        private let name = UnsafeMutableRawPointer.allocate(byteCount: 32, alignment: 8)
        private let control = UnsafeMutableRawPointer.allocate(byteCount: 128, alignment: 8)
        private(set) var endpoint = Endpoint.unspecified
        private(set) var wasTruncated = false

        deinit {
            unsafe name.deallocate()
            unsafe control.deallocate()
        }

        /// - Returns: the length of the datagram, or -1 with `errno`.
        @unsafe
        func receive(_ descriptor: Int32, into start: UnsafeMutableRawPointer, room: Int) -> Int {
            var vector = unsafe iovec(iov_base: start, iov_len: room)
            return unsafe withUnsafeMutablePointer(to: &vector) { vector in
                var message = unsafe msghdr(
                    msg_name: name, msg_namelen: 32, msg_iov: vector, msg_iovlen: 1, msg_control: control,
                    msg_controllen: socklen_t(Self.controlCapacity), msg_flags: 0)
                let length = unsafe recvmsg(descriptor, &message, MSG_DONTWAIT)
                guard length >= 0 else { return -1 }
                wasTruncated = unsafe message.msg_flags & MSG_TRUNC != 0
                endpoint = unsafe Self.read(name)
                unsafe readControl(length: Int(message.msg_controllen))
                return length
            }
        }

        /// - Returns: zero or an error number.
        @unsafe
        func send(
            _ descriptor: Int32, _ start: UnsafeMutableRawPointer, _ length: Int, to endpoint: Endpoint,
            withSource: Bool
        ) -> Int32 {
            let nameLength = unsafe Self.write(endpoint, to: name)
            let controlLength = withSource ? writeControl(endpoint) : 0
            var vector = unsafe iovec(iov_base: start, iov_len: length)
            return unsafe withUnsafeMutablePointer(to: &vector) { vector in
                var message = unsafe msghdr(
                    msg_name: name, msg_namelen: socklen_t(nameLength), msg_iov: vector, msg_iovlen: 1,
                    msg_control: controlLength == 0 ? nil : control, msg_controllen: socklen_t(controlLength),
                    msg_flags: 0)
                while unsafe sendmsg(descriptor, &message, MSG_DONTWAIT) < 0 {
                    if errno != EINTR { return errno }
                }
                return 0
            }
        }

        /// Writes the remote end of `endpoint`.
        /// - Returns: the length of the address.
        @unsafe
        static func write(_ endpoint: Endpoint, to name: UnsafeMutableRawPointer) -> Int {
            let length = endpoint.isIPv6 ? 28 : 16
            unsafe name.storeBytes(of: UInt8(length), as: UInt8.self)
            unsafe name.storeBytes(of: UInt8(endpoint.isIPv6 ? AF_INET6 : AF_INET), toByteOffset: 1, as: UInt8.self)
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

        @unsafe
        private static func read(_ name: UnsafeRawPointer) -> Endpoint {
            let port = UInt16(bigEndian: unsafe name.load(fromByteOffset: 2, as: UInt16.self))
            if Int32(unsafe name.load(fromByteOffset: 1, as: UInt8.self)) == AF_INET6 {
                return Endpoint(
                    address: .v6(
                        UInt64(bigEndian: unsafe name.load(fromByteOffset: 8, as: UInt64.self)),
                        UInt64(bigEndian: unsafe name.load(fromByteOffset: 16, as: UInt64.self))),
                    port: port, scopeID: unsafe name.load(fromByteOffset: 24, as: UInt32.self))
            }
            let address = UInt32(bigEndian: unsafe name.load(fromByteOffset: 4, as: UInt32.self))
            return Endpoint(address: .v4(address), port: port)
        }

        /// Control messages here are headed by three 32-bit words and padded to 4 bytes.
        private func readControl(length: Int) {
            var offset = 0
            while length - offset >= Self.headerLength {
                let size = Int(unsafe control.load(fromByteOffset: offset, as: UInt32.self))
                guard size >= Self.headerLength, size <= length - offset else { return }
                let level = unsafe control.load(fromByteOffset: offset + 4, as: Int32.self)
                let type = unsafe control.load(fromByteOffset: offset + 8, as: Int32.self)
                let payload = unsafe control + offset + Self.headerLength
                if level == IPPROTO_IP, type == IP_PKTINFO, size >= Self.headerLength + 12 {
                    endpoint.source.interfaceIndex = unsafe payload.loadUnaligned(as: UInt32.self)
                    let address = unsafe payload.loadUnaligned(fromByteOffset: 4, as: UInt32.self)
                    endpoint.source.low = UInt64(UInt32(bigEndian: address))
                } else if level == IPPROTO_IPV6, type == Self.ipv6PacketInfo, size >= Self.headerLength + 20 {
                    endpoint.source.high = UInt64(bigEndian: unsafe payload.loadUnaligned(as: UInt64.self))
                    endpoint.source.low = UInt64(
                        bigEndian: unsafe payload.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                    endpoint.source.interfaceIndex = unsafe payload.loadUnaligned(fromByteOffset: 16, as: UInt32.self)
                }
                offset += (size + 3) & ~3
            }
        }

        private func writeControl(_ endpoint: Endpoint) -> Int {
            var interface = endpoint.source.interfaceIndex
            // An IPv4 address has no scope in its socket address, so that packet info has to carry it.
            if interface == 0, !endpoint.isIPv6 { interface = endpoint.scopeID }
            guard interface != 0 || endpoint.source.low != 0 || endpoint.source.high != 0 else { return 0 }
            let payload = unsafe control + Self.headerLength
            let size = Self.headerLength + (endpoint.isIPv6 ? 20 : 12)
            unsafe control.storeBytes(of: UInt32(size), as: UInt32.self)
            unsafe control.storeBytes(of: endpoint.isIPv6 ? IPPROTO_IPV6 : IPPROTO_IP, toByteOffset: 4, as: Int32.self)
            let type = endpoint.isIPv6 ? Self.ipv6PacketInfo : IP_PKTINFO
            unsafe control.storeBytes(of: type, toByteOffset: 8, as: Int32.self)
            if endpoint.isIPv6 {
                unsafe payload.storeBytes(of: endpoint.source.high.bigEndian, as: UInt64.self)
                unsafe payload.storeBytes(of: endpoint.source.low.bigEndian, toByteOffset: 8, as: UInt64.self)
                unsafe payload.storeBytes(of: interface, toByteOffset: 16, as: UInt32.self)
            } else {
                let source = UInt32(truncatingIfNeeded: endpoint.source.low)
                unsafe payload.storeBytes(of: interface, as: UInt32.self)
                unsafe payload.storeBytes(of: source.bigEndian, toByteOffset: 4, as: UInt32.self)
                unsafe payload.storeBytes(of: 0, toByteOffset: 8, as: UInt32.self)
            }
            return size
        }
    }
#endif
