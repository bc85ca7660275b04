// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Logging
import PacketTunnel
import TunnelIO

/// A tunnel that logs in again if necessary.
actor LastingTunnel: PacketTunnelProvider {
    private let network: any DatagramNetwork
    private var connection: Connection?
    private var work: [Task<Void, any Error>] = []
    /// The number of keepalives since the last datagram of the server.
    private var unanswered = 0

    init() { network = SystemDatagramNetwork() }
    init(network: any DatagramNetwork) { self.network = network }

    func start(_ configuration: LoginConfiguration, context: ProviderContext) async throws(TunnelError) {
        try await logIn(configuration, context)
        work = [
            Task { try await send(from: context.packetFlow) },
            Task { try await carryOn(configuration, context) },
            Task { try await keepAlive(context.clock) },
        ]
    }

    func stop(_ reason: StopReason) async {
        for task in work { task.cancel() }
        connection?.close()
    }

    /// Closes the link, because the address changes on another network. The login is then repeated on a new socket.
    func pathChanged(_ path: NetworkPath) async {
        if path.status == .satisfied { connection?.link.close() }
    }

    func wake() async { connection?.link.close() }

    private func logIn(_ configuration: LoginConfiguration, _ context: ProviderContext) async throws(TunnelError) {
        let connection = try await Connection.open(configuration, over: network, context: context)
        try await context.apply(connection.settings)
        self.connection = connection
        unanswered = 0
    }

    /// Delivers packets. When the link ends, repeats the login without a time limit.
    private func carryOn(_ configuration: LoginConfiguration, _ context: ProviderContext) async throws {
        while let link = connection?.link {
            try await deliver(from: link, to: context.packetFlow)
            context.setReasserting(true)
            var pause = Duration.seconds(1)
            while connection?.link === link {
                try Task.checkCancellation()
                do throws(TunnelError) {
                    try await logIn(configuration, context)
                } catch {
                    context.logger.warning("\(error)")
                    // Stop: another login with the same password would fail too.
                    if error.code == .authenticationFailed { return context.cancel(error) }
                    try await context.clock.sleep(for: pause)
                    pause = min(pause * 2, .seconds(30))
                }
            }
            context.setReasserting(false)
        }
    }

    /// Sends a keepalive every ten seconds, and ends the link after three without a response.
    private func keepAlive(_ clock: any Clock<Duration>) async throws {
        while true {
            try await clock.sleep(for: .seconds(10))
            if unanswered < 3 { connection?.send(.data, []) } else { connection?.link.close() }
            unanswered += 1
        }
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
            guard let (code, body) = connection?.session.open(datagram) else { continue }
            unanswered = 0
            if code == .disconnect { link.close() }
            guard code == .data, !body.isEmpty else { continue }
            packets.removeAll()
            packets.append(copying: body)
            try flow.write(packets)
        }
    }
}
