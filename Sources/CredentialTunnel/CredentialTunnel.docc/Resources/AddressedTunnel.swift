// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel

/// A tunnel with an interface whose packets are not read.
actor AddressedTunnel: PacketTunnelProvider {
    struct Configuration: Codable, Sendable { var address: InterfaceAddress }

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        try await context.apply(
            TunnelSettings(
                remoteAddress: "192.0.2.1", addresses: [configuration.address], includedRoutes: [.allIPv4], mtu: 1400))
    }

    func stop(_ reason: StopReason) async {}
}
