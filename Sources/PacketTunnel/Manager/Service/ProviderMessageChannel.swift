// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A channel for a ``MessageClient`` to a tunnel's provider, wherever that runs.
public struct ProviderMessageChannel: MessageChannel {
    private let send: @Sendable ([UInt8]) async throws(TunnelError) -> [UInt8]?

    /// A channel to the provider of a tunnel elsewhere.
    public init(_ channel: any TunnelChannel) {
        send = { message throws(TunnelError) in try await channel.sendMessage(message) }
    }

    /// A channel to the provider of a host in this process.
    public init(_ host: any TunnelHost) {
        send = { message throws(TunnelError) in try await host.sendMessage(message) }
    }

    /// A channel to the provider of a profile's tunnel, which ``TunnelManager/client(for:timeout:clock:)`` has a client for.
    public init(_ manager: TunnelManager, profile id: String) {
        send = { message throws(TunnelError) in try await manager.sendMessage(message, to: id) }
    }

    /// Delivers a request to the provider and waits for its reply.
    /// - Throws: a ``MessageError``: ``MessageError/closed`` when the tunnel is not up.
    public func exchange(_ request: [UInt8]) async throws -> [UInt8]? {
        do throws(TunnelError) {
            return try await send(request)
        } catch {
            throw MessageError(error)
        }
    }
}
