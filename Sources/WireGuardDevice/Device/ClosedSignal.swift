// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO

/// Notifies waiters once that a device has closed, with the reason.
final class ClosedSignal: Sendable {
    private struct State {
        var reason: WireGuardDevice.CloseReason?
        var handlers: [@Sendable (WireGuardDevice.CloseReason) -> Void] = []
    }

    private let state = Monitor(State())

    func signal(_ reason: WireGuardDevice.CloseReason) {
        var handlers: [@Sendable (WireGuardDevice.CloseReason) -> Void] = []
        state.update { state in
            guard state.reason == nil else { return false }
            state.reason = reason
            swap(&handlers, &state.handlers)
            return true
        }
        // Call the handlers without the lock, because a handler may read the reason or wait.
        for handler in handlers { handler(reason) }
    }

    func wait() -> WireGuardDevice.CloseReason {
        state.wait { $0.reason }
    }

    func whenClosed(_ handler: @escaping @Sendable (WireGuardDevice.CloseReason) -> Void) {
        let known = state.withValue { state in
            if state.reason == nil { state.handlers.append(handler) }
            return state.reason
        }
        if let known { handler(known) }
    }
}
