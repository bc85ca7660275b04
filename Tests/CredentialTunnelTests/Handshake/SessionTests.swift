// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel

@Suite("Accepted and refused packets of a session")
struct SessionTests {
    private static let other = Endpoint(address: .v4(198, 51, 100, 9), port: 9)

    @Test("A packet is accepted once, in either direction")
    func replay() throws {
        let world = World.loggedIn()
        let there = try #require(world.clientSeals([0x45, 1]))
        let back = try #require(world.serverSeals([0x45, 2]))
        for _ in 0..<3 {
            world.serverReceives(there)
            world.clientReceives(back)
        }
        #expect(world.toServer == [[0x45, 1]])
        #expect(world.toClient == [[0x45, 2]])
        #expect(world.server.statistics.replayed == 2)
    }

    @Test("A replayed login from any address is refused without requesting a verdict")
    func replayedLogin() {
        let world = World.loggedIn()
        let before = world.serverSaid.count
        let recorded = world.clientSent.map(\.bytes)
        for source in [World.address, Self.other] {
            for datagram in recorded { world.serverReceives(datagram, from: source) }
        }
        #expect(world.serverSaid.count == before)
        #expect(world.server.establishedCount == 1)
        #expect(world.carries())
        for datagram in world.serverSent.map(\.bytes) { #expect(world.clientReceives(datagram).isEmpty) }
        // The resources of the replayed hello are released.
        world.run(for: .seconds(11))
        #expect(world.server.tableCounts == (1, 1))
    }

    @Test("A packet that is reflected to its sender is refused")
    func reflection() throws {
        let world = World.loggedIn()
        let there = try #require(world.clientSeals([0x45, 1]))
        let back = try #require(world.serverSeals([0x45, 2]))
        world.clientReceives(there)
        world.serverReceives(back)
        // The packets are refused even if their index matches.
        var (there2, back2) = (there, back)
        there2.replaceSubrange(4..<8, with: back[4..<8])
        back2.replaceSubrange(4..<8, with: there[4..<8])
        world.clientReceives(there2)
        world.serverReceives(back2)
        #expect(world.toServer.isEmpty && world.toClient.isEmpty)
        for datagram in world.clientSent.map(\.bytes) { #expect(world.clientReceives(datagram).isEmpty) }
        for datagram in world.serverSent.map(\.bytes) {
            let actions = world.serverReceives(datagram)
            let isSilent = actions.allSatisfy { if case .send = $0 { true } else { false } }
            #expect(isSilent)
        }
        #expect(world.carries())
    }

    @Test("Reordered packets are accepted within the window")
    func reordering() throws {
        let world = World.loggedIn()
        let packets = try (0..<100).map { try #require(world.clientSeals([0x45, UInt8($0)])) }
        for packet in packets.reversed() { world.serverReceives(packet) }
        #expect(world.toServer.map { $0[1] } == (0..<100).reversed().map { UInt8($0) })
        let old = try #require(world.clientSeals([0x45]))
        _ = world.client.reserve(Int(ReplayWindow.size), at: world.now)
        world.serverReceives(try #require(world.clientSeals([0x46])))
        world.serverReceives(old)
        #expect(world.toServer.suffix(1) == [[0x46]])
    }

    @Test("A packet of one session is refused by another, even with a matching index")
    func crossSession() throws {
        let one = World.loggedIn(seed: 1)
        let two = World.loggedIn(seed: 2)
        var packet = try #require(one.clientSeals([0x45]))
        two.serverReceives(packet)
        packet.replaceSubrange(4..<8, with: try #require(two.clientSeals([0x45]))[4..<8])
        two.serverReceives(packet)
        #expect(two.toServer.isEmpty)
        #expect(two.server.statistics.unknownSessions + two.server.statistics.forged == 2)
    }

    @Test("A packet with a changed type is refused, for all types")
    func typeSwap() throws {
        let bodies: [(PacketCode, Int)] = [
            (.clientAuthRequest, 300), (.data, 300), (.rekeyRequest, 52), (.disconnect, 1), (.data, 52), (.data, 1),
        ]
        for (code, count) in bodies {
            for swapped in PacketCode.allCases where swapped != code {
                let world = World.loggedIn()
                world.serverSaid = []
                let index = try MessageDecoder.header(of: world.clientSent[0].bytes).index
                let session = try #require(world.clientSession(index))
                var datagram = try #require(session.seal(code, [UInt8](repeating: 0, count: count)))
                datagram[0] = swapped.rawValue
                world.serverReceives(datagram)
                #expect(world.serverSaid.isEmpty && world.toServer.isEmpty, "\(code) as \(swapped)")
                #expect(world.server.tableCounts == (1, 1))
            }
        }
    }

    @Test("A datagram with any one bit changed is refused")
    func everyBit() throws {
        let world = World.loggedIn()
        let packet = try #require(world.clientSeals([0x45, 1, 2, 3]))
        for index in packet.indices {
            for bit in 0..<8 {
                var changed = packet
                changed[index] ^= 1 << bit
                world.serverReceives(changed)
            }
        }
        #expect(world.toServer.isEmpty)
        world.serverReceives(packet)
        #expect(world.toServer == [[0x45, 1, 2, 3]])
    }

    @Test("A client or server hello with any one bit changed creates no session")
    func everyBitOfHellos() {
        let world = World()
        world.start()
        let hello = world.clientSent[0].bytes
        world.up.dropAll()
        // The last 16 bytes are mac2, which is only checked under load.
        for index in 0..<Layout.ClientHello.mac2 {
            for bit in 0..<8 {
                var changed = hello
                changed[index] ^= 1 << bit
                world.serverReceives(changed)
            }
        }
        #expect(world.server.tableCounts == (0, 0))
        world.serverReceives(hello)
        world.down.dropAll()
        let answer = world.serverSent.last?.bytes ?? []
        for index in answer.indices {
            for bit in 0..<8 {
                var changed = answer
                changed[index] ^= 1 << bit
                #expect(world.clientReceives(changed).isEmpty)
            }
        }
        #expect(!world.clientReceives(answer).isEmpty)
    }

    @Test("Each datagram of a login with missing or additional bytes is refused")
    func everyLength() {
        let recorded = World.loggedIn()
        let world = World()
        for datagram in (recorded.clientSent + recorded.serverSent).map(\.bytes) {
            for count in 0..<datagram.count {
                world.serverReceives(Array(datagram.prefix(count)))
                world.clientReceives(Array(datagram.prefix(count)))
            }
            world.serverReceives(datagram + [0])
            world.clientReceives(datagram + [0])
        }
        #expect(world.server.tableCounts == (0, 0))
        #expect(world.serverSaid.isEmpty && world.clientSaid.isEmpty)
    }

    @Test("Data before an accepted login is dropped, on both sides")
    func dataBeforeLogin() throws {
        let world = World()
        world.verdict = { _ in nil }
        world.start()
        world.run()
        let index = try MessageDecoder.header(of: world.clientSent[1].bytes).index
        let server = try #require(world.serverSession(index))
        let client = try #require(world.clientSession(server.keys.remoteIndex))
        world.serverReceives(try #require(client.seal(.data, [0x45])))
        world.serverReceives(try #require(client.seal(.rekeyRequest, [UInt8](repeating: 0, count: 52))))
        world.serverReceives(try #require(client.seal(.disconnect, [0])))
        world.clientReceives(try #require(server.seal(.data, [0x45])))
        world.clientReceives(try #require(server.seal(.disconnect, [0])))
        #expect(world.toServer.isEmpty && world.toClient.isEmpty && world.clientSaid.isEmpty)
        #expect(world.server.statistics.outOfPlace == 3)
        #expect(world.clientSeals([0x45]) == nil)
    }

    @Test("An empty packet is accepted as a keepalive, and not delivered")
    func keepalive() throws {
        let world = World()
        var assignment = World.assignment
        assignment.keepalive = 25
        world.verdict = { _ in .accepted(assignment) }
        world.start()
        world.run(for: .seconds(60))
        let empty = world.clientSent.dropFirst(2)
        #expect(empty.map(\.bytes.count) == [32, 32])
        #expect(world.toServer.isEmpty)
        #expect(world.server.statistics == ServerStatistics())
    }

    @Test("Only authentic packets change the client's address")
    func roaming() throws {
        let world = World.loggedIn()
        let id = try #require(world.joined)
        world.address = Self.other
        let packet = try #require(world.clientSeals([0x45, 1]))
        var forged = packet
        forged[20] ^= 1
        world.serverReceives(forged)
        #expect(world.destination == World.address)
        world.serverReceives(packet)
        #expect(world.serverSaid.last == .moved(id, to: Self.other))
        #expect(world.destination == Self.other)
        // The same packet again, from an attacker's address.
        world.serverReceives(packet, from: World.address)
        #expect(world.destination == Self.other)
    }

    @Test("Either side can end a session, and notifies the other")
    func disconnect() throws {
        let world = World.loggedIn()
        let id = try #require(world.joined)
        world.perform(world.client.close())
        world.run()
        #expect(world.serverSaid.last == .left(id, .closed))
        #expect(world.server.tableCounts == (0, 0))

        let other = World.loggedIn()
        let joined = try #require(other.joined)
        other.perform(other.server.disconnect(joined, .shutdown))
        other.run()
        #expect(other.clientSaid.last == .ended(.shutdown))
        #expect(other.client.nextDeadline == nil)
        #expect(other.clientSeals([0x45]) == nil)
    }

    @Test("A notice of a lost session is sent, and a forged one does not end a session")
    func restart() throws {
        let world = World.loggedIn()
        let packet = try #require(world.clientSeals([0x45]))
        let fresh = World(seed: 5)
        fresh.serverReceives(packet)
        let notice = try #require(fresh.serverSent.last?.bytes)
        #expect(notice.count == 16)
        // The client first renews the keys, and the server's response proves that the session exists.
        for _ in 0..<3 { world.clientReceives(notice) }
        world.run(for: .seconds(20))
        #expect(world.clientSaid == [.established(World.assignment)])
        #expect(world.carries())
        // If no response arrives, the client concludes that the server has lost the session.
        fresh.serverReceives(try #require(world.clientSeals([0x45])))
        world.clientReceives(try #require(fresh.serverSent.last?.bytes))
        world.clock.advance(by: .milliseconds(1999))
        world.perform(world.client.deadlineReached(at: world.now))
        #expect(world.clientSaid.count == 1)
        world.clock.advance(by: .milliseconds(1))
        world.perform(world.client.deadlineReached(at: world.now))
        #expect(world.clientSaid == [.established(World.assignment), .mayBeUnknown])
    }

    @Test("Sealing and opening in place equals single messages, and retains no allocation")
    func inPlace() throws {
        let world = World.loggedIn()
        let index = try MessageDecoder.header(of: world.clientSent[0].bytes).index
        let session = try #require(world.clientSession(index))
        let (first, count) = session.reserve(3)
        #expect(count == 3)
        for counter in first..<first + 3 {
            let header = Header(code: .data, index: 0, counter: counter)
            var buffer = [UInt8](repeating: 0xcc, count: 16) + [0x45, 1, 2] + [UInt8](repeating: 0xcc, count: 16)
            unsafe buffer.withUnsafeMutableBytes {
                unsafe MessageEncoder.sealInPlace(
                    header, byteCount: 3, at: $0.baseAddress.unsafelyUnwrapped, keys: session.keys)
            }
            #expect(buffer == MessageEncoder.seal(header, [0x45, 1, 2], keys: session.keys))
            world.serverReceives(buffer)
        }
        #expect(world.toServer == [[0x45, 1, 2], [0x45, 1, 2], [0x45, 1, 2]])
    }
}
