// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Synchronization
import TunnelIO

// README.md
final class LoopTunnel: PacketTunnelProvider {
    struct Configuration: Codable, Sendable { var address: IPAddress }
    private let work = Mutex<Task<Void, any Error>?>(nil)

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(
            TunnelSettings(
                remoteAddress: "192.0.2.1", addresses: [InterfaceAddress(host: configuration.address)],
                includedRoutes: [.allIPv4]))
        let task = Task {
            let packets = try PacketBatch()
            while try await context.packetFlow.read(into: packets) > 0 {
                try context.packetFlow.write(packets)  // Your protocol goes here.
            }
        }
        work.withLock { $0 = task }
    }

    func stop(_ reason: StopReason) async { work.withLock { $0?.cancel() } }
}

// The article PacketTunnel
final class MyProvider: PacketTunnelProvider {
    struct Configuration: Codable, Sendable { var server: String }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(
            TunnelSettings(
                remoteAddress: configuration.server, addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))],
                includedRoutes: [.allIPv4]))
        let device = try context.packetFlow.takeDevice()
        // Run a data plane on the device, and return once there is proof that it works.
        device.close()
    }

    func stop(_ reason: StopReason) async {
        // Close the data plane.
    }
}

// TunnelMessage
struct StatusRequest: TunnelMessage {
    struct Reply: Codable, Sendable { var receivedBytes: UInt64 }
    static let name = "culvert.status"
}
