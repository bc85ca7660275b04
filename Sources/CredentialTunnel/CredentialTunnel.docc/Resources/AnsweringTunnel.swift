// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import TunnelIO

/// A tunnel to an in-memory network in this process, which answers the packets.
actor AnsweringTunnel: PacketTunnelProvider {
    struct Configuration: Codable, Sendable { var address: InterfaceAddress }
    private var work: Task<Void, any Error>?

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(
            TunnelSettings(
                remoteAddress: "192.0.2.1", addresses: [configuration.address], includedRoutes: [.allIPv4], mtu: 1400))
        work = Task { try await Self.answer(context.packetFlow) }
    }

    func stop(_ reason: StopReason) async { work?.cancel() }

    /// Reads and writes until reading throws at the end of the tunnel.
    private static func answer(_ flow: PacketFlow) async throws {
        let packets = try PacketBatch()
        let answers = try PacketBatch()
        let network = VirtualNetwork()
        while try await flow.read(into: packets) > 0 {
            answers.removeAll()
            for index in 0..<packets.count {
                if let answer = network.receive(packets.copy(of: index)) { answers.append(copying: answer) }
            }
            try await flow.writeAll(answers)
        }
    }
}
