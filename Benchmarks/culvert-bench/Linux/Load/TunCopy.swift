// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import TunnelIO

/// Copies packets between two TUN devices, both ways, in batches and with every offload, but without encryption and
/// without a network: what reading and writing the devices costs by itself.
enum TunCopy {
    static let command = "copy-tuns"

    static func run(_ arguments: ArraySlice<String>) throws {
        let names = Array(arguments)
        guard names.count == 2 else { throw UsageError(message: "\(command) NAME NAME") }
        let devices = try names.map { try LinuxTun(name: $0, mtu: 1420) }
        let batch = try PacketBatch(packetCapacity: 256, byteCapacity: 1 << 19)
        while true {
            var requests = devices.map { pollfd(fd: $0.readiness, events: Int16(POLLIN), revents: 0) }
            guard unsafe poll(&requests, 2, -1) > 0 else { continue }
            for (from, to) in [(0, 1), (1, 0)] {
                // A lane reads the same number of batches before the other side gets its turn.
                for _ in 0..<8 {
                    batch.removeAll()
                    guard try devices[from].receive(into: batch) > 0 else { break }
                    _ = try devices[to].send(batch)
                }
            }
        }
    }
}
