// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// What a service that starts tells the command that started it, a line of JSON each.
enum StartEvent: Codable, Equatable, Sendable {
    /// It does something that may take a while.
    case step(String)
    /// What the user should know.
    case warning(String)
    /// The tunnel is up.
    case ready(process: Int32, Readiness)
    /// It is not, and nothing is left of it.
    case failed(TunnelError)

    /// How far a tunnel is that is up.
    enum Readiness: String, Codable, Sendable {
        /// It is proven to work.
        case connected
        /// It waits for peers to come.
        case listening
        /// Its settings are in force, and it goes on trying to reach a peer.
        case trying

        /// For people.
        var text: String {
            switch self {
            case .connected: "connected"
            case .listening: "up, and waits for peers"
            case .trying: "up, not connected yet, and goes on trying"
            }
        }
    }
}
