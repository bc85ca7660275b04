// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// The state that a program's process needs before the program opens a file or starts a thread.
package enum ProgramStart {
    /// The signals of a failed write: the reader has ended, as in `culvert demo | head`, or the file would exceed the
    /// process's limit. If these signals are ignored, the write returns an error, which the program handles.
    private static let writeSignals = [SIGPIPE, SIGXFSZ]

    /// Ignores the signals of a failed write, and opens /dev/null for each closed standard stream. Otherwise another
    /// file would get the stream's number and its output.
    package static func prepare() {
        for number in writeSignals { _ = signal(number, SIG_IGN) }
        for stream in 0...2 as ClosedRange<Int32> where fcntl(stream, F_GETFD) < 0 {
            // The kernel assigns the lowest free number, which is this one.
            guard SystemCall.open("/dev/null", O_RDWR) == stream else { return }
            // Child processes inherit the stream.
            _ = fcntl(stream, F_SETFD, 0)
        }
    }

    /// Restores the signals before another program replaces this one in its process. That program would otherwise
    /// ignore them too.
    package static func restoreSignals() {
        for number in writeSignals { _ = signal(number, SIG_DFL) }
    }
}
