// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Synchronization

/// One start of a tunnel through the system. A stop, a deadline or the caller can give it up at any time.
///
/// The call that starts and the call that stops are made under one lock: either nothing is started after it was given up, or
/// the system is asked to stop after it was asked to start.
final class StartAttempt: Sendable {
    private let state = Mutex((isGivenUp: false, hasLaunched: false))
    private let isOver = Broadcast(false)

    /// The error of an attempt that was given up.
    static let stopped = TunnelError(.stopped, "the tunnel was stopped while it was starting")

    /// Whether the attempt must leave the tunnel down.
    var isGivenUp: Bool { state.withLock { $0.isGivenUp } }

    /// Throws if the attempt was given up.
    /// - Throws: `.stopped`.
    func check() throws(TunnelError) {
        if isGivenUp { throw Self.stopped }
    }

    /// Asks the system to start, unless the attempt was given up.
    /// - Returns: whether the system was asked.
    func launch<Failure: Error>(_ start: () throws(Failure) -> Void) throws(Failure) -> Bool {
        try state.withLock { (state) throws(Failure) -> Bool in
            guard !state.isGivenUp else { return false }
            try start()
            state.hasLaunched = true
            return true
        }
    }

    /// Gives the attempt up: nothing is started from here on.
    /// - Parameter stop: asks the system to stop; called if the system was asked to start.
    /// - Returns: whether the system was asked to start.
    @discardableResult
    func giveUp(_ stop: () -> Void) -> Bool {
        state.withLock { state in
            state.isGivenUp = true
            if state.hasLaunched { stop() }
            return state.hasLaunched
        }
    }

    /// The attempt has ended: it starts nothing, and waits for nothing.
    func finish() { isOver.finish(with: true) }

    /// Waits until the attempt has ended, or the task is cancelled.
    func waitUntilFinished() async {
        for await isOver in isOver.follow() where isOver { return }
    }
}
