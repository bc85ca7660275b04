// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    public import Logging

    /// A tunnel on Linux: a provider, the host's network as it wants it (``LinuxPlatform``), and what happens to that network
    /// meanwhile.
    ///
    /// Changes of the ways out and the machine's sleep are told to the provider without further ado.
    public final class LinuxHost<Provider: PacketTunnelProvider>: TunnelHost {
        /// The host's network.
        public let platform: LinuxPlatform
        private let runner: TunnelRunner<Provider>
        private let monitor: LinuxPathMonitor

        /// A tunnel that is down, in the network namespace of the calling thread.
        ///
        /// - Parameters:
        ///   - name: the tunnel's and its interface's name: 1 to 15 letters, digits and the signs `_=+.-`.
        ///   - options: how it is set up, beside its settings.
        ///   - secrets: where the secrets of profiles are.
        ///   - deadlines: how long things may take.
        ///   - logger: where host and provider write.
        ///   - makeProvider: makes a provider, once for each start, given the mark that its own sockets need
        ///     (``LinuxPlatform/socketMark``).
        /// - Throws: `.invalidTunnelName`; `.netlink` without netlink or threads.
        public init(
            name: String, options: LinuxHostOptions = LinuxHostOptions(), secrets: (any SecretStore)? = nil,
            deadlines: TunnelDeadlines = TunnelDeadlines(), logger: Logger = Logger(label: "tunnel"),
            makeProvider: @escaping @Sendable (_ socketMark: UInt32?) -> Provider
        ) throws(LinuxNetworkError) {
            let platform = try LinuxPlatform(name: name, options: options, logger: logger)
            monitor = try LinuxPathMonitor(tunnel: name, loop: platform.loop)
            let runner = TunnelRunner<Provider>(
                platform: platform, path: monitor.path, secrets: secrets, deadlines: deadlines, logger: logger,
                makeProvider: { makeProvider(platform.socketMark) })
            self.platform = platform
            self.runner = runner
            try monitor.start(
                changed: { [weak runner, weak platform] path in
                    platform?.refresh()
                    runner?.pathChanged(path)
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

        /// Starts the tunnel; returns once it is up.
        public func start(_ request: TunnelStartRequest) async throws(TunnelError) {
            try await runner.start(request)
        }

        /// Starts the tunnel with a configuration of this process.
        public func start(
            _ configuration: Provider.Configuration, leakPolicy: LeakPolicy = .routeBased, profileID: String? = nil
        ) async throws(TunnelError) {
            try await runner.start(configuration, leakPolicy: leakPolicy, profileID: profileID)
        }

        /// Stops the tunnel; returns once the network is as it was.
        public func stop(_ reason: StopReason) async { await runner.stop(reason) }

        /// The status now.
        public var status: TunnelStatusUpdate { runner.status }

        /// The status now and every change from now on.
        public func statusUpdates() -> AsyncStream<TunnelStatusUpdate> { runner.statusUpdates() }

        /// Sends a message to the provider; returns its answer, nil when it has none.
        public func sendMessage(_ message: [UInt8]) async throws(TunnelError) -> [UInt8]? {
            try await runner.sendMessage(message)
        }

        /// Tells the provider that the machine is about to sleep, as who knows beforehand may do.
        public func sleep() async { await runner.sleep() }

        /// Tells the provider that the machine woke up.
        public func wake() { runner.wake() }

        /// Tells the provider of another way out than the host sees.
        public func pathChanged(_ path: NetworkPath) { runner.pathChanged(path) }
    }
#endif
