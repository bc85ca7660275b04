// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// The kind of socket pair that preserves message boundaries: `SOCK_DGRAM`.
    let packetPairKind: Int32 = 2

    /// The events to poll for, and the events that report the end of reading.
    enum EndOfReading {
        /// Darwin reports the end only if reading is polled for.
        static let asked = Int16(POLLIN)
        static let told = Int16(POLLHUP)
    }

    /// Sets Darwin's socket option that makes `send` fail with `EPIPE` without raising `SIGPIPE`.
    /// - Returns: whether the option was set; if not, `errno` has the reason.
    func preventSignals(of descriptor: Int32) -> Bool {
        var on: Int32 = 1
        return unsafe setsockopt(
            descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size)) == 0
    }

    /// `send` on a socket for which signals were prevented.
    @unsafe
    func sendWithoutSignal(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
        unsafe send(descriptor, bytes, count, 0)
    }
#endif
