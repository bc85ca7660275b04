// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import Synchronization

/// Takes the warnings that the log gets while a tunnel starts to the command that started it, each once.
final class StartWarnings: Sendable {
    private struct State {
        var told: Set<String>
        var isOver = false
    }

    private let state: Mutex<State>
    private let tell: @Sendable (String) -> Void

    /// - Parameter known: what the user was told already.
    init(known: [String], tell: @escaping @Sendable (String) -> Void) {
        state = Mutex(State(told: Set(known)))
        self.tell = tell
    }

    /// Takes no more from here on.
    func end() { state.withLock { $0.isOver = true } }

    /// What a logger writes to as well.
    var handler: any LogHandler { Handler(warnings: self) }

    private func take(_ text: String) {
        // Told under the lock: after the end there is nobody at the other side.
        state.withLock { state in
            guard !state.isOver, state.told.insert(text).inserted else { return }
            tell(text)
        }
    }

    private struct Handler: LogHandler {
        let warnings: StartWarnings
        var logLevel = Logger.Level.warning
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        /// Errors are left out: those of a start end it, and are told as its end.
        func log(event: LogEvent) {
            guard event.level == .warning else { return }
            warnings.take(LogText.visible(Redactor.redact("\(event.message)")))
        }
    }
}
