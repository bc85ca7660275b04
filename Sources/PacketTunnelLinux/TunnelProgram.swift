// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// A program that is one tunnel, or a few.
public enum TunnelProgram {
    /// Runs `body` in a task, which SIGINT, SIGTERM and SIGHUP cancel, and ends the process when it has returned: with status
    /// 0, or with 1 and the error on standard error. Another of these signals, more than a second later, ends the process
    /// immediately.
    ///
    /// Call it first in `main`: a thread created before would receive the signals. It does not return.
    /// - Parameter body: For example `run(_:leakPolicy:profileID:)` of a ``LinuxHost``.
    public static func run(_ body: @escaping @Sendable () async throws -> Void) -> Never {
        exit(
            SignalledTask.run {
                do {
                    try await body()
                    return 0
                } catch {
                    let line = Array("error: \(error)\n".utf8)
                    unsafe _ = write(2, line, line.count)
                    return 1
                }
            })
    }
}
