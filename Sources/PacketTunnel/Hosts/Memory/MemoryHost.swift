// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging

/// Runs a provider in this process with a real packet flow, and changes nothing on the machine: for tests, simulators,
/// and apps on a simulated phone.
///
/// ``platform`` is the system's side of the tunnel. A test injects and takes packets there, or connects it to another
/// host or to a ``VirtualNetwork``.
public final class MemoryHost<Provider: PacketTunnelProvider>: RunnerHost {
    /// The system's side.
    public let platform: MemoryPlatform
    /// The runner of the provider.
    public let runner: TunnelRunner<Provider>

    /// Creates a host whose tunnel is down.
    ///
    /// The parameters are those of ``TunnelRunner``. Without a logger the host logs nothing. By default it keeps
    /// secrets in memory, and ``TunnelManager/init(_:secrets:)`` uses the same store.
    public init(
        path: NetworkPath = NetworkPath(), secrets: (any SecretStore)? = MemorySecretStore(),
        deadlines: TunnelDeadlines = TunnelDeadlines(), clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "tunnel") { _ in SwiftLogNoOpLogHandler() }, log: RingLogFile? = nil,
        makeProvider: @escaping @Sendable () -> Provider = { Provider() }
    ) {
        let platform = MemoryPlatform(clock: clock)
        self.platform = platform
        runner = TunnelRunner(
            platform: platform, path: path, secrets: secrets, deadlines: deadlines, clock: clock, logger: logger,
            log: log, makeProvider: makeProvider)
    }

    /// Connects the tunnels of two hosts: packets written to the packet flow of one are read from the other's.
    public static func connect<Other: PacketTunnelProvider>(_ one: MemoryHost, _ two: MemoryHost<Other>) {
        MemoryPlatform.connect(one.platform, two.platform)
    }
}
