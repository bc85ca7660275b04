// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnelApple
import PinnedProvisioning
public import Provisioning

/// A packet-tunnel extension for tunnels that `addKey` assigns: provider, host and transport in one class.
///
/// An extension that links this module needs no other code. Its `Info.plist` names this class, the keychain group
/// and the app group that it shares with its app:
///
///     NSExtension → NSExtensionPrincipalClass    ProvisioningApple.AddKeyTunnelHost
///     CulvertKeychainGroup                       $(AppIdentifierPrefix)com.example.app
///     CulvertAppGroup                            group.com.example.app
///
/// An extension that needs other options, another HTTPS client or answers to its app's own messages names a subclass.
open class AddKeyTunnelHost: NetworkExtensionHost<AddKeyTunnelProvider>, @unchecked Sendable {
    /// The keychain and the log that the extension's `Info.plist` names.
    open override var options: NetworkExtensionOptions { .infoPlist() }

    /// Makes a provider, once for each start.
    open override func makeProvider() -> AddKeyTunnelProvider { AddKeyTunnelProvider(transport: makeTransport()) }

    /// Makes the transport of the registrations, once for each start. This one sends them over TLS, and verifies each
    /// server as its `ServerTrust` in the configuration specifies.
    open func makeTransport() -> any ProvisioningTransport {
        PinnedProvisioningTransport(logger: bridge.options.logger)
    }
}
