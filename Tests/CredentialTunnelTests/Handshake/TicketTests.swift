// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import CredentialTunnel

@Suite("Login tickets") struct TicketTests {
    /// The wall clock of a server, in seconds since 1970.
    private final class WallClock: Sendable {
        private let time = Mutex<Int64>(1_800_000_000)
        var now: Int64 { time.withLock { $0 } }
        func advance(by seconds: Int64) { time.withLock { $0 += seconds } }
    }

    private static let content: [UInt8] = [1, 2, 3]
    private let wall = WallClock()
    private let sealer: TicketSealer

    init() {
        let wall = wall
        sealer = TicketSealer(.init(current: Self.key(1, at: wall.now))) { wall.now }
    }

    private static func key(_ seed: UInt64, at time: Int64) -> TicketSealer.Key {
        var random = SeededGenerator(seed: seed)
        return TicketSealer.Key(PresharedKey(using: &random), madeAt: time)
    }

    private func world(
        seed: UInt64 = 1, login: String = "kean", ticket: LoginTicket? = nil, grant: TicketGrant? = nil,
        limits: ServerLimits = ServerLimits()
    ) -> World {
        let world = World(seed: seed, limits: limits)
        world.server.tickets = sealer
        let grant = grant ?? TicketGrant(content: Self.content)
        world.verdict = {
            $0.password == "123456" ? .resumable(World.assignment, grant) : .refused(Body.Refusal(.credentials))
        }
        var configuration = CredentialClient.Configuration(
            keys: SharedKeys(server: FixedKeys.privateKey().publicKey, presharedKey: FixedKeys.preshared()),
            login: Body.ClientAuthRequest(login: login, password: "123456"))
        configuration.ticket = ticket
        world.client = CredentialClient(configuration, random: SeededGenerator(seed: seed &+ 100))
        return world
    }

