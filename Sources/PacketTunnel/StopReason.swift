// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The reason that a tunnel stops.
public enum StopReason: String, Codable, Hashable, Sendable, CaseIterable {
    /// The user stopped the tunnel.
    case userInitiated
    /// The provider failed permanently.
    case providerFailed
    /// The device has no network that the tunnel can use, and the configuration requires a stop in this case.
    case noNetworkAvailable
    /// The network changed in a way that the tunnel cannot follow.
    case unrecoverableNetworkChange
    /// The provider was disabled.
    case providerDisabled
    /// The server refused the credentials, or they have expired.
    case authenticationCanceled
    /// The configuration is invalid.
    case configurationFailed
    /// The tunnel was idle for the time that the configuration permits.
    case idleTimeout
    /// The configuration was disabled.
    case configurationDisabled
    /// The configuration was removed.
    case configurationRemoved
    /// Another configuration replaced it.
    case superseded
    /// The user logged out.
    case userLogout
    /// Another user became active.
    case userSwitch
    /// The connection failed.
    case connectionFailed
    /// The device went to sleep, and the configuration requires a stop in this case.
    case sleep
    /// The app is being updated.
    case appUpdate
    /// The connectivity monitor found no traffic through the tunnel, and reconnecting did not help.
    case connectivityLost
    /// The host is shutting down.
    case hostShutdown
    /// A reason that this version does not know.
    case unknown

    /// Decodes a reason from its word. A word of a later version results in ``unknown``.
    public init(from decoder: any Decoder) throws {
        self = Self(rawValue: try decoder.singleValueContainer().decode(String.self)) ?? .unknown
    }
}
