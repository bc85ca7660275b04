// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CredentialTunnel
import Crypto
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO

@testable import LoginTunnelTutorial

@Suite("Steps of the tutorial", .timeLimit(.minutes(2)))
struct LoginTunnelTutorialTests {
    static let address = InterfaceAddress(host: .v4(10, 7, 0, 2))
    static let server = IPAddress.v4(198, 51, 100, 1)

    /// A step of the tutorial in a memory host, with a server.
    struct Scene<Step: PacketTunnelProvider> where Step.Configuration == LoginConfiguration {
        let clock = VirtualClock()
        let internet = MemoryInternet()
        let secrets = MemorySecretStore()
        let server: Server
        let host: MemoryHost<Step>

        init(_ step: @escaping @Sendable (any DatagramNetwork) -> Step) throws {
            server = try Server(
                over: internet.attach([LoginTunnelTutorialTests.server]), port: 4500, users: ["kean": "123456"]
            ) { [changes = clock.changes] in changes.notify() }
            let network = internet.attach([.v4(192, 0, 2, 10)])
            host = MemoryHost(secrets: secrets, clock: clock) { step(network) }
            host.platform.setDeliveryHandler { [changes = clock.changes] in changes.notify() }
            clock.changes.follow(host.statusUpdates())
        }

        func start(password: String = "123456", port: Int = 4500) async throws {
            try await secrets.write(SecretBytes(Array(password.utf8)), "password", of: "test")
            let configuration = LoginConfiguration(
                server: "\(LoginTunnelTutorialTests.server):\(port)", serverKey: server.key.publicKey.rawRepresentation,
                login: "kean")
            try await host.start(configuration, profileID: "test")
        }

        /// Returns the code of the error that a start throws.
        func failure(password: String = "123456", port: Int = 4500) async -> TunnelError.Code? {
            do {
                try await start(password: password, port: port)
                return nil
            } catch {
                return (error as? TunnelError)?.code
            }
        }

        func passes() async -> Bool { await LoginTunnelTutorialTests.passes(host.platform, clock.changes) }
        /// Returns whether the tunnel is connected after this number of logins.
        func logins(_ count: Int) async -> Bool {
            await clock.changes.wait {
                server.state.withLock { $0.logins } == count && host.status.status == .connected
            }
        }
    }

    /// Returns whether a ping into the tunnel is answered.
    static func passes(_ platform: MemoryPlatform, _ changes: Changes) async -> Bool {
        let ping = PacketBuilder.icmpEcho(from: address.address, to: .v4(10, 7, 0, 1), identifier: 7, sequence: 1)
        let answer = VirtualNetwork().receive(ping)
        platform.inject(ping)
        return await changes.wait { platform.takeDelivered().contains { $0 == answer } }
    }

    @Test("The first steps start and stop, apply settings, and answer a ping")
    func withoutServer() async throws {
        #expect(try await runInMemory() == [.connected, .disconnected])
        let addressed = MemoryHost<AddressedTunnel>()
        try await addressed.start(AddressedTunnel.Configuration(address: Self.address))
        #expect(addressed.platform.settings?.addresses == [Self.address])
        await addressed.stop(.userInitiated)
        let (answering, changes) = (MemoryHost<AnsweringTunnel>(), Changes())
        answering.platform.setDeliveryHandler { changes.notify() }
        try await answering.start(AnsweringTunnel.Configuration(address: Self.address))
        #expect(await Self.passes(answering.platform, changes))
        await answering.stop(.userInitiated)
    }

    @Test("A login applies the server's settings, and sealed packets pass in both directions")
    func login() async throws {
        let first = try Scene { LoginTunnel(network: $0) }
        try await first.start()
        #expect(first.host.platform.settings?.addresses == [Self.address])
        await first.host.stop(.userInitiated)
        let second = try Scene { SealedTunnel(network: $0) }
        try await second.start()
        #expect(await second.passes())
        await second.host.stop(.userInitiated)
        #expect(await second.clock.changes.wait { second.server.state.withLock { $0.goodbyes } == 1 })
    }

    @Test("The last step logs in again on another network, and if the server stops responding")
    func lasting() async throws {
        let scene = try Scene { LastingTunnel(network: $0) }
        try await scene.start()
        #expect(await scene.passes())
        scene.host.pathChanged(NetworkPath(interfaces: [.init(name: "pdp0", kind: .cellular, index: 2)]))
        #expect(await scene.logins(2))
        #expect(await scene.passes())
        // The server restarts without sessions. Three keepalives get no response, and at the fourth time the link ends.
        scene.server.state.withLock { $0.sessions = [:] }
        for _ in 0..<4 {
            await scene.clock.waitForSleepers()
            scene.clock.advance(by: .seconds(10))
        }
        #expect(await scene.logins(3))
        #expect(await scene.passes())
        await scene.host.stop(.userInitiated)
    }