    /// Logs in with the password, and returns the ticket and its session.
    private func issued(_ grant: TicketGrant? = nil, seed: UInt64 = 1) throws -> (LoginTicket, TunnelSession) {
        let world = world(seed: seed, grant: grant)
        world.start()
        world.run()
        #expect(world.clientSaid == [.established(World.assignment)])
        #expect(world.resumed.isEmpty && world.verified == ["kean"])
        return (try #require(world.ticket), try #require(world.session))
    }

    /// Begins a login with a ticket at a restarted server, and returns the content that the server accepted.
    private func resume(_ ticket: LoginTicket, login: String = "kean") -> (content: [UInt8]?, world: World) {
        let world = world(seed: 2, login: login, ticket: ticket)
        world.start()
        world.run()
        return (world.resumed.first?.content, world)
    }

    @Test("A restarted server accepts a ticket without a password check, and issues the next one")
    func restart() throws {
        let (ticket, _) = try issued()
        let (content, world) = resume(ticket)
        #expect(content == Self.content && world.verified.isEmpty)
        let id = try #require(world.resumed.first?.client)
        world.perform(world.answer(id, .resumable(World.assignment, TicketGrant(content: Self.content))))
        world.run()
        #expect(world.clientSaid == [.established(World.assignment)] && world.carries())
        let next = try #require(world.ticket)
        #expect(next.sealed != ticket.sealed && resume(next).content == Self.content)
    }

    @Test("The password of a login with a void ticket is verified")
    func void() throws {
        let (content, world) = resume(try issued().0)
        #expect(content != nil)
        let id = try #require(world.resumed.first?.client)
        world.perform(world.answer(id, .notResumed))
        world.run()
        #expect(world.verified == ["kean"] && world.clientSaid == [.established(World.assignment)])
    }

    @Test("A ticket is valid only with the secret of its session, and a proof only in one session")
    func stolen() throws {
        let (ticket, _) = try issued()
        // A thief of the ticket's bytes does not know the secret.
        let (_, other) = try issued(seed: 5)
        #expect(resume(LoginTicket(ticket.sealed, of: "kean", in: other)).content == nil)
        // Another user cannot use it, and neither can its owner under another name.
        #expect(resume(ticket, login: "ada").content == nil)
        // A request that was recorded in one session is not a proof in the next session.
        let (one, two) = (world(seed: 3, ticket: ticket), world(seed: 4))
        for world in [one, two] {
            world.start()
            world.run()
        }
        let (first, second) = (try #require(one.session), try #require(two.session))
        let login = Body.ClientAuthRequest(login: "kean", password: "")
        let request = TicketedLogin(login, ticket: ticket.sealed, proof: ticket.proof(in: first))
        #expect(one.resumption(of: request, in: first) == Self.content)
        #expect(two.resumption(of: request, in: second) == nil)
        for proof in [[], [UInt8](repeating: 0, count: 32), Array(request.proof.dropLast())] {
            let changed = TicketedLogin(login, ticket: ticket.sealed, proof: proof)
            #expect(one.resumption(of: changed, in: first) == nil)
        }
    }

    @Test("A changed, shortened or lengthened ticket is void")
    func changed() throws {
        let (ticket, _) = try issued()
        #expect(sealer.open(ticket.sealed, login: "kean")?.content == Self.content)
        for index in ticket.sealed.indices {
            var bytes = ticket.sealed
            bytes[index] ^= 1
            #expect(sealer.open(bytes, login: "kean") == nil)
            #expect(sealer.open(Array(ticket.sealed.prefix(index)), login: "kean") == nil)
        }
        #expect(sealer.open(ticket.sealed + [0], login: "kean") == nil)
        #expect(sealer.open(ticket.sealed + [UInt8](repeating: 0, count: 1000), login: "kean") == nil)
    }

    @Test("A ticket expires after a day, or at the end of its session's lifetime")
    func lifetime() throws {
        let (day, hour) = (try issued().0, try issued(TicketGrant(content: [], deadline: wall.now + 3600)).0)
        wall.advance(by: 3599)
        #expect(resume(day).content == Self.content && resume(hour).content == [])
        wall.advance(by: 1)
        #expect(resume(day).content == Self.content && resume(hour).content == nil)
        wall.advance(by: TicketSealer.lifetime - 3601)
        #expect(resume(day).content == Self.content)
        wall.advance(by: 1)
        #expect(resume(day).content == nil)
        // A ticket from the future was issued before the clock was set back.
        let ticket = try issued().0
        wall.advance(by: -10)
        #expect(resume(ticket).content == nil)
    }

    @Test("A key is replaced after a day, and the key before it still opens tickets")
    func rotation() throws {
        var random = SeededGenerator(seed: 9)
        let (ticket, _) = try issued()
        wall.advance(by: TicketSealer.lifetime - 1)
        #expect(sealer.replacement(using: &random) == nil)
        let former = sealer.keys.current
        wall.advance(by: 1)
        let keys = try #require(sealer.replacement(using: &random))
        #expect(keys.previous == former && keys.current.madeAt == wall.now && keys.current.key != former.key)
        wall.advance(by: -10)
        sealer.keys = keys
        #expect(resume(ticket).content == Self.content)
        sealer.keys = TicketSealer.Keys(current: Self.key(3, at: wall.now), previous: keys.current)
        #expect(resume(ticket).content == nil)
        // The clock was set back by more than the key's age.
        wall.advance(by: -100)
        #expect(sealer.replacement(using: &random) != nil)
    }

    @Test("A client that does not request tickets receives none, and a server without tickets ignores the request")
    func older() throws {
        let world = world()
        world.start()
        world.serverReceives(try #require(world.clientSent.first).bytes)
        world.clientReceives(try #require(world.serverSent.first).bytes)
        let session = try #require(world.session)
        let body = try MessageEncoder.encode(Body.ClientAuthRequest(login: "kean", password: "123456"))
        world.serverReceives(try #require(session.seal(.clientAuthRequest, body)))
        world.clientReceives(try #require(world.serverSent.last).bytes)
        #expect(world.clientSaid == [.established(World.assignment)] && world.ticket == nil)

        let other = World.loggedIn()
        #expect(other.ticket == nil)
        // A decoder without tickets reads both messages.
        let (ticket, _) = try issued()
        let login = TicketedLogin(
            Body.ClientAuthRequest(login: "kean", password: "123456"), ticket: ticket.sealed,
            proof: [UInt8](repeating: 1, count: 32))
        #expect(try MessageDecoder.clientAuthRequest(MessageEncoder.encode(login)) == login.login)
        let response = try MessageEncoder.encode(.accepted(World.assignment), ticket: ticket.sealed)
        #expect(try MessageDecoder.serverAuthResponse(response) == .accepted(World.assignment))
    }

    @Test("A login without room for its ticket is sent without it, and so is a response")
    func room() throws {
        let (ticket, session) = try issued()
        let long = String(repeating: "\"", count: 500)
        let world = world(seed: 5)
        var configuration = CredentialClient.Configuration(
            keys: SharedKeys(server: FixedKeys.privateKey().publicKey, presharedKey: FixedKeys.preshared()),
            login: Body.ClientAuthRequest(login: "kean", password: long))
        configuration.ticket = ticket
        world.client = CredentialClient(configuration, random: SeededGenerator(seed: 105))
        world.verdict = { $0.password == long ? .accepted(World.assignment) : .refused(Body.Refusal(.credentials)) }
        world.start()
        world.run()
        #expect(world.verified == ["kean"] && world.clientSaid == [.established(World.assignment)])

        var assignment = World.assignment
        assignment.routes = (0..<16).map { IPPrefix(host: .v6(0x2001_0db8_1111_2222, 0x3333_4444_5555_0000 | $0)) }
        let response = try MessageEncoder.encode(
            .accepted(assignment), ticket: [UInt8](repeating: 1, count: 400))
        #expect(try MessageDecoder.ticketedResponse(response).ticket == nil)
        withExtendedLifetime(session) {}
    }

    @Test("A long session gets new tickets with its new keys")
    func renewal() throws {
        var limits = ServerLimits()
        limits.ticketGap = .seconds(300)
        let world = world(limits: limits)
        world.start()
        world.run()
        let first = try #require(world.ticket)
        world.run(for: .seconds(130))
        #expect(world.rekeys == 1 && world.ticket === first)
        world.run(for: .seconds(260))
        let second = try #require(world.ticket)
        #expect(world.rekeys == 3 && second !== first && resume(second).content == Self.content)
        #expect(world.clientSaid == [.established(World.assignment)] && world.carries())
    }

    @Test("All clients of a restarted server wait for their turn, and two with the same name never at the same time")
    func queue() {
        var queue = ResumptionQueue(ServerLimits())
        func login(_ name: String, _ slot: Int32) -> LoginQueue.Login {
            LoginQueue.Login(
                client: ClientID(slot: slot, generation: 1), request: .init(login: name, password: ""),
                source: World.address, isKnown: true, deadline: Instant(nanoseconds: 10), resumption: [])
        }
        let added = (0..<2500 as Range<Int32>).map { queue.add(login("user\($0 % 1250)", $0)) }
        #expect(added.allSatisfy { $0 } && queue.count == 2500)
        var served: [Int32] = []
        var running: [LoginQueue.Login] = []
        while queue.count > 0 {
            while let next = queue.next(besides: ["user7"]) { running.append(next) }
            #expect(Set(running.map(\.request.login)).count == running.count)
            if running.isEmpty { break }
            for login in running {
                served.append(login.client.slot)
                let finished = queue.finish(login.client)
                #expect(finished?.client == login.client)
            }
            running = []
        }
        // The password of this user is being verified.
        #expect(served.count == 2498 && queue.count == 2 && !served.contains(7))
        #expect(served.prefix(7) == [0, 1, 2, 3, 4, 5, 6])
        let early = queue.removeExpired(at: Instant(nanoseconds: 9))
        let expired = queue.removeExpired(at: Instant(nanoseconds: 10))
        #expect(early.isEmpty && expired.map(\.slot) == [7, 1257] && queue.count == 0)
        let more = (0..<9 as Range<Int32>).map { queue.add(login("anna", $0)) }
        let other = queue.add(login("ben", 9))
        #expect(more == [true, true, true, true, true, true, true, true, false] && other)
    }
}

extension World {
    fileprivate var ticket: LoginTicket? { client.ticket }
    fileprivate var session: TunnelSession? { client.current }
    fileprivate var rekeys: Int { client.rekeys }

    fileprivate func resumption(of login: TicketedLogin, in session: TunnelSession) -> [UInt8]? {
        server.resumption(of: login, in: session)
    }

    /// The logins whose passwords the driver had to verify.
    fileprivate var verified: [String] {
        serverSaid.compactMap { if case .verify(_, let login, _) = $0 { login.login } else { nil } }
    }

    /// The logins that the driver had to resume.
    fileprivate var resumed: [(client: ClientID, content: [UInt8])] {
        serverSaid.compactMap { if case .resume(let id, _, let content, _) = $0 { (id, content) } else { nil } }
    }
}
