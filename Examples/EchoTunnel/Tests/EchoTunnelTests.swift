// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Testing
import TunnelIO

@testable import echo_tunnel_example

@Suite("The echo tunnel", .timeLimit(.minutes(1)))
struct EchoTunnelTests {
    @Test(
        "The example answers packets and messages and is monitored, over the packet flow and over the descriptor",
        arguments: [false, true])
    func wholeLife(usesDescriptor: Bool) async throws {
        // The app's side: a manager, and the start of a profile.
        let host = MemoryHost<EchoTunnel>()
        let manager = TunnelManager(host)
        let configuration = EchoTunnel.Configuration(
            address: try InterfaceAddress("10.77.0.2/24"), usesDescriptor: usesDescriptor)
        let profile = try TunnelProfile(name: "Echo", provider: "echo", encoding: configuration)
        try await manager.create(profile)
        try await manager.start(profile.id)

        // The system's side: packets in both directions.
        var deliveries = host.platform.deliveries.makeAsyncIterator()
        host.platform.inject(
            try PacketBuilder.icmpEcho(from: "10.77.0.2", to: "10.77.0.1", identifier: 7, sequence: 1))
        let pong = try PacketBuilder.icmpEcho(
            from: "10.77.0.1", to: "10.77.0.2", identifier: 7, sequence: 1, isReply: true)
        #expect(await deliveries.next() == pong)
        host.platform.inject(try PacketBuilder.udp(from: "10.77.0.2:4000", to: "10.77.0.9:7", payload: [1, 2]))
        let echo = try PacketBuilder.udp(from: "10.77.0.9:7", to: "10.77.0.2:4000", payload: [1, 2])
        #expect(await deliveries.next() == echo)

        // A message once, and repeatedly while the tunnel is up.
        let reply = try await manager.send(EchoStatus(), to: profile.id)
        #expect(reply == EchoStatus.Reply(pings: 1, datagrams: 1))
        for await event in TunnelMonitor(manager, profile.id, every: .seconds(1), asking: EchoStatus()) {
            if case .reply(let reply) = event, reply.pings == 1 { break }
        }

        try await manager.stop(profile.id)
        await #expect(throws: MessageError.closed) { try await manager.send(EchoStatus(), to: profile.id) }
    }
}
