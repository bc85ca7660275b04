// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import TunnelIO
import TunnelServer
import WireGuardCore

@testable import CredentialTunnel
@testable import Gateway

@Suite struct RuntimeLoginsTests {
    private var generator = SeededGenerator(seed: 18)
    private let password = StoredPassword(text: "one")

    @Test("Sessions are busy in the order in which they began, and one that has another's device takes its place")
    mutating func sessions() {
        var logins = RuntimeLogins<Int>()
        let (one, two) = (DeviceID(using: &generator), DeviceID(using: &generator))
        #expect(logins.begin(1, one, password).isEmpty && logins.begin(2, two, password).isEmpty)
        #expect(logins.busy == [one, two])
        #expect(logins.begin(3, one, password) == [1])
        #expect(logins.busy == [two, one] && logins.count == 2)
        // The session is listed until it has reported its end.
        #expect(logins.over { _ in password } == [1])
        #expect(logins.end(1)?.device == one)
        #expect(logins.over { _ in password }.isEmpty && logins.end(1) == nil)
        #expect(logins.busy == [two, one])
    }

    @Test("The lists of sessions by device and by age are right after any number of beginnings and ends")
    mutating func lists() {
        var logins = RuntimeLogins<Int>()
        let devices = (0..<4).map { _ in DeviceID(using: &generator) }
        // The sessions in the order of their beginnings.
        var model: [(id: Int, device: DeviceID, isLeaving: Bool)] = []
        for id in 0..<500 {
            let device = devices[Int.random(in: 0..<4, using: &generator)]
            if Bool.random(using: &generator) {
                let former = model.filter { $0.device == device }.map(\.id)
                #expect(Set(logins.begin(id, device, password, ticketNumber: UInt64(id))) == Set(former))
                for index in model.indices where model[index].device == device { model[index].isLeaving = true }
                model.append((id, device, false))
            } else if let index = model.indices.randomElement(using: &generator) {
                let ended = model.remove(at: index)
                #expect(logins.end(ended.id)?.device == ended.device)
                #expect(logins.end(ended.id) == nil)
            }
            let current = model.filter { !$0.isLeaving }
            #expect(logins.busy == current.map(\.device) && logins.count == current.count)
            #expect(Set(logins.sessions.keys) == Set(model.map(\.id)))
            for session in model {
                #expect(logins.isCurrent(UInt64(session.id), of: session.device) == !session.isLeaving)
            }
        }
        #expect(!logins.isCurrent(0, of: DeviceID(using: &generator)))
    }

    @Test("Sessions that have lasted long enough are found, except for those that end already")
    mutating func lifetime() {
        var logins = RuntimeLogins<Int>()
        let (one, two) = (DeviceID(using: &generator), DeviceID(using: &generator))
        _ = logins.begin(1, one, password, at: 10)
        _ = logins.begin(2, two, password, at: 20)
        #expect(logins.began(before: 10).isEmpty && logins.began(before: 20) == [1])
        #expect(logins.begin(3, one, password, at: 30) == [1])
        #expect(Set(logins.began(before: 31)) == [2, 3])
    }

    @Test("Only a session whose device is gone or has another password ends")
    mutating func over() {
        var logins = RuntimeLogins<Int>()
        let (one, two) = (DeviceID(using: &generator), DeviceID(using: &generator))
        _ = logins.begin(1, one, password)
        _ = logins.begin(2, two, password)
        #expect(logins.over { $0 == one ? nil : password } == [1])
        #expect(logins.over { $0 == two ? StoredPassword(text: "two") : password } == [2])
    }
}

extension PeerReconcilerTests {
    @Test("A login's device is the firewall's and no peer of WireGuard; another password changes neither")
    func logins() throws {
        var generator = SeededGenerator(seed: 19)
        var made = Made(loginTunnel: "login0")
        var peer = Peer(
            deviceID: DeviceID(using: &generator), publicKey: nil, password: StoredPassword(text: "one"),
            sources: [IPPrefix(host: .v4(10, 66, 0, 2))], rules: [AccessRule(.deny, transport: .udp)])
        made.round(Feed(sequence: 1, changed: [peer]))
        #expect(made.engine.isEmpty && made.peers.devices.isEmpty)
        #expect(made.network.values.map(\.tunnel) == ["login0"] && made.network.values.first?.rules.count == 1)
        peer.password = StoredPassword(text: "two")
        made.round(Feed(sequence: 1, changed: [peer]))
        #expect(made.isUnchanged && made.peers.password(of: peer.deviceID) == peer.password)
        peer.password = nil
        made.round(Feed(sequence: 1, changed: [peer]))
        #expect(made.network.isEmpty && made.peers.network.desired.isEmpty)
    }

