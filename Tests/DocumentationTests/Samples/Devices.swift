// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import WireGuardCore
import WireGuardDevice

// README.md
func serve(_ text: String) throws {
    let configuration = try TunnelConfiguration.parse(text)
    let endpoints = try ResolvedEndpoints(of: configuration)  // Host names, asked of the system.

    let tun = try SystemTun(name: "wg0", mtu: 1420)
    let device = try WireGuardDevice(tun: tun, network: SystemDatagramNetwork())
    try device.apply(configuration.deviceUpdate(resolve: endpoints.endpoint))
    try device.start()
    try device.serveUAPI(on: ManagementSocket(path: ManagementSocket.path(forInterface: "wg0")))
    try tun.setUp(true)
    _ = device.waitUntilClosed()
}

// ResolvedEndpoints
func resolve(_ configuration: TunnelConfiguration, for device: WireGuardDevice) throws {
    let endpoints = try ResolvedEndpoints(of: configuration)
    try device.apply(configuration.deviceUpdate(resolve: endpoints.endpoint))
}
