// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import NetworkAddresses
import PacketTunnelTesting
import PasswordHashing
import Provisioning
import Synchronization
import Testing
import TunnelSystem
import WireGuardCore

@testable import CredentialTunnel
@testable import Gateway
@testable import TunnelIO

/// A gateway with a login tunnel in memory, which can be restarted.
private final class RestartScene: Sendable {
    let fixture: ServiceFixture
    let keys: LoginTunnelKeys
    let tickets: LoginTickets
    let internet = MemoryInternet(queueLimit: 16_384)

    init(store: GatewayStore? = nil, _ change: (inout GatewaySettings) -> Void = { _ in }) throws {
        let counter = Counter()
        self.counter = counter
        fixture = try ServiceFixture(
            store: store,
            { settings in
                settings.loginTunnel.isEnabled = true
                settings.servesWireGuard = false
                change(&settings)
            }, whenCompared: { counter.increment() })
        var random = fixture.random
        keys = LoginTunnelKeys(
            privateKey: PrivateKey(using: &random), presharedKey: PresharedKey(using: &random))
        tickets = LoginTickets(
            TicketSealer.Keys(
                current: .init(
                    PresharedKey(using: &random), madeAt: Int64(GatewayClock.system.now().timeIntervalSince1970))),
            clock: .system
        ) { _ in }
    }

    private let counter: Counter
    /// The number of passwords that were compared.
    var comparisons: Int { counter.count }

    private final class Counter: Sendable {
        private let value = Mutex(0)
        var count: Int { value.withLock { $0 } }
        func increment() { value.withLock { $0 += 1 } }
    }

    /// Runs a gateway until `body` returns, and then kills it: its clients receive nothing more from it.
    func run(_ body: (GatewayRuntime) async throws -> Void) async throws {
        let runtime = GatewayRuntime(
            service: fixture.service, network: RecordingNetwork(),
            datagrams: internet.attach([LoginRuntimeTests.address]), loginKeys: keys, tickets: tickets,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await runtime.start()
        let running = Task { try await runtime.run() }
        try await body(runtime)
        internet.setFilter { $0.source != LoginRuntimeTests.address }
        running.cancel()
        _ = await running.result
        internet.setFilter(nil)
    }
}

@Suite("A restart of a gateway with a login tunnel", .serialized, .timeLimit(.minutes(5)))
struct LoginRestartTests {
    private static let password = "correct horse"

    @Test("A client logs in at a restarted gateway without a password check, and keeps its addresses")
    func restart() async throws {
        let scene = try RestartScene()
        let (service, admin) = (scene.fixture.service, scene.fixture.admin)
        let anna = try await scene.fixture.user()
        _ = try await service.setPassword(of: anna.id, Array(Self.password.utf8), admin)
        let client = try MemoryLogin(scene.internet, at: .v4(192, 0, 2, 10), scene.keys)
        var addresses: [InterfaceAddress] = []
        try await scene.run { (_) async throws in addresses = try await client.logIn("anna", Self.password).addresses }
        #expect(scene.comparisons == 1)
        try await scene.run { (_) async throws in
            #expect(try await client.logIn("anna", Self.password).addresses == addresses)
            #expect(scene.comparisons == 1)
            // The client logs in again while the gateway still has its session.
            #expect(try await client.logIn("anna", Self.password).addresses == addresses)
            #expect(scene.comparisons == 1)
        }
        // The new password makes the ticket void.
        _ = try await service.setPassword(of: anna.id, Array("battery staple".utf8), admin)
        try await scene.run { (_) async throws in
            client.begin("anna", Self.password)
            #expect(try await client.next() == .failed(.refused(Body.Refusal(.credentials))))
            #expect(scene.comparisons == 2)
            #expect(try await client.logIn("anna", "battery staple").addresses == addresses)
            #expect(scene.comparisons == 3)
        }
    }

    /// With `CULVERT_GATEWAY_LOAD=1`, which needs a build with optimisations, the number of clients is that of a large
    /// gateway.
    private static let isEarnest = ProcessEnvironment.value("CULVERT_GATEWAY_LOAD") == "1"

    @Test("All clients of a restarted gateway are back without a password check, and all are notified when it stops")
    func crowd() async throws {
        try await TestFolder.use { folder in
            // With the real number of clients, the store is on the disk, which makes each change durable.
            let store = Self.isEarnest ? try GatewayStore(path: "\(folder)/gateway.db") : nil
            try await Self.checkCrowd(Self.isEarnest ? 2500 : 300, store)
        }
    }

