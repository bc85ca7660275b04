// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// A descriptor that polls readable from ``raise()`` to ``lower()``: an eventfd.
    struct ReadinessSignal: ~Copyable, Sendable {
        private let event: OwnedDescriptor

        /// A lowered signal.
        init() throws(TunnelIOError) {
            let number = try SystemCall.check(.eventLoop(operation: "make an eventfd")) {
                eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
            }
            event = OwnedDescriptor(number)
        }

        /// What to poll.
        var number: Int32 { event.number }

        /// Makes the descriptor readable. Safe to repeat.
        func raise() {
            let number = event.number
            var one: UInt64 = 1
            _ = SystemCall.retry { unsafe write(number, &one, 8) }
        }

        /// Makes the descriptor not readable. Safe to repeat.
        func lower() {
            let number = event.number
            var count: UInt64 = 0
            _ = SystemCall.retry { unsafe read(number, &count, 8) }
        }
    }
#endif
