// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import Synchronization

/// Sends the warnings that are logged while a tunnel starts to the command that started it, each once.
final class StartWarnings: LogSink {
    private struct State {
        var told: Set<String>
        var isOver = false
    }

    private let state: Mutex<State>
    private let tell: @Sendable (String) -> Void

    /// - Parameter known: the warnings that the user has already seen.
    init(known: [String], tell: @escaping @Sendable (String) -> Void) {
        state = Mutex(State(told: Set(known)))
        self.tell = tell
    }

    /// Stops sending warnings.
    func end() { state.withLock { $0.isOver = true } }

    /// Reports a warning. Errors are left out: those of a start end it, and are reported as its end.
    func write(_ record: LogRecord) {
        guard record.level == .warning else { return }
        let text = LogText.visible(record.message)
        // Sent under the lock: after the end the pipe has no reader.
        state.withLock { state in
            guard !state.isOver, state.told.insert(text).inserted else { return }
            tell(text)
        }
    }
}
