// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel

@Suite("A server under load")
struct ServerLoadTests {
    /// Returns the hello of a client that knows the keys, with an ephemeral key from the seed.
    private func hello(_ seed: UInt64) -> [UInt8] {
        var client = CredentialClient(
            CredentialClient.Configuration(
                keys: SharedKeys(server: FixedKeys.privateKey().publicKey, presharedKey: FixedKeys.preshared()),
                login: Body.ClientAuthRequest(login: "kean", password: "123456")), random: SeededGenerator(seed: seed))
        guard case .send(let hello)? = client.start(at: Instant(nanoseconds: 0)).first else { return [] }
        return hello
    }

    private func source(_ number: Int) -> Endpoint {
        Endpoint(address: .v4(UInt32(0x0a00_0000 + number)), port: 1000)
    }

    private var tight: ServerLimits {
        var limits = ServerLimits()
        limits.helloBurst = 1
        limits.hellosPerSecond = 1
        return limits
    }

    @Test("A server under load requires a cookie, and admits a client that sends it")
    func cookie() {
        let world = World(limits: tight)
        world.serverReceives(hello(7), from: source(1))
        world.serverReceives(hello(8), from: source(2))
        world.serverSent = []
        world.start()
        world.run()
        #expect(world.serverSent.first?.bytes.first == PacketCode.cookie.rawValue)
        #expect(world.clientSent.map { $0.bytes.first } == [4, 4, 1])
        #expect(world.clientSaid == [.established(World.assignment)])
        #expect(world.server.statistics.cookies >= 1)
    }

    @Test("A repeated cookie is not reported as a key mismatch")
    func cookieTwice() {
        let world = World(limits: tight)
        world.serverReceives(hello(7), from: source(1))
        world.serverReceives(hello(8), from: source(2))
        world.start()
        world.serverReceives(world.clientSent[0].bytes)
        let cookie = world.serverSent.last?.bytes ?? []
        #expect(world.clientReceives(cookie).count == 1)
        #expect(world.clientReceives(cookie).isEmpty)
        world.up.conditions.loss = 1
        world.up.dropAll()
        world.down.dropAll()
        world.run(for: .seconds(10))
        #expect(world.clientSaid == [.failed(.unreachable(.hello))])
    }

    @Test("A cookie is valid for one address, and for two minutes")
    func cookieBinding() {
        let world = World(limits: tight)
        world.serverReceives(hello(7), from: source(1))
        world.serverReceives(hello(8), from: source(2))
        world.start()
        world.serverReceives(world.clientSent[0].bytes)
        world.clientReceives(world.serverSent.last?.bytes ?? [])
        let withCookie = world.clientSent.last?.bytes ?? []
        #expect(withCookie.suffix(16) != ArraySlice([UInt8](repeating: 0, count: 16)))
        world.serverReceives(withCookie, from: source(3))
        #expect(world.serverSent.last?.bytes.first == PacketCode.cookie.rawValue)
        world.clock.advance(by: .seconds(121))
        world.serverReceives(hello(9), from: source(4))
        world.serverReceives(withCookie)
        #expect(world.serverSent.last?.bytes.first == PacketCode.cookie.rawValue)
    }

    @Test("No response to an unproven address is longer than its request")
    func amplification() throws {
        var generator = SeededGenerator(seed: 4)
        let world = World(limits: tight)
        var longest = 0
        let session = try #require(World.loggedIn().clientSeals([0x45]))
        for round in 0..<400 {
            var datagram =
                switch round % 4 {
                case 0: hello(UInt64(round))
                case 1: session
                case 2: Header(code: .clientHello, index: 1).bytes + generator.bytes(120)
                default: Header(code: .data, index: UInt32(round), counter: 0).bytes + generator.bytes(16)
                }
            let count = datagram.count
            let now = world.now
            let from = source(round)
            let actions = unsafe datagram.withUnsafeMutableBytes {
                unsafe world.server.received($0, from: from, at: now)
            }
            for case .send(let reply, _) in actions {
                longest = max(longest, reply.count)
                #expect(reply.count <= count)
            }
            if round % 50 == 0 { world.clock.advance(by: .seconds(2)) }
        }
        #expect(longest == 64)
    }

