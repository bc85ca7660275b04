// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

extension TunnelManager {
    /// Returns a manager of tunnels in an extension. The profiles are VPN configurations of the system.
    /// - Parameter options: The extension and its options.
    public static func networkExtension(_ options: NetworkExtensionManagerOptions) -> TunnelManager {
        let secrets = KeychainSecretStore(accessGroup: options.accessGroup)
        let store = NetworkExtensionProfileStore(options, secrets: secrets)
        return TunnelManager(store: store, secrets: secrets, logger: options.logger) { store.channel(for: $0) }
    }

    /// Returns the manager for this device: tunnels run in an extension, or in this process on a simulator, which does
    /// not support packet-tunnel extensions.
    ///
    /// - Parameters:
    ///   - options: The extension and its options.
    ///   - isSimulator: Whether this is a simulator.
    ///   - makeProvider: Makes a provider on a simulator, once per start.
    public static func `default`<Provider: PacketTunnelProvider>(
        _ options: NetworkExtensionManagerOptions, isSimulator: Bool = SimulatorCheck.isSimulator,
        makeProvider: @escaping @Sendable () -> Provider
    ) -> TunnelManager {
        guard isSimulator else { return networkExtension(options) }
        let secrets = MemorySecretStore()
        return TunnelManager(store: MemoryProfileStore(), secrets: secrets, logger: options.logger) { _ in
            MemoryHost(secrets: secrets, logger: options.logger, log: options.log, makeProvider: makeProvider)
        }
    }
}

/// Whether this build is for a simulator.
public enum SimulatorCheck {
    #if targetEnvironment(simulator)
        /// Whether this runs on a simulator.
        public static let isSimulator = true
    #else
        /// Whether this runs on a simulator.
        public static let isSimulator = false
    #endif
}
