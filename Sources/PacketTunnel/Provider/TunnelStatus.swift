// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The status of a tunnel.
public enum TunnelStatus: String, Codable, Hashable, Sendable, CaseIterable {
    /// There is no such tunnel: its profile is missing or was removed.
    case invalid
    /// Down.
    case disconnected
    /// Starting.
    case connecting
    /// Up, and proven to be: its provider's start succeeded.
    case connected
    /// Up, but without a connection until it has reconnected. The leak policy's packets stay blocked.
    case reasserting
    /// Stopping.
    case disconnecting
    /// Failed under a leak policy that blocks: down, and its packets are blocked until the user stops or starts it.
    case blocked

    /// Whether there is a tunnel that can be stopped.
    public var isActive: Bool { self != .invalid && self != .disconnected }

    /// Whether a provider is at work that messages can be sent to.
    public var isRunning: Bool { self == .connecting || self == .connected || self == .reasserting }
}

/// A tunnel's status, and its error if it failed.
public struct TunnelStatusUpdate: Codable, Hashable, Sendable {
    /// The status.
    public var status: TunnelStatus
    /// The error that ended the tunnel, for ``TunnelStatus/disconnected``, ``TunnelStatus/disconnecting`` and
    /// ``TunnelStatus/blocked``; `nil` if the user ended it, or there was none.
    public var error: TunnelError?

    /// An update.
    public init(_ status: TunnelStatus, error: TunnelError? = nil) {
        self.status = status
        self.error = error
    }
}
