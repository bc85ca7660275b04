// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel

@Suite("A login tunnel over bad links")
struct LossyLinkTests {
    static let conditions = LinkConditions(
        loss: 0.2, duplication: 0.2, corruption: 0.05, delay: .milliseconds(5)...(.milliseconds(400)))

    @Test(
        "With loss, copies, damage and reordering, a login succeeds or fails with a matching error", arguments: 1...60)
    func login(seed: UInt64) {
        let world = World(Self.conditions, seed: seed)
        world.start()
        world.run(for: .seconds(12))
        switch world.clientSaid {
        case [.established(World.assignment)]: #expect(world.server.establishedCount == 1)
        case [.failed(.unreachable(.hello))], [.failed(.unreachable(.login))], [.failed(.keyMismatch)]: break
        default: Issue.record("seed \(seed): \(world.clientSaid)")
        }
        #expect(world.server.tableCounts.clients <= 1)
    }

    @Test("Most logins over bad links succeed")
    func most() {
        let good = (1...60).count { seed in
            let world = World(Self.conditions, seed: UInt64(seed))
            world.start()
            world.run(for: .seconds(12))
            return world.client.isEstablished
        }
        #expect(good >= 50)
    }

    @Test("A session over bad links is renewed for an hour, and delivers each packet at most once", arguments: 1...8)
    func hour(seed: UInt64) throws {
        let world = World(seed: seed)
        world.start()
        world.run()
        world.up.conditions = Self.conditions
        world.down.conditions = Self.conditions
        for round in 0..<360 {
            let number = [UInt8(round / 256), UInt8(round % 256)]
            world.up.send(try #require(world.clientSeals([0x45] + number)), at: world.clock.nanoseconds)
            if let packet = world.serverSeals([0x46] + number) { world.down.send(packet, at: world.clock.nanoseconds) }
            world.run(for: .seconds(10))
        }
        // Doubts are settled within the session.
        #expect(world.clientSaid.filter { $0 != .mayBeUnknown }.count == 1)
        #expect(Set(world.toServer).count == world.toServer.count)
        #expect(Set(world.toClient).count == world.toClient.count)
        // About four of five packets arrive undamaged, whatever the keys.
        #expect(
            world.toServer.count > 230 && world.toClient.count > 230, "\(world.toServer.count), \(world.toClient.count)"
        )
        #expect(world.clientSent.count { $0.bytes.first == PacketCode.rekeyRequest.rawValue } >= 29)
    }
}
