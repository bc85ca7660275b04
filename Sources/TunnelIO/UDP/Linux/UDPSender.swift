// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import NetworkAddresses

    /// Sends a range of a batch in chunks, continues after partial sends and skips datagrams that cannot be sent.
    ///
    /// Adjacent datagrams of one size and endpoint become one message, which the system segments. If the system refuses, the
    /// datagrams are sent one by one, with the same bytes, since nothing may be sealed twice.
    struct UDPSender {
        private let messages = UDPMessageArray()
        /// The messages for the datagrams of a refused message.
        private let spare = UDPMessageArray()
        /// Whether messages may be joined at all.
        let joins: Bool
        /// The paths on which messages may not be joined, since the system refused to split them.
        let refusals: UDPRefusals
        /// The result of the last call.
        private(set) var result = DatagramSendResult()
        /// The number of datagrams of the last call whose source was left out.
        private(set) var staleSources = 0
        /// The number of joined messages of the last call that were taken apart into single datagrams.
        private(set) var takenApart = 0
        /// The time of this call; `nil` until it is first read.
        private var time: Int64?
        /// Whether this call has recorded a refusal.
        private var hasLearned = false

        /// The message that the next datagram may be added to.
        private struct Open {
            var size = 0
            var end = 0
            var total = 0
            var count = 0
            var endpoint = Endpoint.unspecified
        }

        init(joins: Bool, refusals: UDPRefusals = UDPRefusals()) {
            self.joins = joins
            self.refusals = refusals
        }

        /// Sends the datagrams in `range` that are of this family and not empty.
        @inline(__always)
        mutating func send<Calls: UDPSendCalls>(
            _ batch: PacketBatch, in range: Range<Int>, isIPv6: Bool, with calls: inout Calls
        ) {
            (result, staleSources, takenApart) = (DatagramSendResult(), 0, 0)
            (time, hasLearned) = (nil, false)
            let range = range.clamped(to: 0..<batch.count)
            let longest = isIPv6 ? 65_527 : 65_507
            var count = 0
            var open = Open()
            for index in range {
                let length = Int(batch[index].length)
                let offset = Int(batch[index].offset)
                let endpoint = batch[endpoint: index]
                guard length > 0, endpoint.isIPv6 == isIPv6 else { continue }
                if joins, count > 0, offset == open.end, length <= open.size, open.total + length <= longest,
                    open.count < UDPMessageArray.mostSegments, endpoint.hasSameEnds(as: open.endpoint),
                    open.count > 1 || mayJoin(endpoint, size: open.size, &calls)
                {
                    if open.count == 1 { unsafe messages.segmentSizes[count - 1] = open.size }
                    unsafe messages.vectors[count - 1].iov_len += length
                    open.total += length
                    open.count += 1
                    // A datagram that is shorter than the others ends the message.
                    open.end = length < open.size ? -1 : offset + length
                    continue
                }
                if count == UDPMessageArray.capacity {
                    flush(count, with: &calls)
                    count = 0
                }
                fill(count, offset: offset, length: length, of: batch, to: endpoint)
                count += 1
                open = Open(size: length, end: offset + length, total: length, count: 1, endpoint: endpoint)
            }
            if count > 0 { flush(count, with: &calls) }
        }

        /// Whether datagrams of this length may be joined on their way to this endpoint.
        @inline(__always)
        private mutating func mayJoin<Calls: UDPSendCalls>(
            _ endpoint: Endpoint, size: Int, _ calls: inout Calls
        ) -> Bool {
            if refusals.isEmpty { return true }
            return !refusals.covers(endpoint, size: size, at: now(&calls))
        }

        private mutating func now<Calls: UDPSendCalls>(_ calls: inout Calls) -> Int64 {
            if let time { return time }
            let now = calls.now()
            time = now
            return now
        }

        @inline(__always)
        private func fill(_ index: Int, offset: Int, length: Int, of batch: PacketBatch, to endpoint: Endpoint) {
            unsafe messages.vectors[index].iov_base = batch.base + offset
            unsafe messages.vectors[index].iov_len = length
            unsafe messages.segmentSizes[index] = 0
            let nameLength = unsafe UDPSocketAddress.write(endpoint, to: messages.name(index))
            unsafe messages.headers[index].msg_hdr.msg_namelen = socklen_t(nameLength)
            let controlLength = unsafe UDPControlMessages.write(endpoint, to: Self.source(index, of: messages))
            Self.setControl(index, of: messages, sourceLength: controlLength)
        }

        /// The position of the source of message `index`: after the segment size, which is optional.
        @unsafe
        @inline(__always)
        private static func source(_ index: Int, of messages: UDPMessageArray) -> UnsafeMutableRawPointer {
            unsafe messages.control(index) + UDPControlMessages.segmentLength
        }

        /// The bytes of the source of message `index`.
        @inline(__always)
        private static func sourceLength(_ index: Int, of messages: UDPMessageArray) -> Int {
            let length = Int(unsafe messages.headers[index].msg_hdr.msg_controllen)
            let isSized = unsafe messages.headers[index].msg_hdr.msg_control == messages.control(index)
            return isSized ? length - UDPControlMessages.segmentLength : length
        }

        /// Sets the control data of message `index` to its source, if it has one, without a segment size.
        @inline(__always)
        private static func setControl(_ index: Int, of messages: UDPMessageArray, sourceLength: Int) {
            unsafe messages.headers[index].msg_hdr.msg_control =
                sourceLength == 0 ? nil : unsafe source(index, of: messages)
            unsafe messages.headers[index].msg_hdr.msg_controllen = numericCast(sourceLength)
        }

        /// Adds the segment size to message `index`.
        @inline(__always)
        private static func addSegmentSize(_ index: Int, of messages: UDPMessageArray) {
            let length = sourceLength(index, of: messages) + UDPControlMessages.segmentLength
            unsafe UDPControlMessages.writeSegmentSize(messages.segmentSizes[index], to: messages.control(index))
            unsafe messages.headers[index].msg_hdr.msg_control = messages.control(index)
            unsafe messages.headers[index].msg_hdr.msg_controllen = numericCast(length)
        }

        /// The datagrams of message `index`.
        @inline(__always)
        private static func datagrams(_ index: Int, of messages: UDPMessageArray) -> Int {
            let size = unsafe messages.segmentSizes[index]
            guard size > 0 else { return 1 }
            return (Int(unsafe messages.vectors[index].iov_len) + size - 1) / size
        }

        @inline(__always)
        private mutating func flush<Calls: UDPSendCalls>(_ count: Int, with calls: inout Calls) {
            for index in 0..<count where unsafe messages.segmentSizes[index] > 0 {
                Self.addSegmentSize(index, of: messages)
            }
            put(messages, count, with: &calls)
        }

        /// Sends the first `count` messages. Each is sent, dropped, taken apart, or sent again once without its source.
        @inline(__always)
        private mutating func put<Calls: UDPSendCalls>(
            _ messages: UDPMessageArray, _ count: Int, with calls: inout Calls
        ) {
            var next = 0
            while next < count {
                let ready = hasLearned ? firstToTakeApart(from: next, in: count, messages, &calls) : count
                if ready == next {
                    takeApart(next, after: 0, with: &calls)
                    next += 1
                    continue
                }
                let taken = unsafe calls.send(messages.headers + next, count: ready - next)
                if taken > 0 {
                    let end = min(next + taken, ready)
                    for index in next..<end {
                        result.bytes &+= Int(unsafe messages.vectors[index].iov_len)
                        result.sent += Self.datagrams(index, of: messages)
                        let size = unsafe messages.segmentSizes[index]
                        if size > 0, refusals.wantsSuccesses {
                            unsafe refusals.recordSuccess(UDPSocketAddress.read(messages.name(index)), size: size)
                        }
                    }
                    next = end
                    continue
                }
                let code = Int32(truncatingIfNeeded: -taken)
                if code == EINTR { continue }
                if code == EAGAIN {
                    if calls.waitForRoom() { continue }
                    // The queue stays full, so the later messages are dropped too.
                    for index in next..<count { result.dropped += Self.datagrams(index, of: messages) }
                    result.lastError = code
                    return
                }
                if unsafe messages.segmentSizes[next] > 0, code == EIO || code == EMSGSIZE || code == EINVAL {
                    takeApart(next, after: code, with: &calls)
                    next += 1
                    continue
                }
                if Self.mayBeStaleSource(code), leaveOutSource(of: next, in: count, messages) { continue }
                result.dropped += Self.datagrams(next, of: messages)
                result.lastError = code
                next += 1
            }
        }

        /// The first joined message from `next` to an endpoint with a refusal; `count` for none.
        @inline(never)
        private mutating func firstToTakeApart<Calls: UDPSendCalls>(
            from next: Int, in count: Int, _ messages: UDPMessageArray, _ calls: inout Calls
        ) -> Int {
            for index in next..<count where unsafe messages.segmentSizes[index] > 0 {
                let endpoint = unsafe UDPSocketAddress.read(messages.name(index))
                if unsafe !mayJoin(endpoint, size: messages.segmentSizes[index], &calls) { return index }
            }
            return count
        }

        /// Sends the datagrams of message `index`, which the system refused, one by one.
        /// - Parameter code: the system's error; zero if the system was not asked.
        @inline(never)
        private mutating func takeApart<Calls: UDPSendCalls>(_ index: Int, after code: Int32, with calls: inout Calls) {
            takenApart += 1
            let size = unsafe messages.segmentSizes[index]
            let total = Int(unsafe messages.vectors[index].iov_len)
            let sourceLength = Self.sourceLength(index, of: messages)
            var count = 0
            var offset = 0
            while size > 0, offset < total, count < UDPMessageArray.capacity {
                unsafe spare.vectors[count].iov_base = messages.vectors[index].iov_base + offset
                unsafe spare.vectors[count].iov_len = min(size, total - offset)
                unsafe spare.segmentSizes[count] = 0
                unsafe spare.name(count).copyMemory(
                    from: messages.name(index), byteCount: UDPMessageArray.nameStride)
                unsafe spare.headers[count].msg_hdr.msg_namelen = messages.headers[index].msg_hdr.msg_namelen
                unsafe Self.source(count, of: spare).copyMemory(
                    from: Self.source(index, of: messages), byteCount: sourceLength)
                Self.setControl(count, of: spare, sourceLength: sourceLength)
                offset += size
                count += 1
            }
            let stale = staleSources
            put(spare, count, with: &calls)
            // If a source was stale, the error does not show that the system refuses to segment.
            guard code != 0, staleSources == stale else { return }
            hasLearned = true
            unsafe refusals.recordRefusal(
                code, UDPSocketAddress.read(messages.name(index)), size: size, at: now(&calls))
        }

        /// Whether the error can result from a local address or an interface that no longer exists.
        private static func mayBeStaleSource(_ code: Int32) -> Bool {
            switch code {
            case EINVAL, ENETUNREACH, ENODEV, EADDRNOTAVAIL, ENETDOWN, EHOSTUNREACH: true
            default: false
            }
        }

        /// Removes the source from message `index` and from later messages with the same source.
        /// - Returns: false if message `index` has no source.
        private mutating func leaveOutSource(of index: Int, in count: Int, _ messages: UDPMessageArray) -> Bool {
            let length = Self.sourceLength(index, of: messages)
            guard length > 0 else { return false }
            for other in (index..<count).reversed() where Self.sourceLength(other, of: messages) == length {
                let isSame = unsafe memcmp(Self.source(other, of: messages), Self.source(index, of: messages), length)
                guard isSame == 0 else { continue }
                Self.setControl(other, of: messages, sourceLength: 0)
                if unsafe messages.segmentSizes[other] > 0 { Self.addSegmentSize(other, of: messages) }
                staleSources += Self.datagrams(other, of: messages)
            }
            return true
        }
    }
#endif
