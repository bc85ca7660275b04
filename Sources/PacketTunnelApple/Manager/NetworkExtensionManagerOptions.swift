// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
public import PacketTunnel

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
    /// Reads a configuration that the app saved with another library or before it used this package, and returns the profile
    /// and secrets that replace it.
    public typealias Adopt = @Sendable (ExistingConfiguration) throws -> ConfigurationAdoption
    /// Reads the app's configurations that have no profile of this package; `nil` leaves them alone. A load of the profiles
    /// calls it for each of them, until it was adopted or removed. An error leaves the configuration unchanged;
    /// ``TunnelManager/load()`` returns it, and ``TunnelManager/adoptionErrors`` contains it.
    public var adoptConfiguration: Adopt?
    /// The bundle identifiers that the app's extension had before, whose configurations are adopted too.
    public var formerProviderBundleIdentifiers: Set<String> = []
    /// Whether each start passes the app's secrets to the extension, in memory. A tunnel that starts without the app,
    /// on demand, then has none of them. These secrets take precedence over those in the extension's own store. So a
    /// provider finds a secret that it has saved in its own store only at a start without the app, unless both use the
    /// same store.
    public var passesSecrets = false
    /// Whether attached networks are reached directly under a policy that blocks traffic. The provider's settings must
    /// have the same value.
    public var allowsLocalNetwork = false
    /// Whether the tunnel ends when the device sleeps.
    public var disconnectsOnSleep = false
    /// The time limit of a start, including the launch of the extension.
    public var startTimeout = Duration.seconds(90)
    /// The time limit of a stop.
    public var stopTimeout = Duration.seconds(30)
    /// The clock of these limits.
    public var clock: any Clock<Duration> = ContinuousClock()

    /// Logs the manager's operations and their results. A ``SharedLog`` can make this logger.
    public var logger = Logger(label: "tunnel.manager") { _ in SwiftLogNoOpLogHandler() }
    /// The file that ``logger`` writes to. On a simulator the tunnels run in this process, and answer requests for the lines
    /// of this file (`LogRequest`, `LogSubscription`). ``keep(_:level:)`` sets both.
    public var log: RingLogFile?

    /// Options for an extension in this app.
    public init(providerBundleIdentifier: String, accessGroup: String? = nil) {
        self.providerBundleIdentifier = providerBundleIdentifier
        self.accessGroup = accessGroup
    }
}
