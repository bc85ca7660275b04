// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Provisioning
import WireGuardCore
import WireGuardDevice
import WireGuardTunnel

@main
enum TunnelApp {
    static func main() throws {
        let text = "[Interface]\nPrivateKey = \(String(repeating: "A", count: 42))E=\nAddress = 10.0.0.2/32\n"
        let parts = try WireGuardTunnelConfiguration.split(wgQuick: text, name: "wg0.conf")
        let server = ProvisioningServer(name: "vpn.example.com", port: 8443)
        print(server.authority, parts.configuration.leakPolicy, MemoryBudget.extension)
    }
}
