// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// The state that a program's process needs before the program opens a file or starts a thread.
package enum ProgramStart {
    /// Signals of a write that fails: its reader has ended, as in `culvert demo | head`, or the file would be larger than the process's
    /// limit. The write has an error then, and the program handles it.
    private static let writeSignals = [SIGPIPE, SIGXFSZ]

    /// Ignores the signals of a failed write, and opens /dev/null for each standard stream that is closed. Otherwise another file would
    /// get the stream's number, and output.
    package static func prepare() {
        for number in writeSignals { _ = signal(number, SIG_IGN) }
        for stream in 0...2 as ClosedRange<Int32> where fcntl(stream, F_GETFD) < 0 {
            // The kernel gives the lowest free number, which is this one.
            guard SystemCall.open("/dev/null", O_RDWR) == stream else { return }
            // Programs that this one starts inherit it.
            _ = fcntl(stream, F_SETFD, 0)
        }
    }

    /// Restores the signals before another program replaces this one in its process. That program would ignore them, too.
    package static func restoreSignals() {
        for number in writeSignals { _ = signal(number, SIG_DFL) }
    }
}
