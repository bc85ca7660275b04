// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Synchronization

/// The statuses that the system reported for a profile's tunnel, in order and numbered.
///
/// The system repeats statuses. The number distinguishes a status from before a start from one that the start caused.
final class SessionRecord: Sendable {
    /// A reported status.
    struct Step: Sendable {
        var update: TunnelStatusUpdate
        /// The number of statuses reported so far, including this one.
        var count = 0
        /// The number of those statuses in which the tunnel could be stopped.
        var activeCount = 0
    }

    /// The statuses.
    let updates: Broadcast<TunnelStatusUpdate>
    /// The statuses with their numbers.
    let steps: Broadcast<Step>
    private let order = Mutex(())

    init(_ update: TunnelStatusUpdate) {
        updates = Broadcast(update)
        steps = Broadcast(Step(update: update))
    }

    /// Adds a status.
    func append(_ update: TunnelStatusUpdate) {
        order.withLock { _ in
            var step = steps.current
            step.update = update
            step.count += 1
            if update.status.isActive { step.activeCount += 1 }
            updates.send(update)
            steps.send(step)
        }
    }

    /// Ends all sequences with ``TunnelStatus/invalid``: the tunnel's profile was removed.
    func finish() {
        order.withLock { _ in
            var step = steps.current
            step.update = TunnelStatusUpdate(.invalid)
            step.count += 1
            updates.finish(with: step.update)
            steps.finish(with: step)
        }
    }
}