    private static func checkCrowd(_ count: Int, _ store: GatewayStore?) async throws {
        let scene = try RestartScene(store: store) { $0.devices = 10_000 }
        // The stored password costs as much as by default.
        var random = SystemRandomNumberGenerator()
        let hash = try #require(
            PasswordHash(Array(password.utf8), cost: PasswordHash.Cost(), using: &random)
                .flatMap(StoredPassword.init))
        var members: [Crowd.Ticketed] = []
        for number in 0..<count {
            members.append(try await member("user\(number)", hash, scene))
        }
        // The time of a few clients is enough to compute the time that all passwords would take.
        let few = members.prefix(isEarnest ? 40 : 12).map { Crowd.Ticketed(login: $0.login, ticket: nil) }
        var (before, after): (Duration, Duration) = (.zero, .zero)
        try await scene.run { (_) async throws in
            before = try #require(await Crowd(few, password, scene).run(for: .seconds(60)))
        }
        #expect(scene.comparisons == few.count)
        var (notified, rounds): (Int, Int) = (0, 0)
        var drops: [String: UInt64] = [:]
        try await scene.run { (runtime) async throws in
            let crowd = Crowd(members, password, scene)
            after = try #require(await crowd.run(for: .seconds(60)))
            (rounds, drops) = (runtime.figures.rounds, runtime.figures.login?.drops.counted ?? [:])
            let stopping = Task { await runtime.stop() }
            notified = await crowd.endings(.shutdown, within: .seconds(20))
            await stopping.value
        }
        #expect(notified == count)
        #expect(scene.comparisons == few.count)
        let all = before / few.count * count
        print(
            "login restart: \(count) clients: \(all) with passwords (\(few.count) took \(before)), \(after) with tickets; "
                + "\(rounds) rounds; dropped: \(drops); \(notified) were notified of the shutdown")
        #expect(after < .seconds(15))
        // A client whose handshake or login was dropped begins again only after twelve seconds.
        #expect(drops["evicted"] == nil && drops["verifications full"] == nil, "\(drops)")
    }

    /// Adds a user with a device and a ticket, as after a login.
    private static func member(
        _ login: String, _ hash: StoredPassword, _ scene: RestartScene
    ) async throws -> Crowd.Ticketed {
        let (fixture, store) = (scene.fixture, scene.fixture.store)
        let id = try await fixture.user(login).id
        var update = UserUpdate()
        update.password = .some(hash)
        let audit = AuditRecord(
            at: fixture.service.now, actor: "test", source: nil, action: .userChanged, subject: "user:\(id)",
            details: [:])
        _ = try await store.update(user: id, update, audit)
        var random = fixture.random
        let outcome = try await store.lease(
            LoginLease(
                userID: id, password: hash, busy: [], deviceID: DeviceID(using: &random), sessionsPerUser: 5,
                limits: fixture.service.limits(at: fixture.service.now), now: fixture.service.now,
                source: try Endpoint("192.0.2.7:4000")))
        guard case .given(let given) = outcome else { throw StoreFixture.Unexpected(what: "\(outcome)") }
        let content = LoginResumption(
            device: given.device.id, session: 7, password: hash,
            verifiedAt: Int64(GatewayClock.system.now().timeIntervalSince1970)
        ).bytes
        var keys = NoiseNK.Keys(SymmetricState(protocolName: NoiseNK.name))
        keys.chain = Bytes32(w0: random.next(), w1: 0, w2: 0, w3: 0)
        let session = TunnelSession(
            keys, isClient: true, local: 1, remote: 2, createdAt: Instant(nanoseconds: 0))
        var generator: any RandomNumberGenerator = random
        let sealed = try #require(
            scene.tickets.sealer.seal(
                TicketGrant(content: content), secret: session.ticketSecret(), login: login, random: &generator))
        return Crowd.Ticketed(login: login, ticket: LoginTicket(sealed, of: login, in: session))
    }
}

/// Clients without interfaces, which all log in at the same time. A client whose login fails begins again after two
/// seconds.
private final class Crowd {
    struct Ticketed {
        var login: String
        var ticket: LoginTicket?
    }

    private final class Member {
        var client: CredentialClient
        let source: Endpoint
        var isBack = false
        var end: EndReason?
        /// The time of the next login after a failed one.
        var retryAt: Instant?

