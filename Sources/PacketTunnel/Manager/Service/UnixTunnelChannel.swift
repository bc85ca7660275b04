// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelSystem

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A channel to a tunnel that a ``TunnelService`` runs in another process.
///
/// The service may start and end at any time. While no process serves the socket, the tunnel is
/// ``TunnelStatus/disconnected`` and the channel tries to connect at intervals.
public final class UnixTunnelChannel: Tunnel {
    /// The service's socket.
    public let path: String
    private let transport: UnixMessageChannel
    private let client: MessageClient
    private let follower: StatusFollower

    /// Creates a channel, which connects when it is used.
    /// - Parameters:
    ///   - path: The service's socket.
    ///   - trustedUsers: The users who may serve it, besides root and the user of this process.
    ///   - retryInterval: The interval between attempts to find a service.
    ///   - clock: The clock of this interval, and of timeouts.
    public init(
        path: String, trustedUsers: Set<UInt32> = [], retryInterval: Duration = .seconds(1),
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        self.path = path
        let limit = MessageContainer.localMaximumByteCount
        transport = UnixMessageChannel(path: path, maximumByteCount: limit, trustedUsers: trustedUsers)
        client = MessageClient(channel: transport, maximumByteCount: limit, clock: clock)
        follower = StatusFollower(client, retryInterval: retryInterval, clock: clock)
    }

    deinit { follower.end() }

    /// A client for the service's own messages and subscriptions, and for the messages of its provider. For the
    /// provider's subscriptions use `MessageClient(channel: channel)` with this channel.
    public var messages: MessageClient { client }

    /// Starts the tunnel; returns when it is up.
    ///
    /// Cancelling the task stops the tunnel.
    /// - Throws: The errors of the host's start; `.notRunning` without a service, `.permissionDenied`, `.channelFailed`.
    public func start(_ request: TunnelStartRequest) async throws(TunnelError) {
        let reply: TunnelStartMessage.Reply
        do throws(MessageError) {
            // The host has its own deadline.
            reply = try await client.send(TunnelStartMessage(request: request), timeout: .seconds(600))
        } catch {
            throw TunnelError(error, service: path)
        }
        if let error = reply.error { throw error }
        _ = await refresh()
    }

    /// Stops the tunnel. Returns once it is down, or immediately if no process serves the socket.
    public func stop(_ reason: StopReason) async throws(TunnelError) {
        do throws(MessageError) {
            _ = try await client.send(TunnelStopMessage(reason: reason), timeout: .seconds(600))
        } catch {
            // If no process serves the socket, there is no tunnel.
            guard error == .closed else { throw TunnelError(error, service: path) }
        }
        _ = await refresh()
    }

    /// Waits until the present service has closed its socket; returns immediately if there is none.
    public func serviceEnd() async {
        do throws(MessageError) {
            var statuses = try await client.subscribe(to: TunnelStatusSubscription()).makeAsyncIterator()
            while try await statuses.next() != nil {}
        } catch {
            // The service has ended.
        }
    }

    /// Delivers a request to the provider and returns its reply, or `nil` if the provider has none.
    ///
    /// The service passes a message on unchanged. A service of an earlier version refuses this; the message is then
    /// sent as ``sendMessage(_:)`` does. The service itself answers its own messages, which do not reach the provider;
    /// a subscription always does.
    /// - Throws: A ``MessageError`` or a ``TunnelError``.
    public func exchange(_ request: [UInt8]) async throws -> [UInt8]? {
        // Wrap the messages of a subscription, because the service may have a subscription of the same name.
        if let container = try? MessageContainer(decoding: request, limit: .max), container.kind == .request {
            let answer = try await transport.exchange(request)
            if !(answer.map(Self.isRefusal) ?? false) { return answer }
        }
        return try await sendMessage(request)
    }

