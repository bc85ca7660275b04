// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnelTesting
import Synchronization
import TunnelIO
import WireGuardCore
import WireGuardDevice

/// Two whole devices in one process: TUN devices in memory, UDP sockets of the system on loopback.
final class DevicePair {
    private let leftTun: MemoryTun
    private let rightTun: MemoryTun
    private let left: WireGuardDevice
    private let right: WireGuardDevice
    private let count: Counter
    private let packet: [UInt8]

    private final class Counter: Sendable {
        let value = Atomic<Int>(0)
    }

    init() throws {
        leftTun = try MemoryTun(name: "left", mtu: 1420)
        rightTun = try MemoryTun(name: "right", mtu: 1420)
        left = try WireGuardDevice(tun: leftTun, network: SystemDatagramNetwork())
        right = try WireGuardDevice(tun: rightTun, network: SystemDatagramNetwork())
        let count = Counter()
        self.count = count
        unsafe rightTun.onDeliver = { _ in count.value.add(1, ordering: .relaxed) }
        var packet = Pair.greeting + [UInt8](repeating: 0, count: 1400)
        packet[2] = UInt8(packet.count >> 8)
        packet[3] = UInt8(packet.count & 255)
        self.packet = packet

        var random = SeededGenerator(seed: 31)
        try left.setPrivateKey(PrivateKey(using: &random))
        try right.setPrivateKey(PrivateKey(using: &random))
        for device in [left, right] { try device.start() }
        for tun in [leftTun, rightTun] { try tun.setUp(true) }
        try wait("bind their sockets") { left.listenPort != nil && right.listenPort != nil }
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
    var delivered: Int { count.value.load(ordering: .relaxed) }

    /// Sends packets until `wanted` more have arrived, never more than a few hundred ahead.
    func send(_ wanted: Int) throws {
        let target = delivered + wanted
        var sent = delivered
        var idleSince = nanoseconds()
        var last = sent
        while delivered < target {
            let arrived = delivered
            if arrived != last {
                last = arrived
                idleSince = nanoseconds()
            }
            if sent - arrived < 256 {
                if unsafe packet.withUnsafeBytes({ unsafe leftTun.inject($0) }) { sent += 1 }
                continue
            }
            usleep(50)
            let idle = nanoseconds() - idleSince
            // Loopback may drop as well: what has not come by now is lost.
            if idle > 100_000_000 { sent = arrived }
            guard idle < 5_000_000_000 else { throw BenchmarkError("packets do not arrive") }
        }
    }

    private func wait(_ what: String, until condition: () -> Bool) throws {
        let start = nanoseconds()
        while !condition() {
            guard nanoseconds() - start < 5_000_000_000 else { throw BenchmarkError("the devices do not \(what)") }
            usleep(1000)
        }
    }

    func close() {
        left.close()
        right.close()
    }
}
