// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization

/// Runs work in a task while the calling thread waits for the signals that end a program.
package enum SignalledTask {
    /// Runs `work` and returns its exit status. SIGINT, SIGTERM and SIGHUP cancel its task, which chooses the status. A
    /// further signal ends the process immediately if `isImpatient` returns true, but not within a second: a signal may
    /// arrive twice, for the process and for its group.
    /// - Parameter beside: called after signals are blocked in this thread, to start threads that inherit the mask.
    package static func run(
        isImpatient: Bool = true, beside: () -> Void = {}, _ work: @escaping @Sendable () async -> Int32
    ) -> Int32 {
        // Threads inherit the mask, so that only this one ever sees these signals.
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for number in [SIGINT, SIGTERM, SIGHUP, SIGUSR1] { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
        let status = Mutex<Int32?>(nil)
        let task = Task {
            let result = await work()
            status.withLock { $0 = result }
            // Ends the wait below.
            kill(getpid(), SIGUSR1)
        }
        beside()
        var ending: ContinuousClock.Instant?
        while true {
            var number: Int32 = 0
            guard unsafe sigwait(&set, &number) == 0 else { continue }
            if let status = status.withLock({ $0 }) { return status }
            guard number != SIGUSR1 else { continue }
            if let ending {
                if isImpatient, ContinuousClock.now - ending > .seconds(1) { _exit(128 + number) }
            } else {
                ending = .now
                task.cancel()
            }
        }
    }
}
