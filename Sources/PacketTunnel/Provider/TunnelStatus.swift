// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The status of a tunnel.
public enum TunnelStatus: String, Codable, Hashable, Sendable, CaseIterable {
    /// The tunnel does not exist: its profile is missing or was removed.
    case invalid
    /// Down.
    case disconnected
    /// Starting.
    case connecting
    /// Up: the provider's start succeeded, which proves that the tunnel works.
    case connected
    /// Up, but reconnecting. Packets that the leak policy blocks stay blocked.
    case reasserting
    /// Stopping.
    case disconnecting
    /// Down after a failure, under a leak policy that blocks: packets stay blocked until the user stops or starts the
    /// tunnel.
    case blocked

    /// Whether the tunnel can be stopped.
    public var isActive: Bool { self != .invalid && self != .disconnected }

    /// Whether a provider runs and can receive messages.
    public var isRunning: Bool { self == .connecting || self == .connected || self == .reasserting }
}

/// A tunnel's status, and its error if it failed.
public struct TunnelStatusUpdate: Codable, Hashable, Sendable {
    /// The status.
    public var status: TunnelStatus
    /// The error that ended the tunnel, for ``TunnelStatus/disconnected``, ``TunnelStatus/disconnecting`` and
    /// ``TunnelStatus/blocked``; `nil` if the user stopped it or nothing failed.
    public var error: TunnelError?

    /// An update.
    public init(_ status: TunnelStatus, error: TunnelError? = nil) {
        self.status = status
        self.error = error
    }
}