    @Test("Without WireGuard a device with a key has no access, and a login's device is behind the first interface")
    func withoutWireGuard() {
        var generator = SeededGenerator(seed: 20)
        var made = Made()
        made.peers = PeerReconciler(servesWireGuard: false)
        let laptop = Peer(
            deviceID: DeviceID(using: &generator), publicKey: PrivateKey(using: &generator).publicKey,
            sources: [IPPrefix(host: .v4(10, 66, 0, 2))])
        let login = Peer(
            deviceID: DeviceID(using: &generator), publicKey: nil, password: StoredPassword(text: "one"),
            sources: [IPPrefix(host: .v4(10, 66, 0, 3))])
        made.round(Feed(sequence: 1, isComplete: true, changed: [laptop, login], serverKeysChanged: true))
        #expect(made.engine.isEmpty && made.peers.isCurrent)
        #expect(Array(made.network.keys) == [IPPrefix(host: .v4(10, 66, 0, 3))])
        #expect(made.network.values.allSatisfy { $0.tunnel == nil })
    }
}

/// A network in memory with a device for each tunnel. It records the calls that it gets.
final class RecordingNetwork: PeerNetwork {
    let changes = Mutex<[[IPPrefix: ClientAccess?]]>([])
    private let notifier = Changes()

    /// Waits until the last change removes all of its clients.
    func hasRemovedClients() async -> Bool {
        await notifier.wait { self.changes.withLock { $0.last }?.values.allSatisfy { $0 == nil } == true }
    }

    func start() async throws(TunnelServerError) -> PeerNetworkDevices {
        do {
            let network = VirtualNetwork()
            let (device, login) = (try network.makeTun(name: "wg"), try network.makeTun(name: "login"))
            return PeerNetworkDevices(device, login: login, addresses: [])
        } catch {
            throw .notRunning
        }
    }

    func apply(
        _ new: [IPPrefix: ClientAccess?], isComplete _: Bool, released _: Set<IPPrefix>
    ) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError] {
        // The first list of a start may have no clients.
        if !new.isEmpty { changes.withLock { $0.append(new) } }
        notifier.notify()
        return [:]
    }

    func check(subnets _: [IPPrefix]) async throws(TunnelServerError) {}

    func stop() async {}
    var condition: NetworkState { NetworkState() }
}

/// A client of the login tunnel on a network in memory.
final class MemoryLogin: Sendable {
    private let device: CredentialClientDevice
    private let changes: Changes
    private let seen = Mutex<[ClientEvent]>([])
    private let keys: LoginTunnelKeys

    init(_ internet: MemoryInternet, at address: IPAddress, _ keys: LoginTunnelKeys) throws {
        self.keys = keys
        let changes = Changes()
        self.changes = changes
        device = try CredentialClientDevice(network: internet.attach([address]))
        let events = device.events
        Task { [weak self] in
            for await event in events {
                self?.seen.withLock { $0.append(event) }
                changes.notify()
            }
        }
    }

    deinit { device.close() }

    func begin(_ login: String, _ password: String) {
        device.logIn(
            CredentialClient.Configuration(
                keys: SharedKeys(server: keys.privateKey.publicKey, presharedKey: keys.presharedKey),
                login: Body.ClientAuthRequest(login: login, password: password)),
            at: [Endpoint(address: LoginRuntimeTests.address, port: 51_840)])
    }

    /// The next event.
    func next() async throws -> ClientEvent {
        _ = await changes.wait { self.seen.withLock { !$0.isEmpty } }
        return try #require(seen.withLock { $0.isEmpty ? nil : $0.removeFirst() })
    }

    func logIn(_ login: String, _ password: String) async throws -> Body.Assignment {
        begin(login, password)
        let event = try await next()
        guard case .established(let assignment) = event else { throw StoreFixture.Unexpected(what: "\(event)") }
        return assignment
    }
}

