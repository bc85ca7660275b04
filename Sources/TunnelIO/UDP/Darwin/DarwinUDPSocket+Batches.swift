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
                    guard bytes.count > 0, endpoint.isIPv6 == isIPv6, let start = bytes.baseAddress else {
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
                endpoint = unsafe DarwinSocketAddress.read(name)
                unsafe DarwinPacketInfo.read(
                    UnsafeRawBufferPointer(start: control, count: Int(message.msg_controllen)), into: &endpoint)
                return length
            }
        }

        /// - Returns: zero or an error number.
        @unsafe
        func send(
            _ descriptor: Int32, _ start: UnsafeMutableRawPointer, _ length: Int, to endpoint: Endpoint,
            withSource: Bool
        ) -> Int32 {
            let nameLength = unsafe DarwinSocketAddress.write(endpoint, to: name)
            let controlLength = withSource ? unsafe DarwinPacketInfo.write(endpoint, to: control) : 0
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
    }
#endif
