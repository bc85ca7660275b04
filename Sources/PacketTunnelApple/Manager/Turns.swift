// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelSystem

/// Gives tasks exclusive turns across suspensions, in the order of their requests.
final class Turns: Sendable {
    private struct State {
        var isBusy = false
        var waiting: [OneShot<Void>] = []
    }

    private let state = Mutex(State())

    /// Waits for a turn; ``end()`` must follow.
    func begin() async {
        let turn = state.withLock { state -> OneShot<Void>? in
            guard state.isBusy else {
                state.isBusy = true
                return nil
            }
            let turn = OneShot<Void>()
            state.waiting.append(turn)
            return turn
        }
        await turn?.value
    }

    /// Takes a turn if there is one now; then ``end()`` must follow.
    func beginNow() -> Bool {
        state.withLock { state in
            guard !state.isBusy else { return false }
            state.isBusy = true
            return true
        }
    }

    /// Ends a turn.
    func end() {
        let next = state.withLock { state -> OneShot<Void>? in
            guard !state.waiting.isEmpty else {
                state.isBusy = false
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.finish(())
    }
}
