// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A tunnel that can be started, stopped and observed. It runs in this process (``TunnelHost``), behind a socket
/// (``UnixTunnelChannel``) or in an extension. It is also the channel of a ``MessageClient`` to its provider.
public protocol Tunnel: MessageChannel {
    /// Starts the tunnel; returns once it is up.
    ///
    /// If the tunnel is stopping, the call first waits for that. It ends within the start's deadline in any case.
    /// - Throws: the provider's error; `.alreadyRunning`, `.stopped`, `.startTimedOut`, `.configurationInvalid`; `.notRunning`,
    ///   `.permissionDenied` or `.channelFailed` if the tunnel cannot be reached.
    func start(_ request: TunnelStartRequest) async throws(TunnelError)

    /// Stops the tunnel and ends any blocking. Returns once it is down, or immediately if it is down already.
    /// - Throws: `.permissionDenied` or `.channelFailed` if the tunnel cannot be reached.
    func stop(_ reason: StopReason) async throws(TunnelError)

    /// The last status that this process knows.
    var status: TunnelStatusUpdate { get }

    /// The status now and every later change. The stream does not end when the tunnel goes down, but when this object
    /// is released or the reading task is cancelled.
    func statusUpdates() -> AsyncStream<TunnelStatusUpdate>

    /// Sends a message to the provider; returns its answer, or `nil` if it has none.
    /// - Throws: `.notRunning` if the tunnel is not up, or ends before the answer; `.permissionDenied` or `.channelFailed` if the
    ///   tunnel cannot be reached.
    func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]?
}

extension Tunnel {
    /// Delivers a request to the provider and waits for its reply; `nil` if it has none.
    /// - Throws: as ``sendMessage(_:)``.
    public func exchange(_ request: [UInt8]) async throws -> [UInt8]? { try await sendMessage(request) }
}

/// The former name of ``Tunnel``.
@available(*, deprecated, renamed: "Tunnel")
public typealias TunnelChannel = Tunnel
