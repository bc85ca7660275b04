// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import PacketTunnel

/// A tunnel on Linux: a provider, the host's network as it wants it (``LinuxPlatform``), and what happens to that network
/// meanwhile.
///
/// Changes of the ways out and the machine's sleep are told to the provider without further ado.
public final class LinuxHost<Provider: PacketTunnelProvider>: RunnerHost {
    /// The host's network.
    public let platform: LinuxPlatform
    /// What runs the provider.
    public let runner: TunnelRunner<Provider>
    private let monitor: LinuxPathMonitor

    /// A tunnel that is down, in the network namespace of the calling thread.
    ///
    /// - Parameters:
    ///   - name: the tunnel's and its interface's name: 1 to 15 letters, digits and the signs `_=+.-`.
    ///   - options: how it is set up, beside its settings.
    ///   - secrets: where the secrets of profiles are.
    ///   - deadlines: how long things may take.
    ///   - clock: what deadlines are measured on. It should count while the machine sleeps.
    ///   - logger: where host and provider write.
    ///   - log: the file that `logger` writes to, for apps that ask for its lines (`LogRequest`, `LogSubscription`).
    ///   - makeProvider: makes a provider, once for each start. The mark for its own sockets is in
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

    /// - Parameter wrap: stands between the runner and the platform, for tests.
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
                // Nobody could be told before; the provider sees both, in order.
                Task {
                    await runner?.sleep()
                    runner?.wake()
                }
            })
    }

    deinit { monitor.stop() }
}

extension TunnelDeadlines {
    /// Those of a tunnel on Linux, where programs are run that may wait for one another: 30 seconds for settings, and 45
    /// for undoing them.
    public static func linux(start: Duration = .seconds(60)) -> TunnelDeadlines {
        TunnelDeadlines(start: start, settings: .seconds(30), tearDown: .seconds(45))
    }
}
