// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem
    import CommandLineSupport
    import PacketTunnelLinux
    import Synchronization
    import TunnelSystem

    /// SIGINT, SIGTERM and SIGHUP as something that can be waited for, so that what was made is removed before the end.
    enum Interruption {
        /// The writing end of the pipe that the handler raises; -1 while there is none.
        private static let raised = Atomic<Int32>(-1)
        private static let wasRaised = Atomic(false)
        /// For as long as the program runs.
        private static let kept = Mutex<DescriptorPipe?>(nil)

        /// Takes over the signals.
        /// - Returns: a descriptor that polls readable once one came.
        static func prepare() throws(DemoFailure) -> Int32 {
            let pipe = try makePipe()
            _ = wasRaised.load(ordering: .relaxed)
            raised.store(pipe.writer.number, ordering: .relaxed)
            kept.withLock { $0 = pipe }
            for number in [SIGINT, SIGTERM, SIGHUP] {
                _ = signal(number) { _ in
                    Interruption.wasRaised.store(true, ordering: .relaxed)
                    var byte: UInt8 = 1
                    unsafe _ = write(Interruption.raised.load(ordering: .relaxed), &byte, 1)
                }
            }
            return pipe.reader.number
        }

        /// Whether one of the signals came.
        static var hasHappened: Bool { wasRaised.load(ordering: .relaxed) }

        static func makePipe() throws(DemoFailure) -> DescriptorPipe {
            do throws(SystemError) { return try DescriptorPipe() } catch {
                throw DemoFailure("no more descriptors: \(SystemError.words(error.errno))")
            }
        }

        /// Waits until something can be read from `descriptor`, or its other end is closed.
        static func awaitReadable(
            _ descriptor: Int32, until deadline: Int64, interruption: Int32?
        ) throws(DemoFailure) {
            guard let ready = ChildProcess.ready([descriptor, interruption ?? -1], until: deadline) else {
                throw DemoFailure("the deadline passed")
            }
            if ready[1] { throw .interrupted }
        }
    }
#endif
