// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
public import NetworkExtension
public import PacketTunnel
import TunnelSystem

/// A channel for a `MessageClient` to the provider behind a session of the system, for apps that keep their configurations without a
/// `TunnelManager`: packet tunnels and app proxies, of this package or not.
///
/// On the other side is a ``NetworkExtensionHost``, or a provider of another ancestry that hands its messages to a `MessageRouter`,
/// by its `handleAppMessage(_:completionHandler:)`.
public struct ProviderSessionChannel: MessageChannel {
    private let held: Held

    /// "Instances of this class are thread safe", says the system's documentation of the manager, whose connection this is.
    private final class Held: @unchecked Sendable {
        let session: NETunnelProviderSession
        init(_ session: NETunnelProviderSession) { self.session = session }
    }

    /// A channel to the provider of `session`: what `connection` of a `NETunnelProviderManager` or `NEAppProxyProviderManager`
    /// is.
    public init(_ session: NETunnelProviderSession) {
        held = Held(session)
    }

    /// Delivers a request to the provider and waits for its reply; `nil` if it has none.
    /// - Throws: `MessageError.closed` when the tunnel is not up, `.channelFailed`.
    public func exchange(_ request: [UInt8]) async throws -> [UInt8]? {
        // The system delivers nothing to a provider that does not run, and need not report it.
        guard TunnelStatus(held.session.status).isRunning else { throw MessageError.closed }
        do throws(TunnelError) {
            return try await held.session.exchange(Data(request)).map { Array($0) }
        } catch {
            throw MessageError(error)
        }
    }
}

extension NETunnelProviderSession {
    /// Sends a message to the provider; returns its answer.
    /// - Throws: `.channelFailed`; `.closed` if the task is cancelled or the tunnel ends first.
    func exchange(_ message: Data) async throws(TunnelError) -> Data? {
        let done = OneShot<Result<Data?, TunnelError>>()
        let check: @Sendable (NEVPNStatus) -> Void = { status in
            // The system does not answer for a provider that has ended.
            guard status == .disconnected || status == .invalid else { return }
            done.finish(.failure(TunnelError(.closed, "the tunnel ended before its provider answered")))
        }
        let observer = ConnectionObserver(self, check)
        defer { withExtendedLifetime(observer) {} }
        do {
            try sendProviderMessage(message) { done.finish(.success($0)) }
        } catch {
            throw TunnelError(error, fallback: .channelFailed)
        }
        // The tunnel may have ended before the observer was registered.
        check(status)
        return try await withTaskCancellationHandler {
            await done.value
        } onCancel: {
            done.finish(.failure(TunnelError(.closed, "the task was cancelled")))
        }.get()
    }
}

/// Receives the system's notifications about one connection, until it is released.
final class ConnectionObserver: @unchecked Sendable {
    /// "Instances of this class are thread safe", says the system's documentation of the manager, whose connection this is.
    private final class Observed: @unchecked Sendable {
        weak var connection: NEVPNConnection?
        init(_ connection: NEVPNConnection) { self.connection = connection }
    }

    private let token: any NSObjectProtocol

    /// - Parameter handler: called with the status that the connection has when the system posts a notification.
    init(_ connection: NEVPNConnection, _ handler: @escaping @Sendable (NEVPNStatus) -> Void) {
        let observed = Observed(connection)
        token = NotificationCenter.default.addObserver(
            forName: .NEVPNStatusDidChange, object: connection, queue: nil
        ) { _ in
            if let connection = observed.connection { handler(connection.status) }
        }
    }

    deinit { NotificationCenter.default.removeObserver(token) }
}
