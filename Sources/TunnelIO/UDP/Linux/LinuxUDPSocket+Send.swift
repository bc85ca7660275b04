// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization

    extension LinuxUDPSocket {
        /// Sends the datagrams in `range` that are not empty and of this family.
        public func send(_ batch: PacketBatch, in range: Range<Int>) throws(TunnelIOError) -> DatagramSendResult {
            try sending.withLock { (sending) throws(TunnelIOError) in
                guard sending.descriptor >= 0 else { throw TunnelIOError(.closed) }
                var calls = KernelSendCalls(descriptor: sending.descriptor)
                sending.sender.send(batch, in: range, isIPv6: isIPv6, with: &calls)
                let (stale, apart) = (sending.sender.staleSources, sending.sender.takenApart)
                if stale > 0 { staleSources.wrappingAdd(stale, ordering: .relaxed) }
                if apart > 0 { takenApart.wrappingAdd(apart, ordering: .relaxed) }
                return sending.sender.result
            }
        }
    }

    /// The system calls of `UDPSender`; tests replace them to return errors and partial sends.
    protocol UDPSendCalls {
        /// - Returns: the number of messages that the system accepted, or the negated error number of the first one.
        @unsafe
        mutating func send(_ messages: UnsafeMutablePointer<ctunnel_mmsghdr>, count: Int) -> Int

        /// Waits briefly for room in the send queue.
        /// - Returns: whether there is any.
        mutating func waitForRoom() -> Bool

        /// The time of `LaneClock`.
        mutating func now() -> Int64
    }

    private struct KernelSendCalls: UDPSendCalls {
        let descriptor: Int32
        /// The wait in milliseconds, once per batch: a longer wait would delay all other work.
        var waitMilliseconds: Int32 = 4

        @inline(__always)
        mutating func send(_ messages: UnsafeMutablePointer<ctunnel_mmsghdr>, count: Int) -> Int {
            let sent = unsafe ctunnel_sendmmsg(descriptor, messages, UInt32(count))
            return sent >= 0 ? Int(sent) : -Int(errno)
        }

        mutating func waitForRoom() -> Bool {
            guard waitMilliseconds > 0 else { return false }
            var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            let ready = unsafe poll(&request, 1, waitMilliseconds)
            waitMilliseconds = 0
            return ready > 0
        }

        mutating func now() -> Int64 { LaneClock.now() }
    }
#endif