    @Test(
        "A wrong password, a missing response and a wrong server key have different errors")
    func errors() async throws {
        let scene = try Scene { LastingTunnel(network: $0) }
        #expect(await scene.failure(password: "wrong") == .authenticationFailed)
        #expect(scene.host.platform.settings == nil)
        let alone = try Scene { LastingTunnel(network: $0) }
        let hellos = Atomic<Int>(0)
        alone.internet.setFilter { [changes = alone.clock.changes] _ in
            hellos.add(1, ordering: .sequentiallyConsistent)
            changes.notify()
            return true
        }
        async let failure = alone.failure(port: 4501)
        #expect(
            await alone.clock.changes.wait {
                // The clock has two waiters: the start's deadline and the next hello.
                let waits = hellos.load(ordering: .sequentiallyConsistent) > 0 && alone.clock.sleeperCount > 1
                if waits { alone.clock.advance(by: .seconds(1)) }
                return alone.host.status.error != nil
            })
        let code = await failure
        #expect(code == .serverUnreachable && hellos.load(ordering: .sequentiallyConsistent) == 10)
        let handshake = Handshake(with: Curve25519.KeyAgreement.PrivateKey().publicKey)
        let reply = try #require(scene.server.answer(handshake.hello, from: .loopback(port: 1)))
        #expect(handshake.session(from: reply) == nil)
    }

    @Test("The server passes no packet of a client without an accepted login")
    func withoutLogin() throws {
        let scene = try Scene { LastingTunnel(network: $0) }
        let handshake = Handshake(with: scene.server.key.publicKey)
        let source = Endpoint.loopback(port: 1)
        let reply = try #require(scene.server.answer(handshake.hello, from: source))
        var session = try #require(handshake.session(from: reply))
        let ping = PacketBuilder.icmpEcho(
            from: .v4(10, 7, 0, 2), to: .v4(10, 7, 0, 1), identifier: 1, sequence: 1, payload: [])
        let sealed = session.seal(.data, ping)
        let datagram = try #require(sealed)
        #expect(scene.server.answer(datagram, from: source) == nil)
    }

    @Test(
        "The app installs a profile, reports a wrong password, connects to the server over UDP, and removes the profile"
    )
    @MainActor func app() async throws {
        let server = try Server(over: SystemDatagramNetwork(), port: 0, users: ["ada": "lovelace", "kean": "123456"])
        let (host, changes) = (MemoryHost<LastingTunnel>(), Changes())
        host.platform.setDeliveryHandler { changes.notify() }
        changes.follow(host.statusUpdates())
        let model = AppModel(TunnelManager(host))
        await model.load()
        #expect(model.profile == nil && model.problem == nil)
        await model.install(
            LoginConfiguration(
                server: "127.0.0.1:\(server.port)", serverKey: server.key.publicKey.rawRepresentation, login: "ada"),
            password: "wrong")
        #expect(model.profile?.userName == "ada" && model.problem == nil)
        await model.toggle()
        #expect(model.message?.contains("refused the login") == true)
        #expect(await changes.wait { host.status.status == .disconnected })

        await model.setPassword("lovelace")
        await model.toggle()
        #expect(model.problem == nil && host.status.status == .connected)
        #expect(host.platform.settings?.addresses == [Self.address])
        #expect(await Self.passes(host.platform, changes))
        // A running tunnel reconnects with a changed password.
        await model.setPassword("lovelace")
        #expect(model.problem == nil && host.status.status == .connected)
        #expect(server.state.withLock { $0.logins } >= 3)
        await model.remove()
        #expect(model.profile == nil && host.status.status == .disconnected)
    }

    @Test("A session opens each datagram once, and no changed or reflected one")
    func sealing() throws {
        let (one, other) = (SymmetricKey(size: .bits256), SymmetricKey(size: .bits256))
        var (client, server) = (
            Session(index: 7, sealing: one, opening: other), Session(index: 9, sealing: other, opening: one)
        )
        let sealed = client.seal(.data, [1, 2, 3])
        let datagram = try #require(sealed)
        var changed = datagram
        changed[4] ^= 1
        let opened = [server.open(changed), client.open(datagram), server.open(datagram), server.open(datagram)]
        #expect(opened.map { $0?.body } == [nil, nil, [1, 2, 3], nil])
    }
}
