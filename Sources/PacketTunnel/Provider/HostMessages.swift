// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging

/// Answers the messages that the host handles itself, whatever the provider is and whether it runs or not: those about
/// its log.
final class HostMessages: Sendable {
    private let router: MessageRouter

    /// - Parameter log: The log to read. If it is `nil`, requests fail with an error that the host has no log.
    init(log: RingLogFile?, clock: any Clock<Duration>, logger: Logger) {
        router = MessageRouter(clock: clock, logger: logger)
        if let log {
            router.on(log)
        } else {
            router.on(LogRequest.self) { _ in throw Self.noLog }
            router.on(LogSubscription.self) { _, _ in throw Self.noLog }
        }
    }

    deinit { router.close() }

    private static let noLog = HandlerFailure(
        code: "no-log", message: "the tunnel has no log file; give its host one")

    /// Returns the answer to a message for the host; `nil` if the message is for the provider.
    func answer(_ message: [UInt8]) async -> [UInt8]? {
        guard let name = MessageContainer.name(in: message), router.hasHandler(for: name) else { return nil }
        return await router.respond(to: message)
    }
}
