// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
import PacketTunnel

/// The options for storing and starting profiles through the system.
public struct NetworkExtensionManagerOptions: Sendable {
    /// The place of the profile's own data.
    public enum Placement: Hashable, Sendable {
        /// A keychain item that the system's configuration refers to. For app extensions.
        case keychain
        /// The system's configuration itself. For a macOS system extension, which cannot read the user's keychain.
        case systemConfiguration
    }

    /// The bundle identifier of the extension.
    public var providerBundleIdentifier: String
    /// The keychain access group that app and extension share, or `nil`.
    public var accessGroup: String?
    /// The place of the profile's own data.
    public var placement = Placement.keychain
    /// Whether the app's secrets go to the extension with each start, in memory. A tunnel that starts without the app, on
    /// demand, then has none. They have priority over the secrets of the extension's own store: a provider gets a secret that it
    /// saved there only at such a start, unless the app's store is the same one.
    public var passesSecrets = false
    /// Whether networks that are attached directly are reached directly under a policy that blocks traffic. The provider's
    /// settings have to say the same.
    public var allowsLocalNetwork = false
    /// Whether the tunnel ends when the device sleeps.
    public var disconnectsOnSleep = false
    /// How long a start may take, the launch of the extension included.
    public var startTimeout = Duration.seconds(90)
    /// How long a stop may take.
    public var stopTimeout = Duration.seconds(30)
    /// The clock of these limits.
    public var clock: any Clock<Duration> = ContinuousClock()

    /// Logs the manager's operations and their results. A ``SharedLog`` has a logger for it.
    public var logger = Logger(label: "tunnel.manager") { _ in SwiftLogNoOpLogHandler() }

    /// Options for an extension in this app.
    public init(providerBundleIdentifier: String, accessGroup: String? = nil) {
        self.providerBundleIdentifier = providerBundleIdentifier
        self.accessGroup = accessGroup
    }
}
