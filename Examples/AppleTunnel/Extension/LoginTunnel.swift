// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import CredentialTunnel
public import PacketTunnelApple

/// The principal class of the other extension: the tunnel with a login.
public final class LoginTunnel: NetworkExtensionHost<CredentialTunnelProvider>, @unchecked Sendable {
    /// As the other extension's.
    public override var options: NetworkExtensionOptions { .infoPlist() }
}
