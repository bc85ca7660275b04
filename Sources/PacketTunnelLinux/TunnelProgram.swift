// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelSystem

/// Runs a program whose purpose is one tunnel, or a few.
public enum TunnelProgram {
    /// Runs `body` in a task that SIGINT, SIGTERM and SIGHUP cancel. When `body` has returned, the process ends with
    /// status 0, or with status 1 and the error on standard error. If one of these signals arrives again, more than a
    /// second later, the process ends immediately.
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
