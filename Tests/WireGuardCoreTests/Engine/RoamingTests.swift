// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing

@testable import WireGuardCore

@Suite("Engine: endpoints and roaming")
struct RoamingTests {
    static let elsewhere = Endpoint(address: .v4(0xcb00_7107), port: 4444)
    static let elsewhereV6 = Endpoint(address: .v6(0x2001_0db8_0000_0000, 7), port: 4444)

    @Test("A host that moves is followed with its next datagram", arguments: [elsewhere, elsewhereV6])
    func followsData(to endpoint: Endpoint) {
        let world = EngineWorld()
        world.establish()
        world[0].endpoint = endpoint
        world.send(0, to: 1, [1])
        world.run(for: .seconds(1))
        #expect(world.snapshot(1, of: 0)?.endpoint == endpoint)
        #expect(world[1].engine.statistics.endpointChanges == 1)
        let packet = world.send(1, to: 0, [2])
        world.run(for: .seconds(1))
        #expect(world[0].delivered == [packet])
    }

    @Test("A keepalive is enough")
    func followsKeepalive() {
        let world = EngineWorld()
        world.establish()
        world.run(for: .seconds(15))
        world.send(1, to: 0)
        world.run(for: .seconds(1))
        world[0].endpoint = RoamingTests.elsewhere
        world.run(for: .seconds(10))
        #expect(world.snapshot(1, of: 0)?.endpoint == RoamingTests.elsewhere)
    }

    @Test("Another port at the same address is another endpoint, as behind a NAT that was restarted")
    func followsPort() {
        let world = EngineWorld()
        world.establish()
        world[0].endpoint.port = 1
        world.send(0, to: 1)
        world.run(for: .seconds(1))
        #expect(world.snapshot(1, of: 0)?.endpoint?.port == 1)
    }

    @Test("An initiation moves the initiator, a response the responder")
    func followsHandshake() {
        let world = EngineWorld()
        world[1].engine.setEndpoint(nil, of: world[0].publicKey)
        var configured = world[1].endpoint
        configured.port = 9
        world[0].engine.setEndpoint(configured, of: world[1].publicKey)
        world.onWire = { flight in
            if flight.destination.port == 9 { flight.destination = world[1].endpoint }
            return flight.kind != .data
        }
        world.send(0, to: 1)
        world.run(for: .milliseconds(15))
        #expect(world.snapshot(1, of: 0)?.endpoint == world[0].endpoint)
        world.run(for: .milliseconds(15))
        #expect(world.snapshot(0, of: 1)?.endpoint == world[1].endpoint)
    }

    @Test("A datagram that is not authentic does not move a peer", arguments: 0..<8)
    func forgeryDoesNotMove(bit: Int) {
        let world = EngineWorld()
        world.establish()
        var datagram = world.seal(0, to: 1)
        datagram[datagram.count - 1] ^= 1 << UInt8(bit)
        world.receive(datagram, from: RoamingTests.elsewhere, at: world[1])
        #expect(world.snapshot(1, of: 0)?.endpoint == world[0].endpoint)
        #expect(world[1].engine.statistics.endpointChanges == 0)
        #expect(world[1].engine.statistics.authenticationFailures == 1)
    }

    @Test("A replayed datagram, initiation or response does not move a peer")
    func replayDoesNotMove() {
        let world = EngineWorld()
        world.establish()
        for record in world.wire.records {
            let node = record.message.destination == world[0].endpoint ? world[0] : world[1]
            world.receive(record.message.bytes, from: RoamingTests.elsewhere, at: node)
        }
        #expect(world.snapshot(1, of: 0)?.endpoint == world[0].endpoint)
        #expect(world.snapshot(0, of: 1)?.endpoint == world[1].endpoint)
    }

