// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnelApple
public import WireGuardTunnel

/// The principal class of the extension: WireGuard behind the system's tunnel provider.
public final class Tunnel: NetworkExtensionHost<WireGuardTunnelProvider>, @unchecked Sendable {
    /// The keychain and the log that the property list names, which the app uses too.
    public override var options: NetworkExtensionOptions { .infoPlist() }
}
