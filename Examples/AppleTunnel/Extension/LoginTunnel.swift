// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import CredentialTunnel
public import PacketTunnelApple

#if canImport(AppleTunnelModel)
    import AppleTunnelModel
#endif

/// The principal class of the other extension: the tunnel with a login.
public final class LoginTunnel: NetworkExtensionHost<CredentialTunnelProvider>, @unchecked Sendable {
    /// The keychain, the log, and the reader of a former configuration.
    public override var options: NetworkExtensionOptions {
        var options = NetworkExtensionOptions.infoPlist()
        options.adoptConfiguration = FormerConfiguration.readBestVPN
        return options
    }
}
