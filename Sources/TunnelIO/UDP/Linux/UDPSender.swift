// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// Sends a range of a batch in chunks, goes on after partial sends and leaves out what cannot be sent.
    struct UDPSender {
        let messages: UDPMessageArray
        var result = DatagramSendResult()
        /// How often a source had to be left out.
        var staleSources = 0

        init(messages: UDPMessageArray) {
            self.messages = messages
        }

        /// Sends those datagrams in `range` that are of this family and not empty.
        @inline(__always)
        mutating func send<Calls: UDPSendCalls>(
            _ batch: PacketBatch, in range: Range<Int>, isIPv6: Bool, with calls: inout Calls
        ) {
            let range = range.clamped(to: 0..<batch.count)
            var count = 0
            for index in range {
                let length = batch[index].length
                let endpoint = batch[endpoint: index]
                guard length > 0, endpoint.isIPv6 == isIPv6 else { continue }
                fill(count, offset: Int(batch[index].offset), length: Int(length), of: batch, to: endpoint)
                count += 1
                if count == UDPMessageArray.capacity {
                    flush(count, with: &calls)
                    count = 0
                }
            }
            if count > 0 { flush(count, with: &calls) }
        }

        @inline(__always)
        private func fill(_ index: Int, offset: Int, length: Int, of batch: PacketBatch, to endpoint: DatagramEndpoint)
        {
            unsafe messages.vectors[index].iov_base = batch.base + offset
            unsafe messages.vectors[index].iov_len = length
            let nameLength = unsafe UDPSocketAddress.write(endpoint, to: messages.name(index))
            unsafe messages.headers[index].msg_hdr.msg_namelen = socklen_t(nameLength)
            let controlLength = unsafe UDPControlMessages.write(endpoint, to: messages.control(index))
            unsafe messages.headers[index].msg_hdr.msg_control = controlLength == 0 ? nil : messages.control(index)
            unsafe messages.headers[index].msg_hdr.msg_controllen = numericCast(controlLength)
        }

        /// Sends the first `count` messages. Each is taken, dropped, or tried again once without its source.
        @inline(__always)
        private mutating func flush<Calls: UDPSendCalls>(_ count: Int, with calls: inout Calls) {
            var next = 0
            while next < count {
                let taken = unsafe calls.send(messages.headers + next, count: count - next)
                if taken > 0 {
                    let end = min(next + taken, count)
                    for index in next..<end { result.bytes &+= unsafe messages.vectors[index].iov_len }
                    result.sent += end - next
                    next = end
                    continue
                }
                let code = Int32(truncatingIfNeeded: -taken)
                if code == EINTR { continue }
                if code == EAGAIN {
                    if calls.waitForRoom() { continue }
                    // The queue is full, and stays so for those behind as well.
                    result.dropped += count - next
                    result.lastError = code
                    return
                }
                if Self.mayBeStaleSource(code), leaveOutSource(of: next, in: count) { continue }
                result.dropped += 1
                result.lastError = code
                next += 1
            }
        }

        /// Whether the error can come from a local address or an interface that is no more.
        private static func mayBeStaleSource(_ code: Int32) -> Bool {
            switch code {
            case EINVAL, ENETUNREACH, ENODEV, EADDRNOTAVAIL, ENETDOWN, EHOSTUNREACH: true
            default: false
            }
        }

        /// Takes the source off message `index` and off those behind it that have the same.
        /// - Returns: false when it had none.
        private mutating func leaveOutSource(of index: Int, in count: Int) -> Bool {
            let length = Int(unsafe messages.headers[index].msg_hdr.msg_controllen)
            guard length > 0 else { return false }
            for other in index..<count where Int(unsafe messages.headers[other].msg_hdr.msg_controllen) == length {
                guard unsafe memcmp(messages.control(other), messages.control(index), length) == 0 else { continue }
                unsafe messages.headers[other].msg_hdr.msg_control = nil
                unsafe messages.headers[other].msg_hdr.msg_controllen = 0
                staleSources += 1
            }
            return true
        }
    }
#endif
