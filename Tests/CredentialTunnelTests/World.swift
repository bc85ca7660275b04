// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel

/// The keys of the vectors, made of consecutive bytes.
enum FixedKeys {
    static let server = [UInt8](1...32)
    static let presharedKey = [UInt8](33...64)
    static let clientEphemeral = [UInt8](65...96)
    static let serverEphemeral = [UInt8](97...128)
    static let clientRekeyEphemeral = [UInt8](129...160)
    static let serverRekeyEphemeral = [UInt8](161...192)
    static let clientIndex: UInt32 = 0x1122_3344
    static let serverIndex: UInt32 = 0xa1b2_c3d4
    static let clientRekeyIndex: UInt32 = 0x5566_7788
    static let serverRekeyIndex: UInt32 = 0x99aa_bbcc

    static func privateKey(_ bytes: [UInt8] = server) -> PrivateKey {
        guard let key = PrivateKey(bytes: bytes) else { preconditionFailure("not 32 bytes") }
        return key
    }

    static func preshared(_ bytes: [UInt8] = presharedKey) -> PresharedKey {
        guard let key = PresharedKey(bytes: bytes) else { preconditionFailure("not 32 bytes") }
        return key
    }
}

func hex(_ bytes: some Sequence<UInt8>) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

/// A generator that returns given numbers, and then numbers from a seed.
struct ScriptedGenerator: RandomNumberGenerator {
    private var script: [UInt64]
    private var rest = SeededGenerator(seed: 99)

    /// An index uses one number, and a key uses four.
    init(_ parts: [Part]) {
        script = parts.flatMap { part -> [UInt64] in
            switch part {
            case .index(let index): [UInt64(index)]
            case .key(let bytes):
                stride(from: 0, to: 32, by: 8).map { (start: Int) -> UInt64 in
                    (0..<8).reversed().reduce(UInt64(0)) { (number: UInt64, index: Int) -> UInt64 in
                        number << 8 | UInt64(bytes[start + index])
                    }
                }
            }
        }
    }

    enum Part {
        case index(UInt32)
        case key([UInt8])
    }

    mutating func next() -> UInt64 { script.isEmpty ? rest.next() : script.removeFirst() }
}

/// One client, one server and the network between them, in virtual time. Seeds determine the links.
final class World {
    static let assignment = Body.Assignment(
        addresses: [InterfaceAddress(host: .v4(10, 7, 0, 2))], routes: [.allIPv4], dns: [.v4(10, 7, 0, 1)], keepalive: 0
    )
    static let address = Endpoint(address: .v4(192, 0, 2, 1), port: 4000)

    let clock = FakeClock()
    var client: CredentialClient
    var server: CredentialServer
    var up: LossyLink<[UInt8]>
    var down: LossyLink<[UInt8]>
    /// The client's address.
    var address = World.address
    /// The driver's verdict on a login, or `nil` to give none yet.
    var verdict: (Body.ClientAuthRequest) -> LoginVerdict? = { login in
        login.password == "123456" ? .accepted(World.assignment) : .refused(Body.Refusal(.credentials))
    }
    /// The actions of either side other than datagrams, in order.
    var clientSaid: [ClientAction] = []
    var serverSaid: [ServerAction] = []
    var clientSent: [(at: Int64, bytes: [UInt8])] = []
    var serverSent: [(at: Int64, bytes: [UInt8])] = []
    /// The packets that the tunnel delivered.
    var toServer: [[UInt8]] = []
    var toClient: [[UInt8]] = []

    init(
        _ conditions: LinkConditions = .perfect, seed: UInt64 = 1, password: String = "123456",
        serverKey: [UInt8] = FixedKeys.server, pinned: [UInt8] = FixedKeys.server,
        clientPresharedKey: [UInt8] = FixedKeys.presharedKey, limits: ServerLimits = ServerLimits(),
        timing: SessionTiming = SessionTiming(), clientRandom: ScriptedGenerator? = nil,
        serverRandom: ScriptedGenerator? = nil
    ) {
        var configuration = CredentialClient.Configuration(
            keys: SharedKeys(
                server: FixedKeys.privateKey(pinned).publicKey, presharedKey: FixedKeys.preshared(clientPresharedKey)),
            login: Body.ClientAuthRequest(login: "kean", password: password))
        configuration.timing = timing
        let seeds = SeededGenerator(seed: seed)
        if let clientRandom {
            client = CredentialClient(configuration, random: clientRandom)
        } else {
            client = CredentialClient(configuration, random: seeds)
        }
        var other = seeds
        for _ in 0..<100 { _ = other.next() }
        let (key, preshared) = (FixedKeys.privateKey(serverKey), FixedKeys.preshared())
        if let serverRandom {
            server = CredentialServer(privateKey: key, presharedKey: preshared, limits: limits, random: serverRandom)
        } else {
            server = CredentialServer(privateKey: key, presharedKey: preshared, limits: limits, random: other)
        }
        up = LossyLink(conditions, seed: seed &* 2)
        down = LossyLink(conditions, seed: seed &* 2 &+ 1)
    }

