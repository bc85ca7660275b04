// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import NetworkExtension
import PacketTunnelTesting
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import TunnelIO
@testable import echo_tunnel_example

/// The tests of Examples/EchoTunnel, on the extension host.
@Suite("The echo tunnel in an extension", .timeLimit(.minutes(5)))
struct EchoTunnelHostTests {
    @Test(
        "The example answers packets and messages and is monitored, over the packet flow and over the device",
        arguments: [false, true])
    func wholeLife(usesDescriptor: Bool) async throws {
        let system = SystemSide(NetworkExtensionOptions.quiet) { EchoTunnel() }
        try await check(
            system, usesDescriptor: usesDescriptor,
            route: { packet in system.tunnel.standIn.flow.standIn.route([Data(packet)]) },
            written: { system.tunnel.standIn.flow.standIn.takeWritten().map { Array($0) } })
        #expect(system.unbalanced.missing == 0 && system.unbalanced.repeated.isEmpty)
        #expect(StandInRules.violations.isEmpty)
    }

    @Test("On the interface's descriptor, the example answers and reads nothing from the packet flow")
    func descriptor() async throws {
        let device = try MemoryTun()
        var options = NetworkExtensionOptions.quiet
        options.packetAccess = .descriptor
        options.openDescriptor = { _ throws(TunnelIOError) in device }
        let system = SystemSide(options) { EchoTunnel() }
        device.setQueueHandler { system.changes.notify() }
        try await check(
            system, usesDescriptor: true, route: { device.inject($0) }, written: { device.takeDelivered() })
        #expect(system.tunnel.standIn.flow.standIn.readCount == 0)
    }

    private func check(
        _ system: SystemSide<EchoTunnel>, usesDescriptor: Bool, route: ([UInt8]) -> Void, written: () -> [[UInt8]]
    ) async throws {
        let manager = TunnelManager(system)
        let configuration = EchoTunnel.Configuration(
            address: try InterfaceAddress("10.77.0.2/24"), usesDescriptor: usesDescriptor)
        let profile = try TunnelProfile(name: "Echo", provider: "echo", encoding: configuration)
        try await manager.create(profile)
        try await manager.start(profile.id)

        // Each packet once: the host loses none.
        let ping = try PacketBuilder.icmpEcho(from: "10.77.0.2", to: "10.77.0.1", identifier: 7, sequence: 1)
        let datagram = try PacketBuilder.udp(from: "10.77.0.2:4000", to: "10.77.0.9:7", payload: [1, 2])
        for (packet, answer) in [
            (
                ping,
                try PacketBuilder.icmpEcho(
                    from: "10.77.0.1", to: "10.77.0.2", identifier: 7, sequence: 1, isReply: true)
            ), (datagram, try PacketBuilder.udp(from: "10.77.0.9:7", to: "10.77.0.2:4000", payload: [1, 2])),
        ] {
            route(packet)
            #expect(await system.changes.wait { written().contains(answer) })
        }

        let reply = try await manager.send(EchoStatus(), to: profile.id)
        #expect(reply == EchoStatus.Reply(pings: 1, datagrams: 1))
        for await event in TunnelMonitor(manager, profile.id, every: .seconds(1), asking: EchoStatus()) {
            if case .reply(let reply) = event, reply.pings == 1 { break }
        }

        try await manager.stop(profile.id)
        await #expect(throws: MessageError.closed) { try await manager.send(EchoStatus(), to: profile.id) }
        #expect(system.tunnel.standIn.settings == nil)
    }
}
