// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// A descriptor that polls readable from ``raise()`` to ``lower()``: a pipe.
    struct ReadinessSignal: ~Copyable, Sendable {
        private let reader: OwnedDescriptor
        private let writer: OwnedDescriptor

        /// A lowered signal.
        init() throws(TunnelIOError) {
            var ends: (Int32, Int32) = (-1, -1)
            try SystemCall.check(.eventLoop(operation: "make a pipe")) {
                unsafe withUnsafeMutableBytes(of: &ends) {
                    unsafe pipe($0.assumingMemoryBound(to: Int32.self).baseAddress)
                }
            }
            reader = OwnedDescriptor(ends.0)
            writer = OwnedDescriptor(ends.1)
            for end in [ends.0, ends.1] {
                _ = fcntl(end, F_SETFL, O_NONBLOCK)
                _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            }
        }

        /// What to poll.
        var number: Int32 { reader.number }

        /// Makes the descriptor readable. Safe to repeat: a full pipe is readable already.
        func raise() {
            let number = writer.number
            var one: UInt8 = 1
            _ = SystemCall.retry { unsafe write(number, &one, 1) }
        }

        /// Makes the descriptor not readable. Safe to repeat.
        func lower() {
            let number = reader.number
            unsafe withUnsafeTemporaryAllocation(byteCount: 512, alignment: 1) { bytes in
                while SystemCall.retry({ unsafe read(number, bytes.baseAddress, bytes.count) }) == bytes.count {}
            }
        }
    }
#endif
