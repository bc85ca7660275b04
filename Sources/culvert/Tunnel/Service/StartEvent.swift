// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// What a service that starts tells the command that started it, a line of JSON each.
enum StartEvent: Codable, Equatable, Sendable {
    /// It does something that may take a while.
    case step(String)
    /// What the user should know.
    case warning(String)
    /// The tunnel is up, or waits for peers to come.
    case ready(process: Int32, isListening: Bool)
    /// It is not, and nothing is left of it.
    case failed(TunnelError)
}
