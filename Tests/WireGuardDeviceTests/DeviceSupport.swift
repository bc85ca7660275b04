// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Synchronization
import TunnelIO
import WireGuardCore

@testable import WireGuardDevice

/// How long anything in these tests may take; reached only by what hangs.
let patience: Duration = .seconds(20)

/// One device in memory: its TUN, its place on an in-memory internet, and its deliveries.
final class TestHost: Sendable {
    let tun: MemoryTun
    let device: WireGuardDevice
    let network: MemoryDatagramNetwork
    let key: PrivateKey
    let address: IPAddress
    let inner: IPAddress

    init(
        on internet: MemoryInternet, address: UInt32, inner: UInt32, seed: UInt64,
        options: WireGuardDevice.Options = WireGuardDevice.Options()
    ) throws {
        var random = SeededGenerator(seed: seed)
        key = PrivateKey(using: &random)
        tun = try MemoryTun(name: "mem\(seed)", mtu: 1420)
        network = internet.attach([.v4(address)])
        self.address = IPAddress.v4(address)
        self.inner = IPAddress.v4(inner)
        device = try WireGuardDevice(tun: tun, network: network, options: options)
    }

    func start(port: UInt16 = 51_820) throws {
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(key)
        update.listenPort = port
        try device.apply(update)
        try device.start()
        try tun.setUp(true)
    }

    /// Makes `other` a peer that owns its inner address.
    func add(_ other: TestHost, endpoint: Bool = true, keepalive: UInt16? = nil) throws {
        var peer = UAPIPeerUpdate(publicKey: other.key.publicKey)
        if endpoint { peer.endpoint = Endpoint(address: other.address, port: 51_820) }
        peer.persistentKeepalive = keepalive
        if let prefix = IPPrefix(other.inner, length: 32) { peer.allowedIPs = [.add(prefix)] }
        var update = UAPIDeviceUpdate()
        update.peers = [peer]
        try device.apply(update)
    }
}

/// Closes the devices and waits until they have ended.
func closeAll(_ hosts: TestHost...) {
    for host in hosts { host.device.close() }
}
