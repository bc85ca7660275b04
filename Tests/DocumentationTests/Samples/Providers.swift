// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import TunnelIO

// README.md
actor LoopTunnel: PacketTunnelProvider {
    struct Configuration: Codable, Sendable { var address: IPAddress }
    private var work: Task<Void, any Error>?

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(
            TunnelSettings(
                remoteAddress: "192.0.2.1", addresses: [InterfaceAddress(host: configuration.address)],
                includedRoutes: [.allIPv4]))
        work = Task {
            for try await packet in context.packetFlow.packets {
                try await context.packetFlow.write(packet)  // Your protocol goes here.
            }
        }
    }

    func stop(_ reason: StopReason) async { work?.cancel() }
}

// docs/provider.md
func watch(_ manager: TunnelManager, _ profile: TunnelProfile) async {
    for await event in TunnelMonitor(manager, profile.id, every: .seconds(2), asking: StatusRequest()) {
        switch event {
        case .status(let update): print(update.status)  // update.error is the reason for its end.
        case .reply(let reply): print(reply.receivedBytes)
        case .failure(let error): print(error)  // A MessageError. The monitor continues.
        }
    }
}

// The article PacketTunnel
final class MyProvider: PacketTunnelProvider {
    struct Configuration: Codable, Sendable { var server: String }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(
            TunnelSettings(
                remoteAddress: configuration.server, addresses: [InterfaceAddress(host: .v4(10, 0, 0, 2))],
                includedRoutes: [.allIPv4]))
        let device = try context.packetFlow.leaseDevice()
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