@Suite("The login tunnel next to WireGuard", .timeLimit(.minutes(2)))
struct LoginRuntimeTests {
    static let address = IPAddress.v4(198, 51, 100, 1)
    private static let password = "correct horse"

    /// A gateway with a user who has a password, and its runtime.
    private func run(
        isClockFake: Bool = false, _ change: (inout GatewaySettings) -> Void = { _ in },
        _ body: (ServiceFixture, User, GatewayRuntime, RecordingNetwork, (IPAddress) throws -> MemoryLogin) async throws
            -> Void
    ) async throws {
        let fixture = try ServiceFixture { settings in
            settings.loginTunnel.isEnabled = true
            change(&settings)
        }
        let anna = try await fixture.user()
        _ = try await fixture.service.setPassword(of: anna.id, Array(Self.password.utf8), fixture.admin)
        var random = fixture.random
        let keys = LoginTunnelKeys(
            privateKey: PrivateKey(using: &random), presharedKey: PresharedKey(using: &random))
        let (internet, network) = (MemoryInternet(), RecordingNetwork())
        var options = GatewayRuntime.Options()
        (options.sweepInterval, options.flushInterval) = (.milliseconds(50), .milliseconds(50))
        let runtime = GatewayRuntime(
            service: fixture.service, network: network, datagrams: internet.attach([Self.address]), loginKeys: keys,
            options: options, clock: isClockFake ? fixture.gatewayClock : .system,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await runtime.start()
        let running = Task { try await runtime.run() }
        try await body(fixture, anna, runtime, network) { try MemoryLogin(internet, at: $0, keys) }
        running.cancel()
        _ = await running.result
    }

    /// Waits until the runtime has a session. Does not block a thread, because the runtime's tasks need one.
    private func hasSession(_ runtime: GatewayRuntime) async -> Bool {
        let end = ContinuousClock.now + .seconds(20)
        while runtime.figures.login?.sessions != 1, ContinuousClock.now < end { await Task.yield() }
        return runtime.figures.login?.sessions == 1
    }

    @Test(
        "A client logs in and is behind the firewall with its user's rules; disabled, expired, with another password or without its device it is put out"
    )
    func session() async throws {
        try await run { fixture, anna, runtime, network, client in
            let (service, admin) = (fixture.service, fixture.admin)
            _ = try await service.setRules(of: .user(anna.id), [RuleDraft(AccessRule(.deny, transport: .udp))], admin)
            let client = try client(.v4(192, 0, 2, 10))
            let assignment = try await client.logIn("anna", Self.password)
            #expect(assignment.addresses.map(\.description) == ["10.66.0.2/32", "fd66::2/128"])
            #expect(assignment.dns == service.settings.dns && assignment.routes == [.allIPv4, .allIPv6])
            let change = try #require(network.changes.withLock { $0.first })
            #expect(change.count == 2 && change.values.allSatisfy { $0?.tunnel == "culvert-login0" })
            #expect(change.values.allSatisfy { $0?.rules.map(\.transport) == [.udp] })
            // The server counts the session once the answer is sent.
            #expect(await hasSession(runtime))
            let figures = try #require(runtime.figures.login)
            #expect(figures.accepted == 1 && runtime.figures.peers == 0)
            #expect(runtime.figures.families.contains { $0.name == "culvert_gateway_login_sessions" })

            var update = UserUpdate()
            update.isEnabled = false
            _ = try await service.updateUser(anna.id, update, admin)
            #expect(try await client.next() == .ended(.removed))
            // A round ends sessions before it waits for the network.
            #expect(await network.hasRemovedClients())
            client.begin("anna", Self.password)
            guard case .failed(.refused(let refusal)) = try await client.next() else {
                Issue.record("a disabled user was let in")
                return
            }
            #expect(refusal.reason == .credentials && refusal.message.contains("disabled"))
            update.isEnabled = true
            _ = try await service.updateUser(anna.id, update, admin)
            #expect(try await client.logIn("anna", Self.password).addresses == assignment.addresses)

            _ = try await service.setPassword(of: anna.id, Array("battery staple".utf8), admin)
            #expect(try await client.next() == .ended(.passwordChanged))
            client.begin("anna", Self.password)
            #expect(try await client.next() == .failed(.refused(Body.Refusal(.credentials))))
            _ = try await client.logIn("anna", "battery staple")

            let devices = try await service.devices(PageRequest(), admin).items
            #expect(devices.map(\.kind) == [.login])
            try await service.removeDevice(devices[0].id, admin)
            #expect(try await client.next() == .ended(.removed))
            // The addresses of the ended session are in cooldown, so the login gets others.
            #expect(try await client.logIn("anna", "battery staple").addresses.first?.description == "10.66.0.3/32")

            // The runtime continues to check for expiries while the test advances the clock.
            update.expiresAt = .some(service.now.addingTimeInterval(100))
            _ = try await service.updateUser(anna.id, update, admin)
            fixture.clock.advance(by: .seconds(100))
            #expect(try await client.next() == .ended(.removed))
        }
    }

    @Test("Without WireGuard a client logs in, no port is WireGuard's, and neither are metrics; the gateway is ready")
    func alone() async throws {
        try await run({ $0.servesWireGuard = false }) { fixture, _, runtime, network, client in
            // A client ends its session when it is released.
            let client = try client(.v4(192, 0, 2, 10))
            defer { withExtendedLifetime(client) {} }
            let assignment = try await client.logIn("anna", Self.password)
            #expect(assignment.addresses.map(\.description) == ["10.66.0.2/32", "fd66::2/128"])
            // The only interface is the first one.
            let change = try #require(network.changes.withLock { $0.first })
            #expect(change.count == 2 && change.values.allSatisfy { $0 != nil && $0?.tunnel == nil })
            // The server counts the session once the answer is sent.
            #expect(await hasSession(runtime))
            let figures = runtime.figures
            #expect(figures.port == nil && figures.login?.port == 51_840)
            #expect(runtime.readiness.isReady && figures.isCurrent)
            let names = Set(figures.families.map(\.name))
            #expect(names.isSuperset(of: ["culvert_gateway_login_sessions", "culvert_gateway_current"]))
            #expect(names.isDisjoint(with: ["culvert_gateway_peers", "culvert_gateway_handshakes_total"]))
            let device = try #require(try await fixture.service.devices(PageRequest(), fixture.admin).items.first)
            try await fixture.service.removeDevice(device.id, fixture.admin)
            #expect(await network.hasRemovedClients())
        }
    }

    @Test("A session that has lasted as long as the settings say is closed, and its client logs in again")
    func sessionLifetime() async throws {
        try await run(isClockFake: true, { $0.loginTunnel.sessionLifetimeSeconds = 60 }) { fixture, _, _, _, client in
            let client = try client(.v4(192, 0, 2, 10))
            let first = try await client.logIn("anna", Self.password)
            fixture.clock.advance(by: .seconds(61))
            #expect(try await client.next() == .ended(.closed))
            #expect(try await client.logIn("anna", Self.password).addresses == first.addresses)
        }
    }

    @Test("One session more than there may be ends the oldest and has its address, and the end tells all clients")
    func limit() async throws {
        var last: MemoryLogin?
        try await run({ $0.loginTunnel.sessionsPerUser = 1 }) { fixture, anna, runtime, _, client in
            let (one, two) = (try client(.v4(192, 0, 2, 10)), try client(.v4(192, 0, 2, 11)))
            let first = try await one.logIn("anna", Self.password)
            #expect(try await two.logIn("anna", Self.password).addresses == first.addresses)
            #expect(try await one.next() == .ended(.removed))
            // The device counts as online even if it has sent no packet.
            let changes = Changes()
            let (service, admin) = (fixture.service, fixture.admin)
            let id = try #require(try await service.devices(PageRequest(), admin).items.first).id
            let seen = Mutex(false)
            let look = Task {
                while !Task.isCancelled {
                    let device = try await service.device(id, admin)
                    if let time = device.lastSeenAt, time > fixture.service.now {
                        seen.withLock { $0 = true }
                        return changes.notify()
                    }
                    await Task.yield()
                }
            }
            #expect(await changes.wait { seen.withLock { $0 } })
            look.cancel()
            last = two
        }
        #expect(try await last?.next() == .ended(.shutdown))
    }
}
