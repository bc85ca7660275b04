// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CEchoProtocol
import CExtension
import Foundation
import NetworkAddresses
import NetworkExtension
import PacketTunnelTesting
import Testing
import TunnelSystem

@testable import PacketTunnel
@testable import PacketTunnelApple
@testable import TunnelIO

/// The C code has one state for the process, so these tests run one after the other.
@Suite("An extension with a protocol in C", .serialized, .timeLimit(.minutes(5)))
struct CExtensionTests {
    private static let configuration = Result { CTunnel.Configuration(address: try InterfaceAddress("10.77.0.2/24")) }

    private static let pings = Result {
        [
            try PacketBuilder.icmpEcho(
                from: "10.77.0.2", to: "10.77.0.1", identifier: 7, sequence: 1, payload: [1, 2]),
            try PacketBuilder.icmpEcho(from: "fd00::2", to: "fd00::1", identifier: 7, sequence: 2, payload: [3]),
        ]
    }

    private static func request() throws -> TunnelStartRequest {
        TunnelStartRequest(configuration: Array(try JSONEncoder().encode(configuration.get())))
    }

    private static func system(_ adjust: (inout NetworkExtensionOptions) -> Void = { _ in }) -> SystemSide<CTunnel> {
        var options = NetworkExtensionOptions.quiet
        adjust(&options)
        return SystemSide(options) { CTunnel() }
    }

    @Test("The C code answers pings from the packet flow, and again after a restart")
    func packetFlow() async throws {
        let system = Self.system()
        for _ in 0..<2 {
            try await system.start(Self.request())
            for ping in try Self.pings.get() { #expect(await system.passes(ping)) }
            await system.stop(.userInitiated)
        }
        #expect(system.unbalanced.missing == 0)
        #expect(StandInRules.violations.isEmpty)
    }

    @Test("The C code answers pings on the interface's own descriptor, and nothing is read from the packet flow")
    func descriptor() async throws {
        let interface = try TestInterface()
        let system = Self.system { options in
            options.packetAccess = .descriptor
            options.openDescriptor = { _ throws(TunnelIOError) in try interface.open() }
        }
        try await system.start(Self.request())
        for ping in try Self.pings.get() {
            #expect(try await interface.answer(to: ping) == VirtualNetwork().receive(ping))
        }
        await system.stop(.userInitiated)
        #expect(system.tunnel.standIn.flow.standIn.readCount == 0)
    }

    @Test("stop_tun joins the thread of a waiting read, without a packet")
    func stops() async throws {
        let system = Self.system()
        try await system.start(Self.request())
        #expect(await system.passes(try Self.pings.get()[0]))
        #expect(ContinuousClock().measure { stop_tun() } < .seconds(60))
        // No thread reads the descriptor now, and another stop has no effect.
        system.tunnel.standIn.flow.standIn.route([Data(try Self.pings.get()[0])])
        await system.stop(.userInitiated)
        #expect(system.tunnel.standIn.flow.standIn.takeWritten().isEmpty)
        #expect(system.unbalanced.missing == 0)
    }

    @Test("A descriptor that C cannot use ends the start with the provider's error")
    func refused() async throws {
        // The protocol runs already, and there is one in a process.
        let (first, second) = (Self.system(), Self.system())
        try await first.start(Self.request())
        let error = await #expect(throws: TunnelError.self) { try await second.start(Self.request()) }
        #expect(error?.code == .providerFailed)
        #expect(await first.passes(try Self.pings.get()[0]))
        await first.stop(.userInitiated)
        try await second.start(Self.request())
        #expect(await second.passes(try Self.pings.get()[1]))
        await second.stop(.userInitiated)
    }

    @Test("The example's principal class shares profiles with its app and reads the packet flow")
    func options() {
        let options = CTunnelHost().options
        #expect(options.packetAccess == .packetFlow)
        #expect(options.profiles != nil)
    }
}

/// An interface that has a descriptor, in place of the utun socket, and the system's side of it.
private final class TestInterface: Sendable {
    private let relay: DescriptorRelay
    private let system: MemoryTun

    init() throws {
        system = try MemoryTun()
        relay = try DescriptorRelay(system)
    }

    deinit { relay.close() }

    func open() throws(TunnelIOError) -> any TunDevice {
        try SocketTun(borrowing: relay.descriptor.number, mtu: 1420)
    }

    /// Routes a packet into the tunnel and waits for the next packet out of it.
    func answer(to packet: [UInt8]) async throws -> [UInt8]? {
        var deliveries = system.deliveries().makeAsyncIterator()
        system.inject(packet)
        return await deliveries.next()
    }
}
