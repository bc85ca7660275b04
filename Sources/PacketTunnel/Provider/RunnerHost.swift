// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A host that is a ``TunnelRunner`` on a platform of its own: all that a ``TunnelHost`` does is the runner's.
public protocol RunnerHost: TunnelHost {
    /// What runs in the host.
    associatedtype Provider: PacketTunnelProvider

    /// What runs the provider.
    var runner: TunnelRunner<Provider> { get }
}

extension RunnerHost {
    /// Starts the tunnel; returns once it is up. Cancelling the task stops the tunnel.
    public func start(_ request: TunnelStartRequest) async throws(TunnelError) { try await runner.start(request) }

    /// Starts the tunnel with a configuration of this process; returns once it is up.
    public func start(
        _ configuration: Provider.Configuration, leakPolicy: LeakPolicy = .routeBased, profileID: String? = nil
    ) async throws(TunnelError) {
        try await runner.start(configuration, leakPolicy: leakPolicy, profileID: profileID)
    }

    /// Stops the tunnel; returns once everything is undone.
    public func stop(_ reason: StopReason) async { await runner.stop(reason) }

    /// The status now.
    public var status: TunnelStatusUpdate { runner.status }

    /// The status now and every change from now on.
    public func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { runner.statusUpdates() }

    /// Sends a message to the provider; returns its answer, nil when it has none.
    public func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
        try await runner.sendMessage(message)
    }

    /// Tells the provider that the device is about to sleep; returns when it is ready, or the deadline has passed.
    public func sleep() async { await runner.sleep() }

    /// Tells the provider that the device woke up.
    public func wake() { runner.wake() }

    /// Tells the provider of another way to the network than the host sees.
    public func pathChanged(_ path: NetworkPath) { runner.pathChanged(path) }
}
