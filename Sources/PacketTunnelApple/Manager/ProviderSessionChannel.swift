// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
public import NetworkExtension
public import PacketTunnel
import TunnelSystem

/// A channel for a `MessageClient` to the provider of a system session, for apps that manage their configurations
/// without a `TunnelManager`. It works with packet tunnels and app proxies of any package.
///
/// The other side is a ``NetworkExtensionHost``, or another provider that passes its messages to a `MessageRouter` with
/// `handleAppMessage(_:completionHandler:)`.
public struct ProviderSessionChannel: MessageChannel {
    private let held: Held

    /// The system's documentation of the manager states: "Instances of this class are thread safe". The session is the
    /// manager's connection.
    private final class Held: @unchecked Sendable {
        let session: NETunnelProviderSession
        init(_ session: NETunnelProviderSession) { self.session = session }
    }

    /// Creates a channel to the provider of `session`, which is the `connection` of a `NETunnelProviderManager` or
    /// `NEAppProxyProviderManager`.
    public init(_ session: NETunnelProviderSession) {
        held = Held(session)
    }

    /// Starts the provider, if it runs in a ``NetworkExtensionHost`` or ``AppProxyHost``. Returns when the system has
    /// accepted the request; the session's status changes later.
    /// - Parameters:
    ///   - request: The parameters of the start.
    ///   - secrets: The secrets of the start, which are kept in memory only.
    /// - Throws: `.channelFailed`, or the system's reason.
    public func start(
        _ request: TunnelStartRequest, secrets: [String: SecretBytes] = [:]
    ) throws(TunnelError) {
        do {
            try held.session.startTunnel(options: NetworkExtensionStart.options(request, secrets: secrets))
        } catch {
            throw TunnelError(error, fallback: .channelFailed)
        }
    }

    /// Delivers a request to the provider and waits for its reply; `nil` if it has none.
    /// - Throws: `MessageError.closed` when the tunnel is not up, `.channelFailed`.
    public func exchange(_ request: [UInt8]) async throws -> [UInt8]? {
        // The system delivers nothing to a provider that does not run, and may not report this.
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
            // The system does not answer for a provider that has ended, so finish here.
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
    /// The system's documentation of the manager states: "Instances of this class are thread safe". The connection is
    /// the manager's.
    private final class Observed: @unchecked Sendable {
        weak var connection: NEVPNConnection?
        init(_ connection: NEVPNConnection) { self.connection = connection }
    }

    private let token: any NSObjectProtocol

    /// - Parameter handler: Called with the present status of the connection for each notification of the system.
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
