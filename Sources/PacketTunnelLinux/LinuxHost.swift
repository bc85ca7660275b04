// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import PacketTunnel

/// A tunnel on Linux: a provider and its part of the host's network (``LinuxPlatform``), which it also repairs.
///
/// The host reports changes of the network path and the machine's sleep to the provider.
public final class LinuxHost<Provider: PacketTunnelProvider>: RunnerHost {
    /// The host's network.
    public let platform: LinuxPlatform
    /// The runner of the provider.
    public let runner: TunnelRunner<Provider>
    private let monitor: LinuxPathMonitor

    /// Creates a tunnel that is down, in the network namespace of the calling thread.
    ///
    /// - Parameters:
    ///   - name: The name of the tunnel and its interface: 1 to 15 letters, digits and the characters `_=+.-`.
    ///   - options: The setup of the tunnel beyond its settings.
    ///   - secrets: The store of the profiles' secrets.
    ///   - deadlines: The time limits of operations.
    ///   - clock: The clock of the deadlines. It should also advance while the machine sleeps.
    ///   - logger: The logger of host and provider.
    ///   - log: The file that `logger` writes to, for apps that ask for its lines (`LogRequest`, `LogSubscription`).
    ///   - makeProvider: Makes a provider, once per start. The mark for the provider's own sockets is
    ///     `ProviderContext.socketMark`.
    /// - Throws: `.invalidTunnelName`; `.netlink` without netlink or threads.
    public convenience init(
        name: String, options: LinuxHostOptions = LinuxHostOptions(), secrets: (any SecretStore)? = nil,
        deadlines: TunnelDeadlines = .linux(), clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "tunnel"), log: RingLogFile? = nil,
        makeProvider: @escaping @Sendable () -> Provider = { Provider() }
    ) throws(LinuxNetworkError) {
        try self.init(
            LinuxPlatform(name: name, options: options, logger: logger), secrets: secrets, deadlines: deadlines,
            clock: clock, logger: logger, log: log, wrap: { $0 }, makeProvider: makeProvider)
    }

    /// - Parameter wrap: Wraps the platform, for tests.
    package init(
        _ platform: LinuxPlatform, secrets: (any SecretStore)? = nil,
        deadlines: TunnelDeadlines = TunnelDeadlines(), clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger = Logger(label: "tunnel"), log: RingLogFile? = nil,
        wrap: (any TunnelPlatform) -> any TunnelPlatform,
        makeProvider: @escaping @Sendable () -> Provider = { Provider() }
    ) throws(LinuxNetworkError) {
        monitor = try LinuxPathMonitor(tunnel: platform.name, loop: platform.loop)
        let runner = TunnelRunner<Provider>(
            platform: wrap(platform), path: platform.firstPath(monitor.path), secrets: secrets,
            deadlines: deadlines, clock: clock,
            logger: logger, log: log, makeProvider: makeProvider)
        self.platform = platform
        self.runner = runner
        platform.onInterfaceLost { [weak runner] error in runner?.fail(error) }
        try monitor.start(
            changed: { [weak runner, weak platform] path in
                runner?.pathChanged(platform?.completed(path) ?? path)
            },
            woke: { [weak runner] in
                // Both events are reported only after the sleep, but in order.
                Task {
                    await runner?.sleep()
                    runner?.wake()
                }
            })
    }

    deinit { monitor.stop() }
}

extension TunnelDeadlines {
    /// The deadlines of a tunnel on Linux: 30 seconds to apply settings, and 45 to undo them, because the programs that
    /// they need may wait for each other.
    public static func linux(start: Duration = .seconds(60)) -> TunnelDeadlines {
        TunnelDeadlines(start: start, settings: .seconds(30), tearDown: .seconds(45))
    }
}
