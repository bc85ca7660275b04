// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The reason that a tunnel stops.
public enum StopReason: String, Codable, Hashable, Sendable, CaseIterable {
    /// The user asked for it.
    case userInitiated
    /// The provider failed for good.
    case providerFailed
    /// The device has no network that the tunnel could use, and the configuration says to give up then.
    case noNetworkAvailable
    /// The network changed in a way that the tunnel cannot follow.
    case unrecoverableNetworkChange
    /// The provider was disabled.
    case providerDisabled
    /// Credentials were refused or have expired.
    case authenticationCanceled
    /// The configuration is invalid.
    case configurationFailed
    /// The tunnel was idle for as long as the configuration allows.
    case idleTimeout
    /// The configuration was disabled.
    case configurationDisabled
    /// The configuration was removed.
    case configurationRemoved
    /// Another configuration took its place.
    case superseded
    /// The user logged out.
    case userLogout
    /// Another user became active.
    case userSwitch
    /// The connection failed.
    case connectionFailed
    /// The device went to sleep, and the configuration says to stop then.
    case sleep
    /// The app is being updated.
    case appUpdate
    /// The connectivity monitor found no traffic through the tunnel, and could not heal it.
    case connectivityLost
    /// The host is shutting down.
    case hostShutdown
    /// A reason that this version does not know.
    case unknown

    /// A reason from its word; ``unknown`` for one of a later version.
    public init(from decoder: any Decoder) throws {
        self = Self(rawValue: try decoder.singleValueContainer().decode(String.self)) ?? .unknown
    }
}
