// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging

/// Runs a provider in this process, with a real packet flow and nothing changed on the machine: for tests, simulators,
/// and apps on a simulated phone.
///
/// The system's side of the tunnel is ``platform``: packets are injected and taken there, or it is connected to another
/// host or to a ``VirtualNetwork``.
public final class MemoryHost<Provider: PacketTunnelProvider>: TunnelHost {
    /// The system's side.
    public let platform: MemoryPlatform
    /// What runs the provider.
    public let runner: TunnelRunner<Provider>

    /// A host whose tunnel is down. The parameters are those of ``TunnelRunner``; without a logger nothing is logged.
    public init(
        path: NetworkPath = NetworkPath(), secrets: (any SecretStore)? = nil,
        deadlines: TunnelDeadlines = TunnelDeadlines(), clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "tunnel") { _ in SwiftLogNoOpLogHandler() },
        makeProvider: @escaping @Sendable () -> Provider = { Provider() }
    ) {
        let platform = MemoryPlatform(clock: clock)
        self.platform = platform
        runner = TunnelRunner(
            platform: platform, path: path, secrets: secrets, deadlines: deadlines, clock: clock, logger: logger,
            makeProvider: makeProvider)
    }

    /// Wires the tunnels of two hosts: what is written to the packet flow of one is read from the other's.
    public static func connect<Other: PacketTunnelProvider>(_ one: MemoryHost, _ two: MemoryHost<Other>) {
        MemoryPlatform.connect(one.platform, two.platform)
    }

    /// Starts the tunnel with a configuration of this process; returns once it is up.
    public func start(_ configuration: Provider.Configuration, leakPolicy: LeakPolicy = .routeBased)
        async throws(TunnelError)
    {
        try await runner.start(configuration, leakPolicy: leakPolicy)
    }

    /// Starts the tunnel; returns once it is up.
    public func start(_ request: TunnelStartRequest) async throws(TunnelError) { try await runner.start(request) }

    /// Stops the tunnel; returns once it is down.
    public func stop(_ reason: StopReason) async { await runner.stop(reason) }

    /// The status now.
    public var status: TunnelStatusUpdate { runner.status }

    /// The status now and every change from now on.
    public func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { runner.statusUpdates() }

    /// Sends a message to the provider; returns its answer, nil when it has none.
    public func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
        try await runner.sendMessage(message)
    }

    /// Tells the provider that the device is about to sleep.
    public func sleep() async { await runner.sleep() }

    /// Tells the provider that the device woke up.
    public func wake() { runner.wake() }

    /// Tells the provider that the way to the network changed.
    public func pathChanged(_ path: NetworkPath) { runner.pathChanged(path) }
}