    /// Whether the answer says that no handler was called, because neither the service nor the provider knows the
    /// message or its version.
    private static func isRefusal(_ answer: [UInt8]) -> Bool {
        guard let container = try? MessageContainer(decoding: answer, limit: .max), container.kind == .error else {
            return false
        }
        switch try? MessageCoding.decode(MessageError.self, from: container.payload) {
        case .noHandler, .unsupportedVersion, .undecodableMessage: return true
        default: return false
        }
    }

    /// Sends any bytes to the provider; returns its answer, `nil` if it has none.
    public func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
        let reply: TunnelProviderMessage.Reply
        do throws(MessageError) {
            reply = try await client.send(TunnelProviderMessage(message: Data(message)), timeout: .seconds(60))
        } catch {
            throw TunnelError(error, service: path)
        }
        if let error = reply.error { throw error }
        return reply.answer.map { Array($0) }
    }

    /// The last known status; ``refresh()`` requests it.
    public var status: TunnelStatusUpdate { follower.updates.current }

    /// The status now and every later change. The stream ends when this object is released.
    public func statusUpdates() -> AsyncStream<TunnelStatusUpdate> {
        follower.begin()
        return follower.updates.follow()
    }

    /// Asks the service for the status, and returns it.
    public func refresh() async -> TunnelStatusUpdate {
        await follower.refresh()
    }
}

/// Follows the status of a service in any process.
private final class StatusFollower: Sendable {
    let updates = Broadcast(TunnelStatusUpdate(.disconnected))
    private let client: MessageClient
    private let retryInterval: Duration
    private let clock: any Clock<Duration>
    private let state = Mutex<(task: Task<Void, Never>?, hasEnded: Bool)>((nil, false))

    init(_ client: MessageClient, retryInterval: Duration, clock: any Clock<Duration>) {
        self.client = client
        self.retryInterval = retryInterval
        self.clock = clock
    }

    /// Begins to follow the service, unless it is followed already.
    func begin() {
        state.withLock { state in
            if state.task == nil, !state.hasEnded { state.task = makeTask() }
        }
    }

    /// Restarts the subscription, and waits until the first status arrives or the subscription fails.
    func refresh() async -> TunnelStatusUpdate {
        let answered = OneShot<Void>()
        let isFollowing = state.withLock { state in
            guard !state.hasEnded else { return false }
            state.task?.cancel()
            state.task = makeTask(after: state.task, answered)
            return true
        }
        if isFollowing { await answered.value }
        return updates.current
    }

    func end() {
        let task = state.withLock { state in
            state.hasEnded = true
            return state.task
        }
        task?.cancel()
        updates.finish()
    }

    private func makeTask(
        after previous: Task<Void, Never>? = nil, _ answered: OneShot<Void> = OneShot()
    ) -> Task<Void, Never> {
        Task {
            // Two subscriptions would report their statuses in any order.
            await previous?.value
            while !Task.isCancelled {
                await followOnce(answered)
                do { try await clock.sleep(for: retryInterval) } catch { break }
            }
            answered.finish(())
        }
    }

    /// Follows one service until its end.
    private func followOnce(_ answered: OneShot<Void>) async {
        var last: TunnelStatusUpdate?
        do throws(MessageError) {
            let statuses = try await client.subscribe(to: TunnelStatusSubscription())
            var iterator = statuses.makeAsyncIterator()
            while let update = try await iterator.next() {
                guard !Task.isCancelled else { return }
                publish(update)
                answered.finish(())
                last = update
            }
        } catch {
            // Any error means that no service can be reached.
        }
        guard !Task.isCancelled else { return }
        if let last, last.status.isActive {
            publish(
                TunnelStatusUpdate(
                    .disconnected,
                    error: TunnelError(
                        .hostFailed, "the tunnel's service ended without a word",
                        fix: "clean up its changes, or start it again")))
        } else if last == nil {
            publish(TunnelStatusUpdate(.disconnected))
        }
        answered.finish(())
    }

    private func publish(_ update: TunnelStatusUpdate) {
        if update != updates.current { updates.send(update) }
    }
}
