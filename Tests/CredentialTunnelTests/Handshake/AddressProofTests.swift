// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel

@Suite("The proof of a client's new address")
struct AddressProofTests {
    private static let other = Endpoint(address: .v4(198, 51, 100, 77), port: 9)

    /// The bytes of as many packets of this length as the server may send now.
    private func bytes(_ world: World, packet byteCount: Int) throws -> Int {
        let id = try #require(world.joined)
        let reserved = try #require(world.server.reserve(1000, to: id, at: world.now) { _ in byteCount })
        return reserved.count * (byteCount + Layout.sealedOverhead)
    }

    @Test("A host whose address a stranger writes into a client's datagrams gets at most three times their bytes")
    func victim() throws {
        let world = World.loggedIn()
        world.run(for: .seconds(10))
        var (received, sent) = (0, 0)
        for round in 0..<50 {
            let packet = try #require(world.clientSeals([UInt8](repeating: 0x45, count: 1 + round * 7)))
            received += packet.count
            for case .send(let bytes, let endpoint) in world.serverReceives(packet, from: Self.other) {
                #expect(endpoint == Self.other)
                sent += bytes.count
            }
            sent += try bytes(world, packet: 20)
            #expect(sent <= 3 * received)
            if round % 10 == 0 { world.clock.advance(by: .seconds(2)) }
        }
        #expect(sent > received)
        #expect(world.destination == Self.other)
        #expect(try bytes(world, packet: 1400) == 0)
        // The client's own address was proven before.
        world.serverReceives(try #require(world.clientSeals([0x45])))
        #expect(try bytes(world, packet: 1400) == 1000 * 1432)
    }

    @Test("A client at another address proves it by new keys, without a login")
    func proof() throws {
        let world = World.loggedIn()
        world.run(for: .seconds(10))
        world.address = Self.other
        world.serverReceives(try #require(world.clientSeals([0x45])))
        #expect(try bytes(world, packet: 1400) == 0)
        world.run(for: .milliseconds(10))
        #expect(try bytes(world, packet: 1400) == 1000 * 1432)
        #expect(world.clientSaid == [.established(World.assignment)])
        #expect(world.carries())
    }

    @Test("A client that has just renewed its keys proves another address within two seconds")
    func young() throws {
        let world = World.loggedIn()
        world.address = Self.other
        world.serverReceives(try #require(world.clientSeals([0x45])))
        world.run(for: .seconds(2))
        #expect(try bytes(world, packet: 1400) == 1000 * 1432)
    }

    @Test("Keys that were also sent to an earlier address do not prove another")
    func twoAddresses() throws {
        let world = World.loggedIn()
        world.run(for: .seconds(10))
        world.perform(world.client.renew(at: world.now))
        world.serverReceives(try #require(world.clientSent.last?.bytes))
        world.up.dropAll()
        let response = try #require(world.serverSent.last?.bytes)
        world.down.dropAll()
        world.clientReceives(response)
        // The client has the new keys, and its first packet under them is from another host's address.
        let first = try #require(world.clientSent.last?.bytes)
        #expect(first.first == PacketCode.data.rawValue)
        world.serverReceives(first, from: Self.other)
        #expect(try bytes(world, packet: 1400) == 0)
    }
}
