// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// A descriptor that polls readable from ``raise()`` until ``clear()``: a pipe. Not verified on a device yet.
    package final class WakeSignal: Sendable {
        /// The descriptor to poll.
        package let descriptor: Int32
        private let writeEnd: Int32

        package init() throws(TunnelIOError) {
            var ends: [Int32] = [-1, -1]
            guard unsafe pipe(&ends) == 0 else {
                throw TunnelIOError(.eventLoop(operation: "pipe"), errno: errno)
            }
            descriptor = ends[0]
            writeEnd = ends[1]
            for end in ends {
                _ = fcntl(end, F_SETFL, O_NONBLOCK)
                _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            }
        }

        deinit {
            _ = close(descriptor)
            _ = close(writeEnd)
        }

        package func raise() {
            var one: UInt8 = 1
            _ = unsafe write(writeEnd, &one, 1)
        }

        package func clear() {
            var bytes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
            while unsafe read(descriptor, &bytes, 32) == 32 {}
        }
    }
#endif
