// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The signals that end the daemon, taken by one thread that waits for them.
struct Signals {
    private var set: sigset_t

    /// Blocks SIGINT and SIGTERM in this thread and those it makes, and ignores SIGPIPE.
    static func block() -> Signals {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        unsafe sigaddset(&set, SIGINT)
        unsafe sigaddset(&set, SIGTERM)
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
        _ = signal(SIGPIPE, SIG_IGN)
        return Signals(set: set)
    }

    /// Returns when one of them came.
    func wait() {
        var set = self.set
        var number: Int32 = 0
        while unsafe sigwait(&set, &number) != 0 {}
    }

    /// Wakes ``wait()``.
    static func raiseTermination() {
        kill(getpid(), SIGTERM)
    }
}
