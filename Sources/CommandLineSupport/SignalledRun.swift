// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// Runs work in tasks while this thread handles the signals that end a command.
package enum SignalledRun {
    /// Runs `work` as ``SignalledTask/run(isImpatient:beside:_:)`` does.
    package static func run(
        isImpatient: Bool = true, beside: () -> Void = {}, _ work: @escaping @Sendable () async -> Int32
    ) -> Int32 {
        SignalledTask.run(isImpatient: isImpatient, beside: beside, work)
    }
}
