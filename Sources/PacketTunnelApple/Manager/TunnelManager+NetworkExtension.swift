// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel

extension TunnelManager {
    /// Returns a manager of tunnels in an extension: profiles are the system's VPN configurations.
    /// - Parameter options: The extension and its options.
    public static func networkExtension(_ options: NetworkExtensionManagerOptions) -> TunnelManager {
        let secrets = KeychainSecretStore(accessGroup: options.accessGroup)
        let store = NetworkExtensionProfileStore(options, secrets: secrets)
        return TunnelManager(store: store, secrets: secrets, logger: options.logger) { store.channel(for: $0) }
    }

    /// Returns the manager for this device: tunnels in an extension, or in this process on a simulator, which has no
    /// extensions for packet tunnels.
    ///
    /// - Parameters:
    ///   - options: The extension and its options.
    ///   - isSimulator: Whether this is a simulator.
    ///   - makeProvider: Makes the provider there, once for each start.
    public static func `default`<Provider: PacketTunnelProvider>(
        _ options: NetworkExtensionManagerOptions, isSimulator: Bool = SimulatorCheck.isSimulator,
        makeProvider: @escaping @Sendable () -> Provider
    ) -> TunnelManager {
        guard isSimulator else { return networkExtension(options) }
        let secrets = MemorySecretStore()
        return TunnelManager(store: MemoryProfileStore(), secrets: secrets, logger: options.logger) { _ in
            MemoryHost(secrets: secrets, logger: options.logger, makeProvider: makeProvider)
        }
    }
}

/// The platform of this build.
public enum SimulatorCheck {
    #if targetEnvironment(simulator)
        /// Whether this runs on a simulator.
        public static let isSimulator = true
    #else
        /// Whether this runs on a simulator.
        public static let isSimulator = false
    #endif
}
