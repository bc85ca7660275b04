// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The app's way to a tunnel that runs elsewhere: in this process, behind a socket, or in an extension. It is the channel of a
/// ``MessageClient`` to the tunnel's provider.
public protocol TunnelChannel: MessageChannel {
    /// Starts the tunnel; returns once it is up.
    func start(_ request: TunnelStartRequest) async throws(TunnelError)

    /// Stops the tunnel; returns once it is down.
    func stop(_ reason: StopReason) async throws(TunnelError)

    /// Sends a message to the provider; returns its answer, nil when it has none.
    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]?

    /// The status as far as it is known here.
    var status: TunnelStatusUpdate { get }

    /// The status and every change from now on. It ends when the channel does.
    func statusUpdates() -> AsyncStream<TunnelStatusUpdate>
}

extension TunnelChannel {
    /// Delivers a request to the provider and waits for its reply; `nil` if it has none.
    /// - Throws: as ``sendMessage(_:)``.
    public func exchange(_ request: [UInt8]) async throws -> [UInt8]? { try await sendMessage(request) }
}

/// A channel to a host in this process.
public final class MemoryTunnelChannel: TunnelChannel {
    private let host: any TunnelHost

    /// A channel to `host`.
    public init(_ host: any TunnelHost) {
        self.host = host
    }

    /// Starts the tunnel; returns once it is up.
    public func start(_ request: TunnelStartRequest) async throws(TunnelError) { try await host.start(request) }

    /// Stops the tunnel; returns once it is down.
    public func stop(_ reason: StopReason) async throws(TunnelError) { await host.stop(reason) }

    /// Sends a message to the provider; returns its answer, nil when it has none.
    public func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
        try await host.sendMessage(message)
    }

    /// The status now.
    public var status: TunnelStatusUpdate { host.status }

    /// The status and every change from now on.
    public func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { host.statusUpdates() }
}
