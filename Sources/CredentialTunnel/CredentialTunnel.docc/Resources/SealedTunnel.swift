// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import PacketTunnel
import TunnelIO

/// A tunnel that logs in and carries packets.
actor SealedTunnel: PacketTunnelProvider {
    private let network: any DatagramNetwork
    private var connection: Connection?
    private var work: [Task<Void, any Error>] = []

    init() { network = SystemDatagramNetwork() }
    init(network: any DatagramNetwork) { self.network = network }

    func start(_ configuration: LoginConfiguration, context: ProviderContext) async throws(TunnelError) {
        let connection = try await Connection.open(configuration, over: network, context: context)
        try await context.apply(connection.settings)
        self.connection = connection
        work = [
            Task { try await send(from: context.packetFlow) },
            Task { try await deliver(from: connection.link, to: context.packetFlow) },
        ]
    }

    func stop(_ reason: StopReason) async {
        for task in work { task.cancel() }
        connection?.close()
    }

    private func send(from flow: PacketFlow) async throws {
        let packets = try PacketBatch()
        while try await flow.read(into: packets) > 0 {
            for index in 0..<packets.count { connection?.send(.data, packets.copy(of: index)) }
        }
    }

    private func deliver(from link: Link, to flow: PacketFlow) async throws {
        let packets = try PacketBatch()
        for await datagram in link.datagrams {
            guard let (code, body) = connection?.session.open(datagram), code == .data else { continue }
            packets.removeAll()
            packets.append(copying: body)
            try flow.write(packets)
        }
    }
}
