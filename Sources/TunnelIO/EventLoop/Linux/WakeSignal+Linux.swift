// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// A descriptor that polls readable from ``raise()`` until ``clear()``: an eventfd.
    package final class WakeSignal: Sendable {
        /// The descriptor to poll.
        package let descriptor: Int32

        package init() throws(TunnelIOError) {
            descriptor = ctunnel_eventfd()
            guard descriptor >= 0 else { throw TunnelIOError(.eventLoop(operation: "eventfd"), errno: errno) }
        }

        deinit {
            _ = close(descriptor)
        }

        package func raise() {
            var one: UInt64 = 1
            _ = unsafe write(descriptor, &one, 8)
        }

        package func clear() {
            var value: UInt64 = 0
            _ = unsafe read(descriptor, &value, 8)
        }
    }
#endif
