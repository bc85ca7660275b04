// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnelApple
public import WireGuardTunnel

#if canImport(AppleTunnelModel)
    // In the Xcode project, the file of FormerConfiguration is part of the extension.
    import AppleTunnelModel
#endif

/// The principal class of the extension: WireGuard behind the system's tunnel provider.
public final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
    /// The keychain and the log that the property list names, which the app uses too; and the app's reader of a former
    /// configuration, for a start before the updated app has run.
    public override var options: NetworkExtensionOptions {
        var options = NetworkExtensionOptions.infoPlist()
        options.adoptConfiguration = FormerConfiguration.readWireGuardKit
        return options
    }
}
