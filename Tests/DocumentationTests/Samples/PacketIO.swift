// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelIO

// README.md
func loop() async throws {
    var builder = TunBuilder(name: "tun%d")
    builder.addresses = [try InterfaceAddress("10.9.0.1/24")]
    builder.isUp = true
    let port = try PacketPort(builder.build())  // As root. Any device works: a TUN, a utun, one in memory.
    for try await packet in port.packets {
        print("\(packet.count) bytes")
        try port.send(packet)  // Your protocol goes here.
    }
}

// The article TunnelIO
func readNow(_ tun: any TunDevice) throws {
    let port = try PacketPort(tun)
    defer { port.close() }
    while let packet = try port.receive(timeout: .seconds(1)) {
        print("\(packet.count) bytes")
    }
}

// The article TunnelIO
func moveBatches(_ tun: any TunDevice) throws {
    let port = try PacketPort(tun)
    let batch = try PacketBatch()
    while try port.receive(into: batch) > 0 {
        _ = try port.send(batch)
        batch.removeAll()
    }
}
