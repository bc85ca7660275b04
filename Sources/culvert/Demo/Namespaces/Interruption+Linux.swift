// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Synchronization

    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// SIGINT, SIGTERM and SIGHUP as something that can be waited for, so that what was made is removed before the end.
    enum Interruption {
        /// The writing end of the pipe that the handler raises; -1 while there is none.
        private static let raised = Atomic<Int32>(-1)
        private static let wasRaised = Atomic(false)

        /// Takes over the signals.
        /// - Returns: a descriptor that polls readable once one came.
        static func prepare() throws(DemoFailure) -> Int32 {
            let ends = try ChildProcess.makePipe()
            _ = wasRaised.load(ordering: .relaxed)
            raised.store(ends.writing, ordering: .relaxed)
            for number in [SIGINT, SIGTERM, SIGHUP] {
                _ = signal(number) { _ in
                    Interruption.wasRaised.store(true, ordering: .relaxed)
                    var byte: UInt8 = 1
                    unsafe _ = write(Interruption.raised.load(ordering: .relaxed), &byte, 1)
                }
            }
            return ends.reading
        }

        /// Whether one of the signals came.
        static var hasHappened: Bool { wasRaised.load(ordering: .relaxed) }
    }
#endif
