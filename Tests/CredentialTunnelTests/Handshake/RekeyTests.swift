// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel

@Suite("Renewing a session")
struct RekeyTests {
    @Test("A session is renewed every 120 seconds, without the password or an interruption")
    func byTime() {
        let world = World.loggedIn()
        for _ in 0..<60 {
            world.run(for: .seconds(10))
            #expect(world.carries())
        }
        let rekeys = world.clientSent.filter { $0.bytes.first == PacketCode.rekeyRequest.rawValue }
        #expect(rekeys.count == 5)
        #expect(world.clientSent.count { $0.bytes.first == PacketCode.clientAuthRequest.rawValue } == 1)
        #expect(world.serverSaid.count == 2)
        #expect(world.server.tableCounts.sessions <= 2)
    }

    @Test("A session is renewed after its maximum number of packets in either direction")
    func byCount() throws {
        var timing = SessionTiming()
        timing.rekeyAfterMessages = 10
        for isUp in [true, false] {
            let world = World.loggedIn(timing: timing)
            world.run(for: .seconds(10))
            for _ in 0..<10 {
                if isUp {
                    world.serverReceives(try #require(world.clientSeals([0x45])))
                } else {
                    world.clientReceives(try #require(world.serverSeals([0x45])))
                }
            }
            world.run()
            #expect(world.clientSent.contains { $0.bytes.first == PacketCode.rekeyRequest.rawValue }, "\(isUp)")
            #expect(world.carries())
        }
    }

    @Test("A renewal changes the keys, and the old keys remain valid for the grace time")
    func grace() throws {
        let world = World.loggedIn()
        let (up, down) = (try #require(world.clientSeals([0x45, 1])), try #require(world.serverSeals([0x45, 2])))
        let late = (try #require(world.clientSeals([0x45, 3])), try #require(world.serverSeals([0x45, 4])))
        world.run(for: .seconds(121))
        #expect(try #require(world.clientSeals([0x45]))[4..<8] != up[4..<8])
        world.serverReceives(up)
        world.clientReceives(down)
        #expect(world.toServer == [[0x45, 1]])
        #expect(world.toClient == [[0x45, 2]])
        world.run(for: .seconds(10))
        world.serverReceives(late.0)
        world.clientReceives(late.1)
        #expect(world.toServer.count == 1 && world.toClient.count == 1)
        #expect(world.server.tableCounts.sessions == 1)
    }

    @Test("A lost renewal is repeated until the session expires")
    func lost() throws {
        let world = World.loggedIn()
        let start = world.clock.nanoseconds
        world.up.conditions.loss = 1
        world.run(for: .seconds(300))
        let requests = world.clientSent.filter { $0.bytes.first == PacketCode.rekeyRequest.rawValue }
        #expect(
            requests.prefix(6).map { Double($0.at - start) / 1e9 } == [120, 120.5, 121.5, 123.5, 127.5, 131.5])
        #expect(requests.last.map { $0.at - start < 180_000_000_000 } == true)
        #expect(world.clientSaid.last == .ended(.expired))
        #expect(world.serverSaid.last == .left(try #require(world.joined), .expired))
        #expect(world.server.tableCounts == (0, 0))
    }

    @Test("A renewal succeeds if any one datagram is lost")
    func oneLost() {
        for victim in 0..<4 {
            let world = World.loggedIn()
            world.run(for: .seconds(119))
            // These are the request, the response, the confirmation and its response.
            let before = (world.clientSent.count, world.serverSent.count)
            var (up, down) = (0, 0)
            world.clock.advance(by: .seconds(1))
            world.perform(world.client.deadlineReached(at: world.now))
            while world.clientSent.count > before.0 + up || world.serverSent.count > before.1 + down {
                if world.clientSent.count > before.0 + up {
                    let datagram = world.clientSent[before.0 + up].bytes
                    up += 1
                    if victim != (up - 1) * 2 { world.serverReceives(datagram) }
                } else {
                    let datagram = world.serverSent[before.1 + down].bytes
                    down += 1
                    if victim != (down - 1) * 2 + 1 { world.clientReceives(datagram) }
                }
            }
            world.up.dropAll()
            world.down.dropAll()
            #expect(world.carries(), "right after loss \(victim)")
            world.run(for: .seconds(30))
            #expect(world.carries(), "after loss \(victim)")
            #expect(world.server.tableCounts.sessions == 1, "after loss \(victim)")
            #expect(world.client.confirmation == nil)
        }
    }

    @Test("A repeated request gets the same keys, and a replayed one no response")
    func repeated() throws {
        let world = World.loggedIn()
        world.run(for: .seconds(120) - .nanoseconds(1))
        world.clock.advance(by: .nanoseconds(1))
        world.perform(world.client.deadlineReached(at: world.now))
        let request = try #require(world.clientSent.last?.bytes)
        world.up.dropAll()
        world.serverReceives(request)
        world.down.dropAll()
        let answers = world.serverSent.count
        world.serverReceives(request)
        #expect(world.serverSent.count == answers)
        world.run(for: .seconds(1))
        #expect(world.carries())
        // After this time, the session of the request was removed.
        world.run(for: .seconds(20))
        let sessions = world.server.tableCounts.sessions
        world.serverReceives(request)
        #expect(world.server.tableCounts.sessions == sessions)
    }

    @Test("Renewal requests before the minimum gap are not processed")
    func tooMany() throws {
        let world = World.loggedIn()
        let index = try MessageDecoder.header(of: world.clientSent[0].bytes).index
        let session = try #require(world.clientSession(index))
        var generator = SeededGenerator(seed: 3)
        for _ in 0..<100 {
            world.serverReceives(try #require(session.seal(.rekeyRequest, generator.bytes(52))))
        }
        #expect(world.server.statistics.limited == 100)
        #expect(world.server.tableCounts.sessions == 1)
        // After the minimum time between rekeys, each request is processed, and is found invalid.
        world.run(for: .seconds(6))
        world.serverReceives(try #require(session.seal(.rekeyRequest, generator.bytes(52))))
        #expect(world.server.tableCounts.sessions == 1)
        #expect(world.carries())
    }

    @Test("A renewal requires the session's secret in addition to the static and the pre-shared key")
    func chained() throws {
        let one = World.loggedIn(seed: 1)
        let two = World.loggedIn(seed: 2)
        let index1 = try MessageDecoder.header(of: one.clientSent[0].bytes).index
        let index2 = try MessageDecoder.header(of: two.clientSent[0].bytes).index
        let (a, b) = (try #require(one.clientSession(index1)), try #require(two.clientSession(index2)))
        let shared = SharedKeys(server: FixedKeys.privateKey().publicKey, presharedKey: FixedKeys.preshared())
        #expect(a.rekeyKey(shared) != b.rekeyKey(shared))
        let server = try #require(one.serverSession(a.keys.remoteIndex))
        #expect(server.rekeyKey(shared) == a.rekeyKey(shared))
    }
}
