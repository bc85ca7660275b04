// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// Typed messages to the providers of a manager's tunnels.
extension TunnelManager {
    /// Returns a client for the provider of a profile's tunnel. The caller can reuse it for several messages.
    ///
    /// A message fails with ``MessageError/closed`` while the tunnel is not up, and with `.channelFailed` if the
    /// profile does not exist.
    /// - Parameters:
    ///   - id: The profile's ID.
    ///   - timeout: The time limit of a message.
    ///   - clock: The clock of the limit.
    public nonisolated func client(
        for id: String, timeout: Duration = MessageClient.defaultTimeout,
        clock: any Clock<Duration> = ContinuousClock()
    ) -> MessageClient {
        MessageClient(
            channel: ProfileChannel(manager: self, id: id), timeout: timeout, clock: clock, logger: logger)
    }

    /// Sends a message to the provider of a profile's tunnel and waits for its reply.
    /// - Parameters:
    ///   - message: The message.
    ///   - id: The profile's ID.
    ///   - timeout: The time limit.
    /// - Throws: The error of a missing reply: ``MessageError/closed`` if the tunnel is not up.
    public nonisolated func send<Message: TunnelMessage>(
        _ message: Message, to id: String, timeout: Duration = MessageClient.defaultTimeout
    ) async throws(MessageError) -> Message.Reply {
        try await client(for: id, timeout: timeout).send(message)
    }
}

/// A channel to the provider of a profile's tunnel.
private struct ProfileChannel: MessageChannel {
    let manager: TunnelManager
    let id: String

    func exchange(_ request: [UInt8]) async throws -> [UInt8]? { try await manager.exchange(request, with: id) }
}