    @Test("An initiation with a flipped bit does not move a peer")
    func forgedInitiationDoesNotMove() throws {
        let world = EngineWorld()
        world.onWire = { _ in false }
        world.send(0, to: 1)
        var initiation = try #require(world.sent(0, .initiation).first?.message.bytes)
        initiation[100] ^= 4
        let resigned = Forge.resigned(initiation, for: world[1].publicKey)
        world.receive(resigned, from: RoamingTests.elsewhere, at: world[1])
        #expect(world.snapshot(1, of: 0)?.endpoint == world[0].endpoint)
        #expect(world[1].engine.statistics.rejectedHandshakes == 1)
    }

    @Test("In a batch, the last authentic datagram says where the peer is")
    func batch() {
        let world = EngineWorld()
        world.establish()
        var bad = world.seal(0, to: 1, [3])
        bad[30] ^= 1
        let datagrams = [world.seal(0, to: 1, [1]), world.seal(0, to: 1, [2]), bad]
        let batch = TestBatch(datagrams)
        let plan = ReceivePlan(capacity: 4)
        let sources = [world[0].endpoint, RoamingTests.elsewhere, RoamingTests.elsewhereV6]
        unsafe batch.withViews { views in
            unsafe world[1].engine.planOpen(
                views, endpoints: { sources[$0] }, at: world.now(1), wall: world.wall(1), into: plan)
            unsafe plan.open(views)
            unsafe world[1].engine.commit(
                plan, views, endpoints: { sources[$0] }, at: world.now(1), wall: world.wall(1))
        }
        #expect(world.snapshot(1, of: 0)?.endpoint == RoamingTests.elsewhere)
    }

    @Test("The local address of the last datagram is kept with the endpoint, and forgotten on request")
    func source() {
        let world = EngineWorld()
        world.establish()
        var source = world[0].endpoint
        source.source = EndpointSource(interfaceIndex: 7, high: 0, low: 42)
        world.receive(world.seal(0, to: 1), from: source, at: world[1])
        #expect(world.peer(1, of: 0)?.endpoint?.source.low == 42)
        #expect(world[1].engine.statistics.endpointChanges == 0)
        world[1].engine.forgetEndpointSources()
        #expect(world.peer(1, of: 0)?.endpoint?.source == .unspecified)
        #expect(world.snapshot(1, of: 0)?.endpoint == world[0].endpoint)
    }

    @Test("A repeated initiation leaves the choice of the local address to routing")
    func sourceOnRetry() {
        let world = EngineWorld()
        var endpoint = world[1].endpoint
        endpoint.source = EndpointSource(interfaceIndex: 7, high: 0, low: 42)
        world[0].engine.setEndpoint(endpoint, of: world[1].publicKey)
        world.onWire = { _ in false }
        world.send(0, to: 1)
        #expect(world.sent(0, .initiation).last?.message.destination.source.low == 42)
        world.run(for: .seconds(6))
        #expect(world.sent(0, .initiation).count == 2)
        #expect(world.sent(0, .initiation).last?.message.destination.source == .unspecified)
    }

    @Test("Behind a NAT that rebinds every few seconds, traffic continues in both directions", arguments: 0..<5)
    func natRebinding(seed: Int) {
        let world = EngineWorld(seed: UInt64(seed))
        world[0].engine.setPersistentKeepalive(5, of: world[1].publicKey, at: world.now(0), wall: world.wall(0))
        world.run(for: .seconds(1))
        var random = SeededGenerator(seed: UInt64(seed))
        var (there, back) = (0, 0)
        for round in 0..<60 {
            if round % 5 == 0 { world[0].endpoint.port = UInt16(random.int(in: 1024...65535)) }
            world.send(0, to: 1, [UInt8(round)])
            world.run(for: .milliseconds(100))
            world.send(1, to: 0, [UInt8(round)])
            world.run(for: .milliseconds(900))
            there += 1
            back += 1
        }
        #expect(world[1].delivered.count == there)
        #expect(world[0].delivered.count == back)
    }
}
