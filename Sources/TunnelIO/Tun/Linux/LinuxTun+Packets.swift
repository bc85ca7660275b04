// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization
    import TunnelSystem

    extension LinuxTun {
        /// Appends packets, each one IP packet, until the device has no more or the batch has no room for another of
        /// 65,535 bytes, whatever the MTU, which may be raised at any time.
        ///
        /// The batch has at least ``PacketBatch/minimumReadBytes``; packets begin at multiples of 16.
        ///
        /// A loop over ``readiness`` does not spin on an interface that is down: then the kernel queues no packet, so the
        /// descriptor does not poll readable, and a read that finds none is not an error. Only a removed interface polls
        /// ready forever, and that throws.
        public func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
            try batch.checkReadable()
            guard descriptor.acquire() else { throw TunnelIOError(.closed) }
            defer { descriptor.release() }
            return framing.hasVirtioHeader ? try receiveFrames(into: batch) : try receivePackets(into: batch)
        }

        /// Whether packets of the last superframe were not returned yet. ``receive(into:)`` then has packets that
        /// ``readiness`` does not report.
        public var hasBufferedPackets: Bool { reader.hasMore.load(ordering: .relaxed) }

        /// Receives without virtio headers: each system call reads one packet directly into the batch. Packet
        /// information is read into the free bytes before the packet.
        private func receivePackets(into batch: PacketBatch) throws(TunnelIOError) -> Int {
            let before = batch.count
            let front = framing.length
            while let start = batch.nextStart() {
                let room = unsafe UnsafeMutableRawBufferPointer(
                    start: batch.base + (start - front), count: front + PacketBatch.longestPacket)
                let count = SystemCall.retry { unsafe ctunnel_read(descriptor.number, room.baseAddress, room.count) }
                guard count > 0 else {
                    // Packets that were read are returned first; the next call returns the error.
                    if count < 0, batch.count == before, let failure = readFailure(errno) { throw failure }
                    break
                }
                guard count > front else {
                    malformedFrames.wrappingAdd(1, ordering: .relaxed)
                    continue
                }
                batch.append(offset: start, length: count - front)
                if batch.readsOnce { break }
            }
            return batch.count - before
        }

        /// Receives with virtio headers: reads each frame into the reader, and copies its packets to the batch. Packets
        /// for which the batch has no room stay in the reader until the next call.
        private func receiveFrames(into batch: PacketBatch) throws(TunnelIOError) -> Int {
            let before = batch.count
            while true {
                while let length = reader.nextLength, let start = batch.nextStart(for: length) {
                    unsafe reader.writeNext(to: batch.base + start)
                    batch.append(offset: start, length: length)
                }
                let isWaiting = reader.nextLength != nil
                let isEnough = batch.readsOnce && batch.count > before
                if isWaiting || isEnough || batch.count == batch.packetCapacity {
                    reader.hasMore.store(isWaiting, ordering: .relaxed)
                    break
                }
                reader.hasMore.store(false, ordering: .relaxed)
                let room = unsafe reader.frame
                let count = SystemCall.retry { unsafe ctunnel_read(descriptor.number, room.baseAddress, room.count) }
                guard count > 0 else {
                    if count < 0, batch.count == before, let failure = readFailure(errno) { throw failure }
                    break
                }
                if !reader.accept(count, framing) { malformedFrames.wrappingAdd(1, ordering: .relaxed) }
            }
            return batch.count - before
        }

        /// The error of a failed read; `nil` if there was nothing to read.
        private func readFailure(_ reason: Int32) -> TunnelIOError? {
            switch reason {
            case EAGAIN, EIO, ENOMEM, ENOBUFS:
                return nil
            case EBADFD:
                return removed
            case EFAULT:
                // The kernel also returns this if the interface is removed during a read.
                if (try? LinkWatch.name(of: descriptor.number)) == nil { return removed }
                return failure("read", errno: reason)
            default:
                return failure("read", errno: reason)
            }
        }

        /// Sends every packet of nonzero length.
        /// - Returns: the numbers of packets that the system accepted and refused.
        /// - Throws: `.deviceRemoved`, `.closed`.
        public func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
            guard descriptor.acquire() else { throw TunnelIOError(.closed) }
            defer { descriptor.release() }
            var calls = KernelTunWriteCalls(descriptor: descriptor.number)
            guard let result = writer.send(batch, with: &calls) else {
                throw removed
            }
            if writer.refused > 0 { refusedSuperframes.wrappingAdd(writer.refused, ordering: .relaxed) }
            return result
        }
    }

    private struct KernelTunWriteCalls: TunWriteCalls {
        let descriptor: Int32

        @inline(__always)
        mutating func write(_ vectors: UnsafePointer<iovec>, count: Int) -> Int32 {
            SystemCall.retry { unsafe ctunnel_writev(descriptor, vectors, Int32(count)) } >= 0 ? 0 : errno
        }

        mutating func now() -> Int64 { LaneClock.now() }
    }
#endif
