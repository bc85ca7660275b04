// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A host that consists of a ``TunnelRunner`` and a platform. The runner implements all functions of ``TunnelHost``.
public protocol RunnerHost: TunnelHost {
    /// The provider in the host.
    associatedtype Provider: PacketTunnelProvider

    /// The runner of the provider.
    var runner: TunnelRunner<Provider> { get }
}

extension RunnerHost {
    /// The store of the profiles' secrets.
    public var secrets: (any SecretStore)? { runner.secrets }

    /// Starts the tunnel; returns once it is up. Cancelling the task stops the tunnel.
    public func start(_ request: TunnelStartRequest) async throws(TunnelError) { try await runner.start(request) }

    /// Starts the tunnel with a configuration from this process; returns once it is up.
    public func start(
        _ configuration: Provider.Configuration, leakPolicy: LeakPolicy = .routeBased, profileID: String? = nil
    ) async throws(TunnelError) {
        try await runner.start(configuration, leakPolicy: leakPolicy, profileID: profileID)
    }

    /// Runs the tunnel from start to end. Starts it with a configuration from this process, and returns when it has
    /// ended and everything is undone. Cancelling the task stops the tunnel without an error.
    ///
    /// If the tunnel fails under a leak policy that blocks, it stays blocked until the task is cancelled.
    /// - Throws: The error of the start, or the error that ended the tunnel. A stop by the user is not an error.
    public func run(
        _ configuration: Provider.Configuration, leakPolicy: LeakPolicy = .routeBased, profileID: String? = nil
    ) async throws(TunnelError) {
        var failure: TunnelError?
        do throws(TunnelError) {
            try await start(configuration, leakPolicy: leakPolicy, profileID: profileID)
            for await update in statusUpdates() where update.status == .disconnected {
                failure = update.error
                break
            }
        } catch {
            if !Task.isCancelled || error.code != .stopped { failure = error }
        }
        // A failed start reports its error before everything is undone. `stop` returns when everything is undone. The
        // new task is never cancelled.
        await Task { await self.stop(.userInitiated) }.value
        if let failure { throw failure }
    }

    /// Stops the tunnel; returns once everything is undone.
    public func stop(_ reason: StopReason) async { await runner.stop(reason) }

    /// The status now.
    public var status: TunnelStatusUpdate { runner.status }

    /// The status now and every later change.
    public func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { runner.statusUpdates() }

    /// Sends a message to the provider; returns its answer, `nil` if it has none.
    public func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
        try await runner.sendMessage(message)
    }

    /// Notifies the provider that the device is about to sleep. Returns when the provider is ready, or at the deadline.
    public func sleep() async { await runner.sleep() }

    /// Notifies the provider that the device woke up.
    public func wake() { runner.wake() }

    /// Notifies the provider of a network path other than the one that the host sees.
    public func pathChanged(_ path: NetworkPath) { runner.pathChanged(path) }
}
