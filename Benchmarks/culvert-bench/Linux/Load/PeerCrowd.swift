// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import NetworkAddresses
import PacketTunnelTesting
import TunnelIO
import WireGuardCore

/// Many peers of one daemon: engines of one process over one socket, each with its own address.
final class PeerCrowd {
    /// One peer.
    final class Member {
        var engine: Engine
        /// Its own clock, which jumps so that nothing waits.
        var now = Instant(nanoseconds: 3_600_000_000_000)
        var wall = WallTime(seconds: 1_700_000_000)
        /// The real time at which its initiation was sent, or `nil` while it waits for no response.
        var askedAt: Int?
        let greeting: [UInt8]

        init(engine: consuming Engine, greeting: [UInt8]) {
            self.engine = engine
            self.greeting = greeting
        }

        func advance(seconds: Int) {
            now = now + .seconds(seconds)
            wall.seconds += Int64(seconds)
        }
    }

    /// The first address outside and inside the tunnel; both networks have 16 bits.
    static let outsideNetwork: UInt32 = 0x0a42_0001
    static let insideNetwork: UInt32 = 0x0a50_0001
    /// The destination of their packets: an unused address, so that the receiving system drops them silently.
    static let target: UInt32 = 0x0a07_0063

    let members: [Member]
    let socket: LinuxUDPSocket
    let server: Endpoint
    private let incoming: PacketBatch
    private let outgoing: PacketBatch

    /// The keys of both sides follow from the numbers.
    static func key(_ number: Int) -> PrivateKey {
        var random = SeededGenerator(seed: 0xc401_7e47 + UInt64(number))
        return PrivateKey(using: &random)
    }

    static func text(_ address: UInt32) -> String {
        IPAddress.v4(address).description
    }

    /// A packet of `byteCount` bytes of member `number`.
    static func packet(_ number: Int, byteCount: Int) -> [UInt8] {
        let source = insideNetwork + UInt32(number)
        var packet: [UInt8] = [0x45, 0, UInt8(byteCount >> 8), UInt8(byteCount & 255), 0, 0, 0x40, 0, 64, 17, 0, 0]
        for address in [source, target] { packet += [24, 16, 8, 0].map { UInt8(address >> UInt32($0) & 255) } }
        return packet + [UInt8](repeating: 0, count: max(0, byteCount - packet.count))
    }

    /// Parses the words `KEY ADDRESS PORT PEERS SECONDS`.
    init(_ words: [String]) throws {
        guard words.count == 5, let key = PublicKey(base64: words[0]), let address = try? IPAddress(words[1]),
            !address.isIPv6,
            let port = UInt16(words[2]), let count = Int(words[3]), (1...10_000).contains(count),
            let everything = IPPrefix(.v4(0), length: 0)
        else { throw UsageError(message: "KEY ADDRESS PORT PEERS SECONDS") }
        let server = Endpoint(address: address, port: port)
        self.server = server
        members = (0..<count).map { number in
            var engine = Engine(random: SeededGenerator(seed: UInt64(number)))
            engine.setPrivateKey(Self.key(number))
            engine.addPeer(key)
            engine.setEndpoint(server, of: key)
            engine.addAllowedIP(everything, to: key)
            let member = Member(engine: engine, greeting: Self.packet(number, byteCount: 20))
            member.engine.setUp(true, at: member.now, wall: member.wall)
            return member
        }
        var system = SystemRandomNumberGenerator()
        for member in members {
            // Timestamps only increase, from one run to the next too.
            member.wall.seconds = Self.wallNow
            member.now = Instant(nanoseconds: 3_600_000_000_000 + Int64.random(in: 0..<1_000_000_000, using: &system))
        }
        socket = try LinuxUDPSocket(isIPv6: false, port: 0)
        incoming = try PacketBatch(packetCapacity: 1024, byteCapacity: 16 * 65_600 + 65_536)
        outgoing = try PacketBatch(packetCapacity: 512, byteCapacity: 1 << 20)
    }

    /// A clock that runs a thousand times too fast: each handshake moves a member's clock ahead, and the next run has to
    /// begin after that time.
    private static var wallNow: Int64 { Int64(Date().timeIntervalSince1970 * 1000) }

    /// The endpoint from which member `number` sends, and to which the daemon replies.
    func endpoint(_ number: Int) -> Endpoint {
        var endpoint = server
        endpoint.source.low = UInt64(Self.outsideNetwork) + UInt64(number)
        return endpoint
    }

    /// Starts a new handshake of member `number`, in any state.
    func begin(_ number: Int) throws {
        let member = members[number]
        member.engine.setUp(false, at: member.now, wall: member.wall)
        member.advance(seconds: 6)
        member.engine.setUp(true, at: member.now, wall: member.wall)
        member.askedAt = nanoseconds()
        try post(member.engine.send(member.greeting, at: member.now, wall: member.wall), from: number)
    }

    /// Queues datagrams.
    private func post(_ datagrams: [OutgoingDatagram], from number: Int) throws {
        for datagram in datagrams {
            if outgoing.append(copying: datagram.bytes, endpoint: endpoint(number)) == nil {
                try flush()
                outgoing.append(copying: datagram.bytes, endpoint: endpoint(number))
            }
        }
    }

    /// Sends the queued datagrams.
    func flush() throws {
        guard !outgoing.isEmpty else { return }
        _ = try socket.send(outgoing, in: 0..<outgoing.count)
        outgoing.removeAll()
    }

    /// Receives the available datagrams, and answers them.
    /// - Parameter completed: Called for each member whose handshake completed.
    func receive(completed: (Int) -> Void) throws {
        incoming.removeAll()
        guard try socket.receive(into: incoming) > 0 else { return }
        for index in 0..<incoming.count {
            let number = Int(incoming[endpoint: index].source.low) - Int(Self.outsideNetwork)
            guard members.indices.contains(number) else { continue }
            let member = members[number]
            let (done, cookies) = (
                member.engine.statistics.handshakesCompleted, member.engine.statistics.cookieRepliesAccepted
            )
            _ = member.engine.receive(incoming.copy(of: index), from: server, at: member.now, wall: member.wall)
            if member.engine.statistics.cookieRepliesAccepted != cookies {
                // By its own clock it waits a little longer than five seconds, then tries again with the cookie.
                member.advance(seconds: 6)
                member.engine.deadlineReached(at: member.now, wall: member.wall)
            }
            try post(member.engine.drainAll(at: member.now, wall: member.wall), from: number)
            if member.engine.statistics.handshakesCompleted != done, member.askedAt != nil {
                member.askedAt = nil
                completed(number)
            }
        }
        try flush()
    }
}
