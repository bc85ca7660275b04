// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import Synchronization

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// The frame that was read last, and how far its packets have been given.
    ///
    /// Used by one thread at a time, as `TunDevice` asks for; only ``hasMore`` is for all.
    @safe
    final class TunReader: @unchecked Sendable {
        /// Whether packets are left, as of the last call.
        let hasMore = Atomic<Bool>(false)
        private let mapping: PageMapping?
        private var splitter: SegmentSplitter?
        /// The bytes of a frame that is one packet; zero for none.
        private var whole = 0
        /// Where the packet begins in the frame.
        private var start = 0

        /// Headers and the largest packet.
        private static let capacity = 4 + VirtioHeader.length + 65_535

        /// - Parameter isUsed: whether there are frames at all; without, no memory is taken.
        init(isUsed: Bool) throws(TunnelIOError) {
            mapping = isUsed ? try PageMapping(byteCount: Self.capacity) : nil
        }

        /// Where to read a frame to.
        @unsafe
        var frame: UnsafeMutableRawBufferPointer {
            unsafe UnsafeMutableRawBufferPointer(start: mapping?.base, count: mapping == nil ? 0 : Self.capacity)
        }

        /// Takes up a frame of `count` bytes that was read.
        /// - Returns: false when it is malformed.
        func take(_ count: Int, _ framing: TunFraming) -> Bool {
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

        /// The bytes of the next packet; nil when there is none.
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

    /// What packets are joined with before they are written.
    ///
    /// Used by one thread at a time, as `TunDevice` asks for.
    @safe
    final class TunWriter: @unchecked Sendable {
        private var plan = CoalescingPlan()
        private var joinsTCP: Bool
        private var joinsUDP: Bool
        private let framing: TunFraming
        /// The headers for the kernel, 14 bytes at most, and that of the superframe.
        private let headers: UnsafeMutableRawPointer
        private let vectors: UnsafeMutablePointer<iovec>

        private static let superframe = 16

        init(joinsTCP: Bool, joinsUDP: Bool, framing: TunFraming) {
            self.framing = framing
            self.joinsTCP = joinsTCP
            self.joinsUDP = joinsUDP
            let length = Self.superframe + SuperframeHeader.longest
            unsafe headers = .allocate(byteCount: length, alignment: 16)
            unsafe headers.initializeMemory(as: UInt8.self, repeating: 0, count: length)
            unsafe vectors = .allocate(capacity: CoalescingPlan.mostSegments + 2)
            unsafe vectors.initialize(repeating: iovec(), count: CoalescingPlan.mostSegments + 2)
        }

        deinit {
            unsafe headers.deallocate()
            unsafe vectors.deallocate()
        }

        /// Whether anything is joined.
        var joins: Bool { joinsTCP || joinsUDP }

        /// Joins no more packets of one kind.
        func stopJoining(isTCP: Bool) {
            if isTCP { joinsTCP = false } else { joinsUDP = false }
        }

        func makePlan(for batch: PacketBatch) {
            plan.make(for: batch, joinsTCP: joinsTCP, joinsUDP: joinsUDP)
        }

        @inline(__always)
        func isJoined(_ index: Int) -> Bool { plan.isJoined(index) }

        @inline(__always)
        func frame(at index: Int) -> CoalescingPlan.Frame? { plan.frame(at: index) }

        @inline(__always)
        func next(after index: Int) -> Int? { plan.next(after: index) }

        /// Writes one superframe, its payload from where it lies.
        /// - Returns: false when it failed, with the reason in `errno`.
        @unsafe
        func put(_ frame: CoalescingPlan.Frame, of batch: PacketBatch, to descriptor: Int32) -> Bool {
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
            var next: Int? = frame.head
            while let index = next, count < CoalescingPlan.mostSegments + 2 {
                let packet = batch[index]
                unsafe vectors[count] = iovec(
                    iov_base: batch.base + (Int(packet.offset) + frame.headers),
                    iov_len: Int(packet.length) - frame.headers)
                count += 1
                next = plan.next(after: index)
            }
            return SystemCall.retry { unsafe writev(descriptor, vectors, Int32(count)) } >= 0
        }
    }
#endif
