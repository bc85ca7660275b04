// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization

    extension LinuxUDPSocket {
        /// The distance of two slots: room for any datagram and 32 bytes after it. It is not a multiple of a page, so the
        /// starts of the slots are not all in the same cache sets.
        package static let slotStride = 65_536 + 64
        /// The bytes at the end of a slot that are kept free.
        static let slotGap = 32
        /// The number of slots: for one system call if each slot may contain many joined datagrams; for one system call
        /// after datagrams that were not joined, since the next ones probably are not either; and for one batch.
        private static let joinedSlots = 2
        private static let singleSlots = 8
        private static let mostSlots = 16
        /// The number of joined datagrams after which a batch is returned. Datagrams that are opened together are delivered
        /// together, and a program's socket has room for about a hundred packets.
        private static let enoughJoined = UDPMessageArray.mostSegments
        /// The smallest slot, in bytes.
        private static let smallestSlot = 2048

        /// Appends datagrams until there are no more, the batch has no room for another, or at least 64 were appended
        /// and some of them were joined.
        public func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
            try receiving.withLock { (descriptor) throws(TunnelIOError) in
                guard descriptor >= 0 else { throw TunnelIOError(.closed) }
                var appended = 0
                var isJoined = false
                if isCutting.load(ordering: .relaxed),
                    batch.packetCapacity < UDPMessageArray.mostSegments || batch.byteCapacity < Self.slotStride
                {
                    // One message could hold more than the batch.
                    _ = SocketSetup.setOption(descriptor, Int32(IPPROTO_UDP), CTUNNEL_UDP_GRO, 0)
                    isCutting.store(false, ordering: .relaxed)
                }
                while true {
                    let slots = layOut(batch, expectsJoined: appended == 0 || isJoined)
                    guard slots.count > 0 else { return appended }
                    let count = unsafe ctunnel_recvmmsg(descriptor, incoming.headers, UInt32(slots.count))
                    if count < 0 {
                        if errno == EINTR { continue }
                        // Datagrams that were received are returned first; the next call returns the error.
                        guard Self.isPassing(errno) || appended > 0 else {
                            throw TunnelIOError(.socket(operation: "recvmmsg"), errno: errno)
                        }
                        return appended
                    }
                    let before = appended
                    for index in 0..<Int(count) { appended += append(index, at: slots.start, into: batch) }
                    if count < slots.count || batch.readsOnce { return appended }
                    if appended - before > Int(count) { isJoined = true }
                    if isJoined, appended >= Self.enoughJoined { return appended }
                }
            }
        }

        /// Lays slots into the free bytes of `batch` and points the vectors at them.
        private func layOut(_ batch: PacketBatch, expectsJoined: Bool) -> (start: Int, count: Int) {
            let descriptors = batch.packetCapacity - batch.count
            var start = batch.tail
            if start > 0 { start = (start + Self.slotGap + 63) & ~63 }
            var room = batch.byteCapacity - start
            var most = min(UDPMessageArray.capacity, descriptors)
            if isCutting.load(ordering: .relaxed) {
                // A slot may hold as many datagrams as a message; full ones soon fill the batch and the cache.
                let slots = expectsJoined ? Self.joinedSlots : Self.singleSlots
                most = min(slots, descriptors / UDPMessageArray.mostSegments)
                room = min(room, Self.mostSlots * Self.slotStride - start)
            }
            if batch.readsOnce { most = min(most, 1) }
            var count = max(0, min(most, room / Self.slotStride))
            var length = Self.slotStride - Self.slotGap
            if count == 0, most > 0, batch.isEmpty, room >= Self.smallestSlot {
                // A batch too small for the largest datagram takes one at a time.
                count = 1
                length = room - Self.slotGap
            }
            guard count > 0 else { return (start, 0) }
            unsafe incoming.pointVectors(at: batch.base + start, count: count, length: length, stride: Self.slotStride)
            return (start, count)
        }

        /// Appends the datagrams of received message `index`, and prepares its header for the next message.
        /// - Returns: the number of datagrams appended.
        @inline(__always)
        private func append(_ index: Int, at start: Int, into batch: PacketBatch) -> Int {
            let header = unsafe incoming.headers[index]
            defer { incoming.expectMessage(index) }
            var endpoint = unsafe UDPSocketAddress.read(incoming.name(index))
            let seen = lastOverflow.load(ordering: .relaxed)
            var overflow = seen
            let size = unsafe UDPControlMessages.read(
                incoming.control(index), length: Int(header.msg_hdr.msg_controllen), into: &endpoint,
                overflow: &overflow)
            if overflow != seen {
                lastOverflow.store(overflow, ordering: .relaxed)
                overflowed.wrappingAdd(Int(overflow &- seen), ordering: .relaxed)
            }
            if unsafe header.msg_hdr.msg_flags & CTUNNEL_MSG_TRUNC != 0 {
                truncated.wrappingAdd(1, ordering: .relaxed)
                return 0
            }
            let offset = start &+ index &* Self.slotStride
            let length = Int(unsafe header.msg_len)
            guard size > 0, size < length else {
                if batch.append(offset: offset, length: length, endpoint: endpoint) != nil { return 1 }
                truncated.wrappingAdd(1, ordering: .relaxed)
                return 0
            }
            var taken = 0
            var at = 0
            while at < length {
                if batch.append(offset: offset &+ at, length: min(size, length &- at), endpoint: endpoint) == nil {
                    truncated.wrappingAdd(1, ordering: .relaxed)
                } else {
                    taken &+= 1
                }
                at &+= size
            }
            return taken
        }

        /// Whether a receive error is temporary: no datagram, or an error about a datagram that was sent.
        private static func isPassing(_ code: Int32) -> Bool {
            switch code {
            case EAGAIN, ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN, ENOBUFS, ENOMEM, EMSGSIZE,
                EPROTO, ENOPROTOOPT, ECONNRESET, EACCES, EPERM:
                true
            default: false
            }
        }
    }
#endif
