// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel

@Suite("The loss of a session")
struct LostSessionTests {
    private func source(_ number: Int) -> Endpoint {
        Endpoint(address: .v4(UInt32(0x0a00_0000 + number)), port: 1000)
    }

    private func stray(_ index: Int) -> [UInt8] {
        Header(code: .data, index: UInt32(index), counter: 0).bytes + [UInt8](repeating: 1, count: 16)
    }

    @Test("Clients are notified of a lost session while another source sends more than its share")
    func share() {
        let world = World()
        for _ in 0..<10 {
            for index in 0..<30 {
                world.serverReceives(stray(index), from: source(999))
                world.clock.advance(by: .milliseconds(33))
            }
            // Two sources may share a bucket.
            let notified = (0..<8).count { !world.serverReceives(stray($0), from: source($0)).isEmpty }
            #expect(notified >= 7)
        }
    }

    @Test("A client without an answer for 15 s asks the server, and reports a lost session 2 s later")
    func silence() throws {
        let world = World.loggedIn()
        world.run(for: .seconds(30))
        world.up.conditions.loss = 1
        _ = try #require(world.clientSeals([0x45]))
        let start = world.clock.nanoseconds
        world.run(for: .milliseconds(16_999))
        #expect(world.clientSaid.count == 1)
        world.run(for: .milliseconds(1))
        #expect(world.clientSaid.dropFirst() == [.mayBeUnknown])
        let sent = world.clientSent.filter { $0.at >= start }.prefix(2)
        #expect(sent.map { ($0.at - start) / 1_000_000_000 } == [10, 15])
        #expect(sent.map { $0.bytes.first } == [PacketCode.data.rawValue, PacketCode.rekeyRequest.rawValue])
        // The question is repeated as long as the session lasts.
        world.run(for: .seconds(60))
        #expect(world.clientSaid.count(where: { $0 == .mayBeUnknown }) >= 3)
        // With a server that answers again, the session continues.
        world.up.conditions.loss = 0
        world.run(for: .seconds(20))
        #expect(world.carries())
    }

    @Test("A server that restarts between its hello and the login costs one more handshake; so do forged notices")
    func restartDuringLogin() throws {
        let world = World()
        world.start()
        let hello = try #require(world.clientSent.first)
        world.serverReceives(hello.bytes)
        // The first server's hello arrives, but its successor gets the login.
        world.server = CredentialServer(
            privateKey: FixedKeys.privateKey(), presharedKey: FixedKeys.preshared(), limits: ServerLimits(),
            random: SeededGenerator(seed: 7))
        world.run(for: .milliseconds(500))
        #expect(world.clientSaid == [.established(World.assignment)])

        let other = World()
        other.verdict = { _ in nil }
        other.start()
        other.run(for: .milliseconds(100))
        for _ in 0..<3 {
            let login = try #require(
                other.clientSent.last { $0.bytes.first == PacketCode.clientAuthRequest.rawValue }
            ).bytes
            other.clientReceives(forged(.unknownSession, about: login))
            other.run(for: .milliseconds(100))
        }
        #expect(other.clientSent.count { $0.bytes.first == PacketCode.clientHello.rawValue } == 2)
    }

    /// A notice by an attacker that has seen the client's datagram.
    private func forged(_ notice: Notice, about datagram: [UInt8]) -> [UInt8] {
        var bytes = notice.datagram(index: 0)
        bytes.replaceSubrange(4..<8, with: datagram[4..<8])
        return bytes
    }

    @Test("A login whose repeated handshake gets no response reports an unreachable server, not a wrong key")
    func noResponseAfterRepetition() throws {
        let world = World()
        world.verdict = { _ in nil }
        world.start()
        world.clientReceives(forged(.keyMismatch, about: try #require(world.clientSent.first).bytes))
        world.run(for: .milliseconds(100))
        let login = try #require(world.clientSent.last).bytes
        #expect(login.first == PacketCode.clientAuthRequest.rawValue)
        world.up.conditions.loss = 1
        world.clientReceives(forged(.unknownSession, about: login))
        world.run(for: .seconds(20))
        #expect(world.clientSaid == [.failed(.unreachable(.hello))])
    }

    @Test("A server answers empty packets, so that packets in one direction cause no renewal and no doubt")
    func oneWay() throws {
        let world = World.loggedIn()
        for _ in 0..<100 {
            world.serverReceives(try #require(world.clientSeals([0x45])))
            world.run(for: .seconds(1))
        }
        #expect(world.clientSent.allSatisfy { $0.bytes.first != PacketCode.rekeyRequest.rawValue })
        #expect(world.clientSaid.count == 1)
        #expect((8...10).contains(world.clientSent.count { $0.bytes.count == 32 }))
    }

    @Test("Empty packets are answered once a second")
    func emptyPackets() throws {
        let world = World.loggedIn()
        let before = world.serverSent.count
        for _ in 0..<50 { world.serverReceives(try #require(world.clientSeals([]))) }
        #expect(world.serverSent.count == before + 1)
        world.clock.advance(by: .seconds(1))
        world.serverReceives(try #require(world.clientSeals([])))
        #expect(world.serverSent.count == before + 2)
    }
}
