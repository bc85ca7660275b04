// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// Blocking until a descriptor has something to read.
enum DescriptorWait {
    /// Waits until one of two descriptors is readable, hung up or in error.
    /// - Parameter deadline: on ``LaneClock``; `nil` for none. The wait may end up to a millisecond later.
    /// - Returns: false if the deadline has passed.
    static func wait(_ one: Int32, _ two: Int32, until deadline: Int64?) throws(TunnelIOError) -> Bool {
        var items = (
            pollfd(fd: one, events: Int16(POLLIN), revents: 0), pollfd(fd: two, events: Int16(POLLIN), revents: 0)
        )
        while true {
            var milliseconds: Int32 = -1
            if let deadline {
                // The difference can overflow: such a deadline is never reached, or passed long ago.
                let now = LaneClock.now()
                let (difference, isTooLarge) = deadline.subtractingReportingOverflow(now)
                let left = deadline <= now ? 0 : isTooLarge ? .max : difference
                milliseconds = Int32(clamping: left / 1_000_000 + (left % 1_000_000 > 0 ? 1 : 0))
            }
            let count = unsafe withUnsafeMutableBytes(of: &items) { bytes in
                unsafe poll(bytes.baseAddress?.assumingMemoryBound(to: pollfd.self), 2, milliseconds)
            }
            if count > 0 { return true }
            if count < 0, errno != EINTR { throw TunnelIOError(.eventLoop(operation: "poll"), errno: errno) }
            if let deadline, LaneClock.now() >= deadline { return false }
        }
    }
}