        init(_ client: consuming CredentialClient, _ source: Endpoint) {
            self.client = client
            self.source = source
        }
    }

    private let configurations: [CredentialClient.Configuration]
    private let internet: MemoryInternet
    private var members: [Member] = []
    private var bySource: [IPAddress: Member] = [:]
    private let inbox = Inbox()

    /// The datagrams to the clients that have not been handled.
    private final class Inbox: Sendable {
        let datagrams = Mutex<[MemoryDatagram]>([])
        let changes = Changes()
    }

    init(_ clients: [Ticketed], _ password: String, _ scene: RestartScene) {
        internet = scene.internet
        let keys = SharedKeys(server: scene.keys.privateKey.publicKey, presharedKey: scene.keys.presharedKey)
        configurations = clients.map { client in
            var configuration = CredentialClient.Configuration(
                keys: keys, login: Body.ClientAuthRequest(login: client.login, password: password))
            configuration.ticket = client.ticket
            return configuration
        }
        let inbox = inbox
        internet.setFilter { datagram in
            guard datagram.destination != LoginRuntimeTests.address else { return true }
            let datagram = datagram
            inbox.datagrams.withLock { $0.append(datagram) }
            inbox.changes.notify()
            return false
        }
    }

    private var now: Instant { Instant(nanoseconds: LaneClock.now()) }

    /// Logs in, and returns the time until all clients are back; `nil` if some are not after `limit`.
    func run(for limit: Duration) async -> Duration? {
        let start = now
        var nextScan = start
        for (index, configuration) in configurations.enumerated() {
            let address = IPAddress.v4(172, 20, UInt8(index / 250), UInt8(1 + index % 250))
            let member = Member(
                CredentialClient(configuration, random: SystemRandomNumberGenerator()),
                Endpoint(address: address, port: 4000))
            members.append(member)
            bySource[address] = member
            perform(member.client.start(at: now), member)
        }
        while now < start + limit {
            receive { !$0.isBack }
            let inbox = inbox
            _ = await inbox.changes.wait(within: .milliseconds(20)) { inbox.datagrams.withLock { !$0.isEmpty } }
            let time = now
            // A scan of all deadlines for each datagram would take most of the time.
            guard nextScan <= time else { continue }
            nextScan = time + .milliseconds(20)
            for (index, member) in members.enumerated() where !member.isBack {
                if let retryAt = member.retryAt {
                    guard retryAt <= time else { continue }
                    member.retryAt = nil
                    member.client = CredentialClient(configurations[index], random: SystemRandomNumberGenerator())
                    perform(member.client.start(at: time), member)
                } else if let deadline = member.client.nextDeadline, deadline <= time {
                    perform(member.client.deadlineReached(at: time), member)
                }
            }
            if members.allSatisfy(\.isBack) { return .nanoseconds(time.nanoseconds - start.nanoseconds) }
        }
        return nil
    }

    /// Waits until all clients have received the server's notice.
    /// - Returns: The number of clients that have received it in time.
    func endings(_ reason: EndReason, within limit: Duration) async -> Int {
        let deadline = now + limit
        while members.contains(where: { $0.end == nil }), now < deadline {
            let inbox = inbox
            _ = await inbox.changes.wait(within: .milliseconds(20)) { inbox.datagrams.withLock { !$0.isEmpty } }
            receive { $0.end == nil }
        }
        return members.count { $0.end == reason }
    }

    /// Handles the datagrams that have arrived for the clients that match.
    private func receive(_ matches: (Member) -> Bool) {
        for datagram in inbox.datagrams.withLock({ waiting in
            defer { waiting = [] }
            return waiting
        }) {
            guard let member = bySource[datagram.destination], matches(member) else { continue }
            var bytes = datagram.bytes
            perform(unsafe bytes.withUnsafeMutableBytes { unsafe member.client.received($0, at: now) }, member)
        }
    }

    private func perform(_ actions: [ClientAction], _ member: Member) {
        for action in actions {
            switch action {
            case .send(let bytes):
                internet.deliver(
                    MemoryDatagram(
                        source: member.source.address, sourcePort: member.source.port,
                        destination: LoginRuntimeTests.address, destinationPort: 51_840, mark: 0, bytes: bytes))
            case .established: member.isBack = true
            case .failed: member.retryAt = now + .seconds(2)
            case .ended(let reason): member.end = reason
            case .deliver, .mayBeUnknown: break
            }
        }
    }
}
