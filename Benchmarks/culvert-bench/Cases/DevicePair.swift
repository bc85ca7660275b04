// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import TunnelIO
import WireGuardCore
import WireGuardDevice

/// Two whole devices in one process: TUN devices in memory, UDP sockets of the system on loopback.
final class DevicePair {
    private let left: WireGuardDevice
    let right: WireGuardDevice
    private let stream: PacketStream

    init() throws {
        stream = try PacketStream()
        left = try WireGuardDevice(tun: stream.source, network: SystemDatagramNetwork())
        right = try WireGuardDevice(tun: stream.target, network: SystemDatagramNetwork())
        var random = SeededGenerator(seed: 31)
        try left.setPrivateKey(PrivateKey(using: &random))
        try right.setPrivateKey(PrivateKey(using: &random))
        for device in [left, right] { try device.start() }
        for tun in [stream.source, stream.target] { try tun.setUp(true) }
        try PacketStream.wait("bind their sockets") { left.listenPort != nil && right.listenPort != nil }
        try introduce(left, to: right)
        try introduce(right, to: left)
        try send(1)
    }

    private func introduce(_ device: WireGuardDevice, to other: WireGuardDevice) throws {
        guard let key = other.publicKey, let port = other.listenPort,
            let everything = IPPrefix(.v4(0), length: 0)
        else { throw BenchmarkError("the devices are not up") }
        var peer = UAPIPeerUpdate(publicKey: key)
        peer.endpoint = Endpoint(address: .v4(0x7f00_0001), port: port)
        peer.allowedIPs = [.add(everything)]
        var update = UAPIDeviceUpdate()
        update.peers = [peer]
        try device.apply(update)
    }

    /// Packets that arrived so far.
    var delivered: Int { stream.delivered }

    /// Sends packets until `wanted` more have arrived, never more than a few hundred ahead.
    func send(_ wanted: Int) throws { try stream.send(wanted) }

    func close() {
        left.close()
        right.close()
    }
}
