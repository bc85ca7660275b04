// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import WireGuardTunnel

// The article WireGuardTunnel
func bringUp(_ text: String) async throws {
    let parts = try WireGuardTunnelConfiguration.split(wgQuick: text)
    let store = MemorySecretStore()
    for (name, secret) in parts.secrets { try await store.write(secret, name, of: "home") }
    let host = MemoryHost<WireGuardTunnelProvider>(secrets: store)
    try await host.start(
        TunnelStartRequest(configuration: try JSONValue(encoding: parts.configuration).text(), profileID: "home"))
    await host.stop(.userInitiated)
}

// The article WireGuardTunnel
func tune(_ configuration: inout WireGuardTunnelConfiguration) {
    configuration.leakPolicy = .everything
    configuration.connectivity.pingAddress = "10.0.0.1"
    for problem in configuration.validate() { print(problem) }
}
