// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import TunnelIO

/// A custom tunnel. Its protocol answers packets as if every address behind it had a host that answers ping and echoes UDP.
actor EchoTunnel: PacketTunnelProvider {
    /// The settings of the tunnel, stored in profiles as JSON.
    struct Configuration: Codable, Sendable {
        /// The interface's address, and the network behind the tunnel.
        var address: InterfaceAddress
        /// Whether packets use the interface's descriptor rather than the packet flow.
        var usesDescriptor = false
    }

    nonisolated let router = MessageRouter()
    private let network = VirtualNetwork()
    private var work: Task<Void, Never>?

    init() {
        router.on(EchoStatus.self) { [network] _ in
            EchoStatus.Reply(pings: network.statistics.pingsAnswered, datagrams: network.statistics.datagramsEchoed)
        }
    }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        // Contact your server here, and throw if it does not answer: when this returns, the tunnel is connected.
        try await context.apply(
            TunnelSettings(
                remoteAddress: "192.0.2.1", addresses: [InterfaceAddress(host: configuration.address.address)],
                includedRoutes: [configuration.address.network]))
        work = Task {
            do {
                if configuration.usesDescriptor {
                    try await carry(PacketPort(context.packetFlow.leaseDevice()))
                } else {
                    try await carry(context.packetFlow)
                }
            } catch {
                context.cancel(TunnelError(.providerFailed, "\(error)"))
            }
        }
    }

    /// Forwards packets of the flow from the system to your protocol, and back.
    private func carry(_ flow: PacketFlow) async throws {
        for try await packet in flow.packets {
            if let answer = network.receive(packet) { try await flow.write(answer) }
        }
    }

    /// Does the same on the interface's descriptor, with a port.
    private func carry(_ port: PacketPort) async throws {
        for try await packet in port.packets {
            if let answer = network.receive(packet) { try port.send(answer) }
        }
    }

    func stop(_ reason: StopReason) async {
        router.close()
        work?.cancel()
    }
}

/// Requests the statistics of the tunnel.
struct EchoStatus: TunnelMessage {
    struct Reply: Codable, Hashable, Sendable {
        var pings: Int
        var datagrams: Int
    }

    static let name = "example.echo.status"
}