    var now: Instant { Instant(nanoseconds: clock.nanoseconds) }

    func perform(_ actions: [ClientAction], of datagram: [UInt8] = []) {
        for action in actions {
            switch action {
            case .send(let bytes):
                clientSent.append((clock.nanoseconds, bytes))
                up.send(bytes, at: clock.nanoseconds)
            case .deliver(let range): toClient.append(Array(datagram[range]))
            default: clientSaid.append(action)
            }
        }
    }

    func perform(_ actions: [ServerAction], of datagram: [UInt8] = []) {
        for action in actions {
            switch action {
            case .send(let bytes, let endpoint):
                serverSent.append((clock.nanoseconds, bytes))
                if endpoint == address { down.send(bytes, at: clock.nanoseconds) }
            case .deliver(_, let range): toServer.append(Array(datagram[range]))
            case .verify(let id, let login, _):
                serverSaid.append(action)
                if let verdict = verdict(login) { perform(server.answer(id, verdict, at: now)) }
            default: serverSaid.append(action)
            }
        }
    }

    /// Passes a datagram to the server and returns its actions. By default, the datagram is from the client's address.
    @discardableResult
    func serverReceives(_ datagram: [UInt8], from source: Endpoint? = nil) -> [ServerAction] {
        var datagram = datagram
        let (source, now) = (source ?? address, now)
        let actions = unsafe datagram.withUnsafeMutableBytes { unsafe server.received($0, from: source, at: now) }
        perform(actions, of: datagram)
        return actions
    }

    /// Passes a datagram to the client and returns its actions.
    @discardableResult
    func clientReceives(_ datagram: [UInt8]) -> [ClientAction] {
        var datagram = datagram
        let now = now
        let actions = unsafe datagram.withUnsafeMutableBytes { unsafe client.received($0, at: now) }
        perform(actions, of: datagram)
        return actions
    }

    func clientSession(_ index: UInt32) -> TunnelSession? { client.session(receiving: index) }
    func serverSession(_ index: UInt32) -> TunnelSession? { server.session(receiving: index) }
    func answer(_ id: ClientID, _ verdict: LoginVerdict) -> [ServerAction] { server.answer(id, verdict, at: now) }

    /// The address to which the server sends packets for its client, or `nil` without a client.
    var destination: Endpoint? { joined.flatMap { server.reserve(0, to: $0, at: now) { _ in 0 } }?.endpoint }

    func start() { perform(client.start(at: now)) }

    /// Advances the time by this duration, event by event.
    func run(for duration: Duration = .zero) {
        let end = (now + duration).nanoseconds
        while true {
            let times = [
                up.nextDelivery, down.nextDelivery, client.nextDeadline?.nanoseconds, server.nextDeadline?.nanoseconds,
            ].compactMap(\.self)
            guard let next = times.min(), next <= end else { break }
            if next > clock.nanoseconds { clock.advance(by: .nanoseconds(next - clock.nanoseconds)) }
            for datagram in up.deliver(upTo: clock.nanoseconds) { serverReceives(datagram) }
            for datagram in down.deliver(upTo: clock.nanoseconds) { clientReceives(datagram) }
            perform(client.deadlineReached(at: now))
            perform(server.deadlineReached(at: now))
        }
        clock.advance(by: .nanoseconds(end - clock.nanoseconds))
    }

    /// Creates a world with an accepted login, over perfect links.
    static func loggedIn(
        limits: ServerLimits = ServerLimits(), timing: SessionTiming = SessionTiming(), seed: UInt64 = 1
    ) -> World {
        let world = World(seed: seed, limits: limits, timing: timing)
        world.start()
        world.run()
        #expect(world.clientSaid == [.established(World.assignment)])
        return world
    }

    /// The client's ID in the server's table.
    var joined: ClientID? {
        serverSaid.lazy.compactMap { if case .joined(let id) = $0 { id } else { nil } }.first
    }

    /// Returns a sealed packet of the client, or `nil` without a session.
    func clientSeals(_ packet: [UInt8]) -> [UInt8]? {
        client.reserve(1, at: now).map { keys, first, _ in
            MessageEncoder.seal(Header(code: .data, index: 0, counter: first), packet, keys: keys)
        }
    }

    /// Returns a sealed packet of the server, or `nil` without a session.
    func serverSeals(_ packet: [UInt8]) -> [UInt8]? {
        joined.flatMap { server.reserve(1, to: $0, at: now) { _ in packet.count } }.map { reserved in
            MessageEncoder.seal(Header(code: .data, index: 0, counter: reserved.first), packet, keys: reserved.keys)
        }
    }

    /// Whether a packet is delivered in each direction now, without the links.
    func carries(_ packet: [UInt8] = [0x45, 1, 2, 3]) -> Bool {
        guard let there = clientSeals(packet), let back = serverSeals(packet) else { return false }
        let before = (toServer.count, toClient.count)
        serverReceives(there)
        clientReceives(back)
        return toServer.dropFirst(before.0) == [packet] && toClient.dropFirst(before.1) == [packet]
    }
}