    @Test("A login must be from the address that the hello proved, and is answered only there")
    func otherAddress() throws {
        let world = World()
        world.start()
        world.serverReceives(world.clientSent[0].bytes)
        world.clientReceives(try #require(world.serverSent.last?.bytes))
        let login = try #require(world.clientSent.last?.bytes)
        #expect(login.first == PacketCode.clientAuthRequest.rawValue)
        #expect(world.serverReceives(login, from: source(1)).isEmpty, "the password is not checked")
        #expect(
            world.serverReceives(login).contains {
                if case .verify(_, _, let from) = $0 { from == world.address } else { false }
            })
        // A repetition from another address, with a new counter, gets no response.
        world.clock.advance(by: .seconds(1))
        world.perform(world.client.deadlineReached(at: world.now))
        let repeated = try #require(world.clientSent.last?.bytes)
        #expect(repeated.first == PacketCode.clientAuthRequest.rawValue)
        #expect(
            !world.serverReceives(repeated, from: source(2)).contains {
                if case .send(let bytes, _) = $0 {
                    bytes.first == PacketCode.serverAuthResponse.rawValue
                } else {
                    false
                }
            })
    }

    @Test("A flood of strangers uses no memory, and its responses are bounded")
    func strangers() {
        var limits = ServerLimits()
        limits.noticeSources = 4
        let world = World(limits: limits)
        var generator = SeededGenerator(seed: 5)
        for number in 0..<50_000 {
            let junk = Header(code: .clientHello, index: UInt32(number)).bytes + generator.bytes(120)
            world.serverReceives(junk, from: source(number))
        }
        #expect(world.server.tableCounts == (0, 0))
        #expect(world.serverSent.count == 4 * limits.noticeBurst)
        #expect(world.server.statistics.wrongKeys == 50_000)
        #expect(world.server.statistics.cookies == 0)
        // Hellos without the keys do not put the server under load, so a client with the keys needs no cookie.
        world.start()
        world.run()
        #expect(world.clientSent.count == 2)
        #expect(world.clientSaid == [.established(World.assignment)])
    }

    @Test("Handshakes without a login are bounded, replace the oldest, and expire")
    func pending() {
        var limits = ServerLimits()
        limits.pending = 8
        let world = World(limits: limits)
        for number in 0..<100 { world.serverReceives(hello(UInt64(number)), from: source(number)) }
        #expect(world.server.waitingCount == 8)
        #expect(world.server.tableCounts == (8, 8))
        #expect(world.server.statistics.evicted == 92)
        world.start()
        world.run()
        #expect(world.clientSaid == [.established(World.assignment)])
        world.run(for: .seconds(11))
        #expect(world.server.tableCounts == (1, 1))
    }

    @Test("No handshake of a crowd is replaced before the crowd logs in")
    func crowd() {
        var limits = ServerLimits()
        // Each login that waits with a ticket was such a handshake before.
        #expect(limits.pending >= limits.resumptions)
        limits.helloBurst = 10_000
        let world = World(limits: limits)
        let hello = hello(1)
        for number in 0..<1100 { world.serverReceives(hello, from: source(number)) }
        #expect(world.server.waitingCount == 1100 && world.server.statistics.evicted == 0)
    }

    @Test("A repeated hello gets the same response and no second place")
    func repeatedHello() {
        let world = World()
        for _ in 0..<5 { world.serverReceives(hello(1), from: source(1)) }
        #expect(Set(world.serverSent.map(\.bytes)).count == 1)
        #expect(world.serverSent.count == 5)
        #expect(world.server.tableCounts == (1, 1))
    }

    @Test("Under load, the rate of a source with a cookie is limited too")
    func sourceLimit() {
        var limits = tight
        limits.sourceBurst = 2
        limits.sourceHellosPerSecond = 1
        let world = World(limits: limits)
        world.serverReceives(hello(7), from: source(1))
        world.serverReceives(hello(8), from: source(2))
        for seed in 20..<30 {
            var client = CredentialClient(
                CredentialClient.Configuration(
                    keys: SharedKeys(server: FixedKeys.privateKey().publicKey, presharedKey: FixedKeys.preshared()),
                    login: Body.ClientAuthRequest(login: "kean", password: "123456")),
                random: SeededGenerator(seed: UInt64(seed)))
            guard case .send(let hello)? = client.start(at: world.now).first else { return }
            world.serverReceives(hello)
            guard var cookie = world.serverSent.last?.bytes else { return }
            let now = world.now
            let again = unsafe cookie.withUnsafeMutableBytes { unsafe client.received($0, at: now) }
            guard case .send(let withCookie)? = again.first else { continue }
            world.serverReceives(withCookie)
        }
        #expect(world.server.statistics.limited == 8)
    }

    @Test("Logins without a verdict are bounded, and a client without a place tries again")
    func verifications() throws {
        var limits = ServerLimits()
        limits.verifications = 1
        let world = World(limits: limits)
        world.verdict = { _ in nil }
        world.start()
        world.run()
        guard case .verify(let first, _, _)? = world.serverSaid.first else { throw LoginTests.Missing() }
        // A second client of the same server.
        let other = World(seed: 40)
        other.start()
        world.serverReceives(other.clientSent[0].bytes, from: source(1))
        other.clientReceives(world.serverSent.last?.bytes ?? [])
        world.serverReceives(other.clientSent[1].bytes, from: source(1))
        #expect(world.server.statistics.verificationsFull == 1)
        #expect(world.serverSaid.count == 1)
        world.perform(world.answer(first, .accepted(World.assignment)))
        other.clock.advance(by: .seconds(1))
        other.perform(other.client.deadlineReached(at: other.now))
        world.serverReceives(other.clientSent[2].bytes, from: source(1))
        #expect(world.serverSaid.count == 3)
    }

    @Test("A full server refuses a login without requesting a verdict")
    func full() {
        var limits = ServerLimits()
        limits.clients = 1
        let world = World.loggedIn(limits: limits)
        let other = World(seed: 40)
        other.start()
        world.serverReceives(other.clientSent[0].bytes, from: source(1))
        other.clientReceives(world.serverSent.last?.bytes ?? [])
        world.serverReceives(other.clientSent[1].bytes, from: source(1))
        other.clientReceives(world.serverSent.last?.bytes ?? [])
        #expect(other.clientSaid == [.failed(.refused(Body.Refusal(.full)))])
        #expect(world.serverSaid.count == 2)
    }
}
