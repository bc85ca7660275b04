// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(NetworkExtension)
    import PacketTunnel
    import PacketTunnelApple

    /// The principal class of the extension, which the system creates for each start.
    final class TunnelExtension: NetworkExtensionHost<LastingTunnel>, @unchecked Sendable {
        override var options: NetworkExtensionOptions { .standard(accessGroup: "TEAMID.com.example.tunnel") }
    }

    /// Returns the app's manager of tunnels in the extension. On a simulator, they run in the app itself.
    func makeManager() -> TunnelManager {
        let options = NetworkExtensionManagerOptions(
            providerBundleIdentifier: "com.example.app.tunnel", accessGroup: "TEAMID.com.example.tunnel")
        return TunnelManager.default(options) { LastingTunnel() }
    }
#endif
