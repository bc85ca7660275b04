// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #endif

    /// `MSG_NOSIGNAL`, whose type the C libraries do not agree about.
    private let noSignal: Int32 = 0x4000

    /// `send` that fails with `EPIPE` and raises no `SIGPIPE`.
    @unsafe
    func sendWithoutSignal(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
        unsafe send(descriptor, bytes, count, noSignal)
    }
#endif
