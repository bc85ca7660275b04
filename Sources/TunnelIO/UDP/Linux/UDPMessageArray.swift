// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// The headers, vectors, names and control messages of one `recvmmsg` or `sendmmsg`, allocated once per socket
    /// and direction.
    ///
    /// One thread uses it at a time; the socket's locks ensure that.
    @safe
    final class UDPMessageArray: @unchecked Sendable {
        /// The most messages of one system call.
        static let capacity = 64
        /// The most datagrams of one message that the system cuts.
        static let mostSegments = 64
        /// A `sockaddr_in` or `sockaddr_in6`, and room to keep each aligned.
        static let nameStride = 32
        /// Room for packet info, the overflow counter and one more integer of the system.
        static let controlStride = 128

        let headers: UnsafeMutablePointer<ctunnel_mmsghdr>
        let vectors: UnsafeMutablePointer<iovec>
        /// For each message, the length of the datagrams into which the system splits it; zero for one datagram.
        let segmentSizes: UnsafeMutablePointer<Int>
        private let names: UnsafeMutableRawPointer
        private let controls: UnsafeMutableRawPointer
        /// The region and the number of slots that the vectors point to for receiving.
        var slotBase: UnsafeMutableRawPointer?
        var slotCount = 0
        var slotLength = 0

        init() {
            unsafe headers = .allocate(capacity: Self.capacity)
            unsafe headers.initialize(repeating: ctunnel_mmsghdr(), count: Self.capacity)
            unsafe vectors = .allocate(capacity: Self.capacity)
            unsafe vectors.initialize(repeating: iovec(), count: Self.capacity)
            unsafe segmentSizes = .allocate(capacity: Self.capacity)
            unsafe segmentSizes.initialize(repeating: 0, count: Self.capacity)
            unsafe names = .allocate(byteCount: Self.capacity * Self.nameStride, alignment: 16)
            unsafe names.initializeMemory(as: UInt8.self, repeating: 0, count: Self.capacity * Self.nameStride)
            unsafe controls = .allocate(byteCount: Self.capacity * Self.controlStride, alignment: 64)
            unsafe controls.initializeMemory(as: UInt8.self, repeating: 0, count: Self.capacity * Self.controlStride)
            unsafe slotBase = nil
            for index in 0..<Self.capacity {
                unsafe headers[index].msg_hdr.msg_name = name(index)
                unsafe headers[index].msg_hdr.msg_iov = vectors + index
                unsafe headers[index].msg_hdr.msg_iovlen = 1
                expectMessage(index)
            }
        }

        deinit {
            unsafe headers.deallocate()
            unsafe vectors.deallocate()
            unsafe segmentSizes.deallocate()
            unsafe names.deallocate()
            unsafe controls.deallocate()
        }

        @unsafe
        @inline(__always)
        func name(_ index: Int) -> UnsafeMutableRawPointer { unsafe names + index &* Self.nameStride }

        @unsafe
        @inline(__always)
        func control(_ index: Int) -> UnsafeMutableRawPointer { unsafe controls + index &* Self.controlStride }

        /// Makes message `index` ready to be received into: the system overwrites these lengths.
        @inline(__always)
        func expectMessage(_ index: Int) {
            unsafe headers[index].msg_hdr.msg_namelen = socklen_t(Self.nameStride)
            unsafe headers[index].msg_hdr.msg_control = control(index)
            unsafe headers[index].msg_hdr.msg_controllen = numericCast(Self.controlStride)
            unsafe headers[index].msg_hdr.msg_flags = 0
        }

        /// Points the first `count` vectors at slots of `length` bytes, `stride` apart.
        @unsafe
        func pointVectors(at base: UnsafeMutableRawPointer, count: Int, length: Int, stride: Int) {
            if unsafe base == slotBase, count == slotCount, length == slotLength { return }
            unsafe slotBase = base
            slotCount = count
            slotLength = length
            for index in 0..<count {
                unsafe vectors[index].iov_base = base + index &* stride
                unsafe vectors[index].iov_len = length
            }
        }
    }
#endif
