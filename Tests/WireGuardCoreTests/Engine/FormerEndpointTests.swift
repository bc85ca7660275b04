// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: handshakes at the endpoint of an earlier process")
struct FormerEndpointTests {
    private static let attempts = 3

    /// A gateway, node 1, that has restarted without endpoints, and its client, node 0, that still has a session.
    private func restarted() -> EngineWorld {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(30))
        world.restart(1, seed: 2)
        world[1].engine.setEndpoint(nil, of: world[0].publicKey)
        world.wire.drain()
        return world
    }

    /// Has the gateway start a handshake with the client; returns whether it did.
    private func request(_ world: EngineWorld, at endpoint: Endpoint? = nil) -> Bool {
        let isStarted = world[1].engine.requestHandshake(
            with: world[0].publicKey, atFormer: endpoint ?? world[0].endpoint, attempts: Self.attempts,
            at: world.now(1), wall: world.wall(1))
        world.flush(world[1])
        return isStarted
    }

    @Test("Without a handshake of the gateway, a client's packets are lost for 15 s; with it, for one round trip")
    func outage() throws {
        for isRequested in [false, true] {
            let world = restarted()
            let start = world.clock.nanoseconds
            if isRequested { #expect(request(world)) }
            while world[1].delivered.isEmpty, world.clock.nanoseconds - start < 60 * TimerConstants.second {
                world.send(0, to: 1)
                world.run(for: .milliseconds(50))
            }
            let outage = Duration.nanoseconds(world.clock.nanoseconds - start)
            #expect(isRequested ? outage <= .milliseconds(100) : outage >= .seconds(15), "\(outage)")
            #expect(world.sent(0, .initiation).count == (isRequested ? 0 : 1))
            #expect(world.snapshot(1, of: 0)?.endpoint == world[0].endpoint)
        }
    }

    @Test(
        "An endpoint that does not answer gets three initiations, even if packets for the peer arrive, and is forgotten"
    )
    func silence() {
        for hasTraffic in [false, true] {
            let world = restarted()
            #expect(request(world, at: RoamingTests.elsewhere))
            let start = world.clock.nanoseconds
            for _ in 0..<600 {
                if hasTraffic { world.send(1, to: 0) }
                world.run(for: .milliseconds(100))
            }
            let sent = world.sent(1) { _ in true }
            #expect(sent.map(\.message.kind) == [.initiation, .initiation, .initiation])
            #expect(sent.map { ($0.seconds(since: start) / 5).rounded() } == [0, 1, 2])
            #expect(world.snapshot(1, of: 0)?.endpoint == nil && world[1].engine.queueDepths.packets == 0)
            #expect((world[1].engine.statistics.noEndpoint > 400) == hasTraffic)
            // The client's own handshake works as ever.
            world.send(0, to: 1)
            world.run(for: .seconds(20))
            let packet = world.send(0, to: 1, [9])
            world.run(for: .seconds(1))
            #expect(world[1].delivered.last == packet)
        }
    }

    @Test("Once the peer has answered, its endpoint is like any other")
    func answered() {
        let world = restarted()
        #expect(request(world))
        world.run(for: .seconds(1))
        #expect(world[1].engine.statistics.handshakesCompleted == 1)
        world.wire.drain()
        world.onWire = { $0.source != world[1].endpoint }
        world.send(1, to: 0)
        world.run(for: .seconds(60))
        #expect(world.sent(1, .initiation).count > Self.attempts)
        #expect(world.snapshot(1, of: 0)?.endpoint == world[0].endpoint)
    }

    @Test("A peer that was heard, an unknown peer and a device that is down get no initiation")
    func skipped() {
        let world = EngineWorld()
        world.establish()
        world.wire.drain()
        #expect(!request(world, at: RoamingTests.elsewhere))
        #expect(world.snapshot(1, of: 0)?.endpoint == world[0].endpoint)
        world[1].engine.setEndpoint(nil, of: world[0].publicKey)
        world[1].engine.setUp(false, at: world.now(1), wall: world.wall(1))
        #expect(!request(world) && world.snapshot(1, of: 0)?.endpoint == nil)
        world[1].engine.setUp(true, at: world.now(1), wall: world.wall(1))
        world[1].engine.removePeer(world[0].publicKey)
        #expect(!request(world) && world.wire.count == 0)
    }
}
