// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel

/// A tunnel that only starts and stops.
actor EmptyTunnel: PacketTunnelProvider {
    struct Configuration: Codable, Sendable {}

    func start(_ configuration: Configuration, context: ProviderContext) async throws(TunnelError) {
        let address = InterfaceAddress(host: .v4(10, 7, 0, 2))
        try await context.apply(TunnelSettings(remoteAddress: "192.0.2.1", addresses: [address]))
    }

    func stop(_ reason: StopReason) async {}
}
