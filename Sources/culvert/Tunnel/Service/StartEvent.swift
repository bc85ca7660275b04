// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// An event that a starting service sends to the command that started it, as a line of JSON.
enum StartEvent: Codable, Equatable, Sendable {
    /// The service begins a step that may take a while.
    case step(String)
    /// A warning for the user.
    case warning(String)
    /// The tunnel is up.
    case ready(process: Int32, Readiness)
    /// The tunnel is not up. Its changes were undone, but a strict leak policy may stay in effect.
    case failed(TunnelError)

    /// The state of a tunnel that is up.
    enum Readiness: String, Codable, Sendable {
        /// It is proven to work.
        case connected
        /// It waits for peers.
        case listening
        /// Its settings are in effect, and it continues to try to reach a peer.
        case trying

        /// For people.
        var text: String {
            switch self {
            case .connected: "connected"
            case .listening: "up, and waits for peers"
            case .trying: "up, not connected yet; it continues to try"
            }
        }
    }
}
