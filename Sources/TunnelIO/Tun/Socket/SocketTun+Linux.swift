// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CTunnelSystem

    /// The kind of socket pair that preserves message boundaries and reports a closed end, closed on exec: `SOCK_SEQPACKET`.
    let packetPairKind: Int32 = 5 | O_CLOEXEC

    /// The events to poll for, and the events that report the end of reading.
    enum EndOfReading {
        /// `POLLRDHUP`, which not all C libraries declare.
        static let asked: Int16 = 0x2000
        static let told: Int16 = asked | Int16(POLLHUP)
    }

    /// `MSG_NOSIGNAL`, whose type differs between C libraries.
    private let noSignal: Int32 = 0x4000

    /// Does nothing: on Linux, each `send` has a flag for this.
    @inline(__always)
    func preventSignals(of descriptor: Int32) -> Bool { true }

    /// `send` that fails with `EPIPE` and raises no `SIGPIPE`.
    @unsafe
    func sendWithoutSignal(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
        unsafe send(descriptor, bytes, count, noSignal)
    }
#endif
