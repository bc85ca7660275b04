// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import TunnelIO

/// A tunnel that logs in, and applies the server's assignment.
actor LoginTunnel: PacketTunnelProvider {
    private let network: any DatagramNetwork
    private var connection: Connection?

    init() { network = SystemDatagramNetwork() }
    init(network: any DatagramNetwork) { self.network = network }

    func start(_ configuration: LoginConfiguration, context: ProviderContext) async throws(TunnelError) {
        let connection = try await Connection.open(configuration, over: network, context: context)
        try await context.apply(connection.settings)
        self.connection = connection
    }

    func stop(_ reason: StopReason) async { connection?.close() }
}
