// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization

    /// The frame that was read last, and the packets of it that were not returned yet.
    ///
    /// One thread uses it at a time, as `TunDevice` requires; any thread may read ``hasMore``.
    @safe
    final class TunReader: @unchecked Sendable {
        /// Whether packets are left, as of the last call.
        let hasMore = Atomic<Bool>(false)
        private let mapping: PageMapping?
        private var splitter: SegmentSplitter?
        /// The bytes of a frame that is one packet; zero for none.
        private var whole = 0
        /// The packet's offset in the frame.
        private var start = 0

        /// Headers and the largest packet.
        private static let capacity = 4 + VirtioHeader.length + 65_535

        /// - Parameter isUsed: whether frames will be read; if not, the reader allocates no memory.
        init(isUsed: Bool) throws(TunnelIOError) {
            mapping = isUsed ? try PageMapping(byteCount: Self.capacity) : nil
        }

        /// The buffer for the next frame.
        @unsafe
        var frame: UnsafeMutableRawBufferPointer {
            unsafe UnsafeMutableRawBufferPointer(start: mapping?.base, count: mapping == nil ? 0 : Self.capacity)
        }

        /// Accepts a frame of `count` bytes that was read into ``frame``.
        /// - Returns: false if it is malformed.
        func accept(_ count: Int, _ framing: TunFraming) -> Bool {
            let bytes = unsafe UnsafeMutableRawBufferPointer(rebasing: frame[..<min(count, frame.count)])
            guard bytes.count >= framing.length,
                let header = unsafe VirtioHeader(UnsafeRawBufferPointer(rebasing: bytes[framing.virtioOffset...]))
            else { return false }
            start = framing.length
            if header.segmentation == VirtioHeader.Segmentation.none {
                whole = unsafe framing.finish(bytes) ?? 0
                return whole > 0
            }
            let packet = unsafe UnsafeRawBufferPointer(rebasing: bytes[start...])
            splitter = unsafe SegmentSplitter(header, packet)
            return splitter != nil
        }

        /// The bytes of the next packet; `nil` if there is none.
        @inline(__always)
        var nextLength: Int? { splitter?.nextLength ?? (whole > 0 ? whole : nil) }

        /// Writes the next packet to `out`, which has room for it.
        @unsafe
        @inline(__always)
        func writeNext(to out: UnsafeMutableRawPointer) {
            guard let base = unsafe mapping?.base else { return }
            let packet = unsafe base + start
            if splitter != nil {
                unsafe splitter?.write(from: packet, to: out)
                if splitter?.isFinished == true { splitter = nil }
            } else {
                unsafe out.copyMemory(from: packet, byteCount: whole)
                whole = 0
            }
        }
    }

    /// The system calls of `TunWriter`; tests replace them to return errors.
    protocol TunWriteCalls {
        /// Writes one frame.
        /// - Returns: zero or an error number.
        @unsafe
        mutating func write(_ vectors: UnsafePointer<iovec>, count: Int) -> Int32
        /// The time, in nanoseconds. The writer calls it only after a refusal.
        mutating func now() -> Int64
    }

    /// Whether packets of one kind are joined. A refusal of the system pauses joining; the pause doubles with each
    /// further refusal, until the system accepts a superframe.
    struct SuperframeJoining {
        private let isWanted: Bool
        /// The time of the next attempt; `nil` if nothing was refused.
        private(set) var pausedUntil: Int64?
        private var pause = Self.shortest

        /// The shortest and the longest time after a refusal without an attempt.
        static let shortest = 10 * LaneClock.nanosecondsPerSecond
        static let longest = 320 * LaneClock.nanosecondsPerSecond

        init(isWanted: Bool) { self.isWanted = isWanted }

        /// Whether packets may be joined now.
        var isOn: Bool { isWanted && pausedUntil == nil }

        /// Ends the pause if its time has passed.
        mutating func resume(at now: Int64) {
            if let until = pausedUntil, now >= until { pausedUntil = nil }
        }

        mutating func refuse(at now: Int64) {
            pausedUntil = now &+ pause
            pause = min(2 * pause, Self.longest)
        }

        /// Resets the pause after the system accepted a superframe.
        mutating func succeed() {
            if pause != Self.shortest { pause = Self.shortest }
        }
    }

    /// Writes packets, and joins those that can be joined.
    ///
    /// One thread uses it at a time, as `TunDevice` requires.
    @safe
    final class TunWriter: @unchecked Sendable {
        /// Accesses are not checked at run time: no access contains another.
        @exclusivity(unchecked) private var plan = CoalescingPlan()
        private var tcp: SuperframeJoining
        private var udp: SuperframeJoining
        private let mayJoin: Bool
        /// The number of superframes of the last batch that the system refused.
        private(set) var refused = 0
        private let framing: TunFraming
        /// Three headers: one for the kernel, at most 14 bytes; the superframe's; and one for the kernel whose segmentation
        /// fields are zero, since checksums are complete and the packet is not segmented.
        private let headers: UnsafeMutableRawPointer
        private let vectors: UnsafeMutablePointer<iovec>
        /// The memory for the payloads of superframes. Its pages are not in use until the first superframe.
        private let payloads: UnsafeMutableRawBufferPointer

        /// The bytes of two superframes, as many as a socket returns at a time.
        private static let payloadBytes = 128 << 10
        private static let superframe = 16
        private static let plain = superframe + (SuperframeHeader.longest + 15) / 16 * 16
        private static let mostVectors = CoalescingPlan.mostSegments + 2

        init(joinsTCP: Bool, joinsUDP: Bool, framing: TunFraming) {
            self.framing = framing
            tcp = SuperframeJoining(isWanted: joinsTCP)
            udp = SuperframeJoining(isWanted: joinsUDP)
            mayJoin = framing.hasVirtioHeader && (joinsTCP || joinsUDP)
            let length = Self.plain + Self.superframe
            unsafe headers = .allocate(byteCount: length, alignment: 16)
            unsafe headers.initializeMemory(as: UInt8.self, repeating: 0, count: length)
            unsafe vectors = .allocate(capacity: Self.mostVectors)
            unsafe vectors.initialize(repeating: iovec(), count: Self.mostVectors)
            unsafe payloads = .allocate(byteCount: mayJoin ? Self.payloadBytes : 0, alignment: 64)
        }

        deinit {
            unsafe headers.deallocate()
            unsafe vectors.deallocate()
            unsafe payloads.deallocate()
        }

        /// Whether anything is joined.
        var joins: Bool { tcp.isOn || udp.isOn }

        /// Writes every packet of nonzero length.
        /// - Returns: the numbers of packets that the system accepted and refused; `nil` if the device was removed.
        func send<Calls: TunWriteCalls>(_ batch: PacketBatch, with calls: inout Calls) -> TunSendResult? {
            var result = TunSendResult(sent: 0, dropped: 0)
            refused = 0
            if mayJoin, tcp.pausedUntil != nil || udp.pausedUntil != nil {
                let now = calls.now()
                tcp.resume(at: now)
                udp.resume(at: now)
            }
            let isPlanned = mayJoin && joins && batch.count > 1
            if isPlanned {
                unsafe plan.make(for: batch, joinsTCP: tcp.isOn, joinsUDP: udp.isOn, copyingTo: payloads)
            }
            for index in 0..<batch.count where batch[index].length > 0 {
                guard isPlanned else {
                    guard put(index, of: batch, &result, &calls) else { return nil }
                    continue
                }
                if unsafe plan.isJoined(index) { continue }
                guard let frame = unsafe plan.frame(at: index) else {
                    guard put(index, of: batch, &result, &calls) else { return nil }
                    continue
                }
                guard put(frame, of: batch, &result, &calls) else { return nil }
            }
            return result
        }

        /// Writes a superframe, or its packets one by one if the system refuses it.
        /// - Returns: false if the device was removed.
        @inline(__always)
        private func put<Calls: TunWriteCalls>(
            _ frame: CoalescingPlan.Frame, of batch: PacketBatch, _ result: inout TunSendResult, _ calls: inout Calls
        ) -> Bool {
            if frame.isTCP ? tcp.isOn : udp.isOn {
                let count = lay(frame, of: batch)
                switch unsafe calls.write(vectors, count: count) {
                case 0:
                    result.sent += frame.count
                    if frame.isTCP { tcp.succeed() } else { udp.succeed() }
                    return true
                case EBADFD:
                    return false
                case EINVAL:
                    // The kernel accepts no such frames after all, or not this one.
                    refused += 1
                    if frame.isTCP { tcp.refuse(at: calls.now()) } else { udp.refuse(at: calls.now()) }
                case ENOMEM, ENOBUFS:
                    // The system may lack this much memory in one piece.
                    break
                default:
                    result.dropped += frame.count
                    return true
                }
            }
            var next: Int? = frame.head
            while let packet = next {
                guard put(packet, of: batch, &result, &calls) else { return false }
                next = unsafe plan.next(after: packet)
            }
            return true
        }

        /// Sets the vectors for a superframe.
        /// - Returns: the number of vectors.
        private func lay(_ frame: CoalescingPlan.Frame, of batch: PacketBatch) -> Int {
            let head = unsafe UnsafeRawPointer(batch.base + Int(batch[frame.head].offset))
            let header = unsafe SuperframeHeader.write(frame, head: head, to: headers + Self.superframe)
            unsafe header.store(
                to: UnsafeMutableRawBufferPointer(start: headers + framing.virtioOffset, count: VirtioHeader.length))
            if framing.hasPacketInformation {
                let information = unsafe TunFraming.packetInformation(of: UnsafeRawBufferPointer(start: head, count: 1))
                unsafe headers.storeBytes(of: information ?? 0, as: UInt32.self)
            }
            unsafe vectors[0] = iovec(iov_base: headers, iov_len: framing.length)
            unsafe vectors[1] = iovec(iov_base: headers + Self.superframe, iov_len: frame.headers)
            var count = 2
            if let copy = frame.copy, let base = unsafe payloads.baseAddress {
                unsafe vectors[count] = iovec(iov_base: base + copy, iov_len: frame.total - frame.headers)
                return count + 1
            }
            var next: Int? = frame.head
            while let index = next, count < Self.mostVectors {
                let packet = batch[index]
                unsafe vectors[count] = iovec(
                    iov_base: batch.base + (Int(packet.offset) + frame.headers),
                    iov_len: Int(packet.length) - frame.headers)
                count += 1
                next = unsafe plan.next(after: index)
            }
            return count
        }

        /// Writes one packet unchanged.
        /// - Returns: false if the device was removed.
        @inline(__always)
        private func put<Calls: TunWriteCalls>(
            _ index: Int, of batch: PacketBatch, _ result: inout TunSendResult, _ calls: inout Calls
        ) -> Bool {
            let packet = unsafe batch.bytes(of: index)
            if framing.hasPacketInformation {
                guard let information = unsafe TunFraming.packetInformation(of: UnsafeRawBufferPointer(packet)) else {
                    // The kernel would accept any bytes.
                    result.dropped += 1
                    return true
                }
                unsafe (headers + Self.plain).storeBytes(of: information, as: UInt32.self)
            }
            let isBare = framing.length == 0
            unsafe vectors[0] = iovec(iov_base: headers + Self.plain, iov_len: framing.length)
            unsafe vectors[1] = iovec(iov_base: packet.baseAddress, iov_len: packet.count)
            switch unsafe calls.write(isBare ? vectors + 1 : vectors, count: isBare ? 1 : 2) {
            case 0:
                result.sent += 1
            case EBADFD:
                return false
            default:
                // EIO while the interface is down, EINVAL for an invalid IP packet, ENOBUFS, ENOMEM or EAGAIN if the system
                // is short of memory: another attempt would not help.
                result.dropped += 1
            }
            return true
        }
    }
#endif
