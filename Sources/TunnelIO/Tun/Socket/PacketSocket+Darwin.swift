// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Darwin)
    import Darwin

    /// `send` that fails with `EPIPE` and raises no `SIGPIPE`, which Darwin has as an option of the socket.
    @unsafe
    func sendWithoutSignal(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
        var on: Int32 = 1
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
        return unsafe send(descriptor, bytes, count, 0)
    }
#endif
