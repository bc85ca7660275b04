// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// The signals that end the daemon or request its counters. One thread waits for them.
struct Signals {
    private var set: sigset_t

    /// Blocks SIGINT, SIGTERM and SIGUSR1 in this thread and in the threads that it starts later, and ignores SIGPIPE.
    static func block() -> Signals {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        unsafe sigaddset(&set, SIGINT)
        unsafe sigaddset(&set, SIGTERM)
        unsafe sigaddset(&set, SIGUSR1)
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
        _ = signal(SIGPIPE, SIG_IGN)
        return Signals(set: set)
    }

    /// Waits for a signal that ends the daemon. Until then, calls `report` for each SIGUSR1.
    func wait(report: () -> Void) {
        var set = self.set
        var number: Int32 = 0
        while true {
            guard unsafe sigwait(&set, &number) == 0 else { continue }
            guard number == SIGUSR1 else { return }
            report()
        }
    }

    /// Makes ``wait(report:)`` return.
    static func raiseTermination() {
        kill(getpid(), SIGTERM)
    }
}
