// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import TunnelIO
import WireGuardCore
import WireGuardDevice

/// A WireGuard server of a gateway.
final class GrantedServer: Sendable {
    /// The address of its client inside the tunnel.
    static let client = IPAddress.v4(10, 66, 0, 2)

    let address: IPAddress
    let behind = VirtualNetwork()
    let publicKey: PublicKey
    private let device: WireGuardDevice
    private let presharedKey: PresharedKey?

    init(
        at address: IPAddress, on internet: MemoryInternet, key: PrivateKey, presharedKey: PresharedKey?
    ) throws {
        (self.address, self.presharedKey, publicKey) = (address, presharedKey, key.publicKey)
        let tun = try behind.makeTun(name: "server")
        device = try WireGuardDevice(tun: tun, network: internet.attach([address]))
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(key)
        update.listenPort = 51_820
        try device.apply(update)
        try device.start()
    }

    func take(_ client: PublicKey) throws {
        var update = UAPIDeviceUpdate()
        var peer = UAPIPeerUpdate(publicKey: client)
        peer.allowedIPs = [.add(IPPrefix(host: Self.client))]
        if let presharedKey { peer.presharedKey = .set(presharedKey) }
        update.peers = [peer]
        try device.apply(update)
    }

    func close() { device.close() }
}
