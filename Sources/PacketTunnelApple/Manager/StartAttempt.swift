// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Synchronization

/// One start of a tunnel through the system. A stop, a deadline or the caller can cancel it at any time.
///
/// The call that starts the tunnel and the call that stops it are made under one lock. So nothing is started after a
/// cancellation, and the stop always follows the start.
final class StartAttempt: Sendable {
    private let state = Mutex((isCancelled: false, hasLaunched: false))
    private let isOver = Broadcast(false)

    /// The error of a cancelled attempt.
    static let stopped = TunnelError(.stopped, "the tunnel was stopped while it was starting")

    /// Whether the attempt must leave the tunnel down.
    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// Throws if the attempt was cancelled.
    /// - Throws: `.stopped`.
    func check() throws(TunnelError) {
        if isCancelled { throw Self.stopped }
    }

    /// Calls `start`, unless the attempt was cancelled.
    /// - Returns: whether `start` was called.
    func launch<Failure: Error>(_ start: () throws(Failure) -> Void) throws(Failure) -> Bool {
        try state.withLock { (state) throws(Failure) -> Bool in
            guard !state.isCancelled else { return false }
            try start()
            state.hasLaunched = true
            return true
        }
    }

    /// Cancels the attempt. Nothing is started after this.
    /// - Parameter stop: Called if the start was requested from the system.
    /// - Returns: Whether it was.
    @discardableResult
    func cancel(_ stop: () -> Void) -> Bool {
        state.withLock { state in
            state.isCancelled = true
            if state.hasLaunched { stop() }
            return state.hasLaunched
        }
    }

    /// Records that the attempt has ended: it starts nothing and waits for nothing.
    func finish() { isOver.finish(with: true) }

    /// Waits until the attempt has ended, or the task is cancelled.
    func waitUntilFinished() async {
        for await isOver in isOver.follow() where isOver { return }
    }
}
