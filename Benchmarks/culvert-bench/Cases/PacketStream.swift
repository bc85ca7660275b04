// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Synchronization
import TunnelIO

/// Packets into one TUN device in memory, counted when they come out of another.
final class PacketStream {
    let source: MemoryTun
    let target: MemoryTun
    private let count = Counter()
    private let packet: [UInt8]

    private final class Counter: Sendable {
        let value = Atomic<Int>(0)
    }

    /// - Parameter header: the IPv4 header of the packets, which have 1420 bytes.
    init(header: [UInt8] = Pair.greeting) throws {
        source = try MemoryTun(name: "left", mtu: 1420)
        target = try MemoryTun(name: "right", mtu: 1420)
        var packet = header + [UInt8](repeating: 0, count: 1420 - header.count)
        packet[2] = UInt8(packet.count >> 8)
        packet[3] = UInt8(packet.count & 255)
        self.packet = packet
        let count = count
        unsafe target.onDeliver = { _ in count.value.add(1, ordering: .relaxed) }
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
                if unsafe packet.withUnsafeBytes({ unsafe source.inject($0) }) { sent += 1 }
                continue
            }
            usleep(50)
            let idle = nanoseconds() - idleSince
            // Loopback may drop packets too. Those that have not arrived by now are lost.
            if idle > 100_000_000 { sent = arrived }
            guard idle < 5_000_000_000 else { throw BenchmarkError("packets do not arrive") }
        }
    }

    /// Waits until the condition holds, for a bounded time.
    static func wait(_ what: String, until condition: () -> Bool) throws {
        let start = nanoseconds()
        while !condition() {
            guard nanoseconds() - start < 5_000_000_000 else { throw BenchmarkError("the devices do not \(what)") }
            usleep(1000)
        }
    }
}
