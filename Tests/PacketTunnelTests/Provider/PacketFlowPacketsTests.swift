// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import TunnelIO

@testable import PacketTunnel

@Suite("Packets of a flow, one at a time", .timeLimit(.minutes(1)))
struct PacketFlowPacketsTests {
    private static func packet(_ number: Int) -> [UInt8] { PacketFlowTests.packet(number) }

    @Test("They come in order, and the sequence ends with the tunnel")
    func inOrder() async throws {
        let device = try MemoryTun()
        let flow = PacketFlow()
        let reading = Task {
            var seen: [[UInt8]] = []
            for try await packet in flow.packets {
                seen.append(packet)
                if seen.count == 3 { flow.close() }
            }
            return seen
        }
        flow.attach(device)
        for number in 0..<3 { device.inject(Self.packet(number)) }
        #expect(try await reading.value == (0..<3).map(Self.packet))
    }

    @Test("Packets that one iteration leaves are returned by the next")
    func nothingIsLost() async throws {
        let device = try MemoryTun()
        let flow = PacketFlow(device: device)
        for number in 0..<4 { device.inject(Self.packet(number)) }
        var seen: [[UInt8]] = []
        for try await packet in flow.packets {
            seen.append(packet)
            if seen.count % 2 == 0 { break }
        }
        for try await packet in flow.packets {
            seen.append(packet)
            if seen.count == 4 { break }
        }
        #expect(seen == (0..<4).map(Self.packet))
    }

    @Test("The sequence ends when the task is cancelled, and when a data plane takes the interface")
    func otherEnds() async throws {
        let device = try MemoryTun()
        let flow = PacketFlow(device: device)
        let reading = Task {
            for try await _ in flow.packets {}
        }
        reading.cancel()
        try await reading.value
        let waiting = Task {
            for try await _ in flow.packets {}
        }
        let interface = try flow.leaseDevice()
        try await waiting.value
        interface.close()
        device.inject(Self.packet(1))
        for try await packet in flow.packets {
            #expect(packet == Self.packet(1))
            break
        }
    }

    @Test("Writing a packet waits for room")
    func room() async throws {
        let device = try MemoryTun(queueCapacity: 2)
        let flow = PacketFlow(device: device)
        let writing = Task {
            for number in 0..<20 { try await flow.write(Self.packet(number)) }
        }
        var taken: [[UInt8]] = []
        while taken.count < 20 {
            taken += device.takeDelivered()
            await Task.yield()
        }
        try await writing.value
        #expect(taken == (0..<20).map(Self.packet))
    }

    @Test("A packet that can never be written is dropped and counted, and nothing waits for it")
    func drops() async throws {
        let device = try MemoryTun(mtu: 100)
        let flow = PacketFlow(device: device)
        for packet in [
            [], [0x20, 1], [0x45] + [UInt8](repeating: 0, count: 100), [UInt8](repeating: 0x45, count: 1 << 17),
        ] {
            try await flow.write(packet)
        }
        #expect(flow.droppedCount == 4)
        try await flow.write(Self.packet(1))
        #expect(device.takeDelivered() == [Self.packet(1)])
    }

    @Test("Writing without an interface, and after the end, is a typed error")
    func errors() async throws {
        let flow = PacketFlow()
        await #expect { try await flow.write(Self.packet(1)) } throws: {
            ($0 as? TunnelError)?.code == .settingsMissing
        }
        flow.close()
        await #expect { try await flow.write(Self.packet(1)) } throws: { ($0 as? TunnelError)?.code == .closed }
    }
}
