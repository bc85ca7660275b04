// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging

/// The messages that a host answers itself, with any provider, running or not: those about its log.
final class HostMessages: Sendable {
    private let router: MessageRouter

    /// - Parameter log: The log for requests; with `nil`, they fail with the error that the host has no log.
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

    /// The answer to a message that is the host's own; `nil` for the provider's.
    func answer(_ message: [UInt8]) async -> [UInt8]? {
        guard let name = MessageContainer.name(in: message), router.hasHandler(for: name) else { return nil }
        return await router.respond(to: message)
    }
}
