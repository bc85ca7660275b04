// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: the budget of packets that wait")
struct StagingBudgetTests {
    @Test("Peers that never answer take the whole budget, and another peer still gets its session")
    func exhausted() {
        var limits = EngineLimits()
        limits.stagedBytes = 4_000
        let world = EngineWorld(limits: limits)
        var random = SeededGenerator(seed: 8)
        let dead = ManyPeersTests.add(20, to: world[0], using: &random)
        for number in 0..<dead.count {
            let target = 0x0b00_0000 + UInt32(number)
            world.send(
                TestPacket.v4(from: world[0].innerV4, to: target, payload: [UInt8](repeating: 0, count: 280)), from: 0)
        }
        let staged = world[0].engine.stagedBytes
        #expect(staged > 4_000 - 300)
        // A handshake is started even with dead peers whose packets were refused.
        #expect(world.sent(0, .initiation).count == dead.count)

        world.send(0, to: 1, [UInt8](repeating: 1, count: 280))
        #expect(world[0].engine.stagedBytes == staged)
        world.run(for: .seconds(1))
        #expect(world.snapshot(0, of: 1)?.hasSession == true)
        let packet = world.send(0, to: 1, [UInt8](repeating: 2, count: 280))
        world.run(for: .seconds(1))
        #expect(world[1].delivered == [packet])
        // Packets that were never sent are returned to the budget at the end.
        world.run(for: .seconds(200))
        #expect(world[0].engine.stagedBytes == 0)
    }

    @Test("A refused packet does not affect waiting packets of its peer")
    func refused() {
        var limits = EngineLimits()
        limits.stagedBytes = 500
        let world = EngineWorld(limits: limits)
        let packet = world.send(0, to: 1, [UInt8](repeating: 1, count: 280))
        world.send(0, to: 1, [UInt8](repeating: 2, count: 280))
        #expect(world[0].engine.statistics.stagedDropped == 1)
        #expect(world.peer(0, of: 1)?.staged == [packet])
        world.run(for: .seconds(1))
        #expect(world[1].delivered == [packet])
    }
}
