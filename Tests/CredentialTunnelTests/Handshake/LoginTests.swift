// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import Testing
import WireGuardCore

@testable import CredentialTunnel

@Suite("Logging in")
struct LoginTests {
    private func seconds(_ sent: [(at: Int64, bytes: [UInt8])], since start: Int64) -> [Double] {
        sent.map { Double($0.at - start) / 1e9 }
    }

    private func code(_ bytes: [UInt8]) -> PacketCode? { bytes.first.flatMap(PacketCode.init) }

    @Test("A login takes two round trips, and then packets pass in both directions")
    func login() {
        let world = World.loggedIn()
        #expect(world.clientSent.map { code($0.bytes) } == [.clientHello, .clientAuthRequest])
        #expect(world.serverSent.map { code($0.bytes) } == [.serverHello, .serverAuthResponse])
        #expect(world.carries())
        #expect(world.server.establishedCount == 1)
        #expect(world.server.waitingCount == 0)
    }

    @Test("A hello without a response is repeated after 0.5, 1.5, 3.5 and 7.5 seconds, and fails after 10")
    func retransmission() {
        let world = World(LinkConditions(loss: 1))
        let start = world.clock.nanoseconds
        world.start()
        world.run(for: .seconds(60))
        #expect(seconds(world.clientSent, since: start) == [0, 0.5, 1.5, 3.5, 7.5])
        #expect(Set(world.clientSent.map(\.bytes)).count == 1)
        #expect(world.clientSaid == [.failed(.unreachable(.hello))])
        #expect(world.client.nextDeadline == nil)
    }

    @Test("The deadline is exactly 10 seconds after the start")
    func deadline() {
        let world = World(LinkConditions(loss: 1))
        world.start()
        world.run(for: .seconds(10) - .nanoseconds(1))
        #expect(world.clientSaid.isEmpty)
        world.run(for: .nanoseconds(1))
        #expect(world.clientSaid == [.failed(.unreachable(.hello))])
    }

    @Test("Each repetition of a login is sealed again, and the error names the stage")
    func loginUnanswered() {
        let world = World()
        world.verdict = { _ in nil }
        let start = world.clock.nanoseconds
        world.start()
        world.run(for: .seconds(20))
        let logins = world.clientSent.filter { code($0.bytes) == .clientAuthRequest }
        #expect(seconds(logins, since: start) == [0, 0.5, 1.5, 3.5, 7.5])
        #expect(Set(logins.map(\.bytes)).count == 5)
        #expect(world.clientSaid == [.failed(.unreachable(.login))])
        // The driver receives one request.
        #expect(world.serverSaid.count == 1)
    }

    @Test("A late verdict is applied, and one after the client left releases the assignment")
    func lateVerdict() throws {
        let world = World()
        world.verdict = { _ in nil }
        world.start()
        world.run(for: .seconds(3))
        guard case .verify(let id, _, let source)? = world.serverSaid.first else { throw Missing() }
        #expect(source == World.address)
        world.perform(world.answer(id, .accepted(World.assignment)))
        world.run()
        #expect(world.clientSaid == [.established(World.assignment)])
        #expect(world.carries())
        // A second verdict has no effect.
        #expect(world.answer(id, .refused(Body.Refusal(.credentials))).isEmpty)

        let slow = World()
        slow.verdict = { _ in nil }
        slow.start()
        slow.run(for: .seconds(200))
        guard case .verify(let gone, _, _)? = slow.serverSaid.first else { throw Missing() }
        #expect(slow.answer(gone, .accepted(World.assignment)) == [.left(gone, .expired)])
        #expect(slow.server.tableCounts == (0, 0))
    }

    struct Missing: Error {}

    @Test("A lost response is repeated, and the settings are applied once")
    func answerLost() {
        let world = World()
        world.start()
        world.serverReceives(world.clientSent[0].bytes)
        world.clientReceives(world.serverSent[0].bytes)
        world.up.dropAll()
        world.down.dropAll()
        world.serverReceives(world.clientSent[1].bytes)
        #expect(code(world.serverSent[1].bytes) == .serverAuthResponse)
        world.down.dropAll()
        world.run(for: .seconds(2))
        #expect(world.clientSaid == [.established(World.assignment)])
        #expect(world.server.establishedCount == 1)
        // The first response arrives late.
        #expect(world.clientReceives(world.serverSent[1].bytes).isEmpty)
        #expect(world.clientReceives(world.serverSent[2].bytes).isEmpty)
        #expect(world.clientSaid.count == 1)
    }

    @Test("A refusal ends the login immediately, with the server's reason")
    func refusal() {
        let world = World()
        let refusal = Body.Refusal(.full, message: "No address is free")
        world.verdict = { _ in .refused(refusal) }
        world.start()
        world.run()
        #expect(world.clientSaid == [.failed(.refused(refusal))])
        #expect(world.server.establishedCount == 0)
        world.run(for: .seconds(11))
        #expect(world.server.tableCounts == (0, 0))
    }

    @Test("A wrong password and an unknown login get byte-identical responses")
    func sameRefusal() {
        func answer(_ password: String) -> [UInt8] {
            let world = World(password: password)
            world.start()
            world.run()
            #expect(world.clientSaid == [.failed(.refused(Body.Refusal(.credentials)))])
            return world.serverSent.last?.bytes ?? []
        }
        // The seed determines keys and counters, so that equal texts produce equal datagrams.
        #expect(answer("wrong") == answer("as wrong, and longer"))
    }

    @Test("A login that is not JSON is refused like a wrong password")
    func loginNotJSON() throws {
        let world = World()
        world.start()
        world.serverReceives(world.clientSent[0].bytes)
        world.clientReceives(world.serverSent[0].bytes)
        let index = try MessageDecoder.header(of: world.clientSent[0].bytes).index
        let session = try #require(world.clientSession(index))
        world.up.dropAll()
        let junk = try #require(session.seal(.clientAuthRequest, Array("{}".utf8)))
        world.serverReceives(junk)
        world.run()
        #expect(world.clientSaid == [.failed(.refused(Body.Refusal(.credentials)))])
        #expect(world.serverSaid.isEmpty)
    }

    @Test("An authentic but unreadable response has a separate error")
    func badAnswer() throws {
        let world = World()
        world.verdict = { _ in nil }
        world.start()
        world.run()
        let index = try MessageDecoder.header(of: world.clientSent[1].bytes).index
        let session = try #require(world.serverSession(index))
        world.clientReceives(try #require(session.seal(.serverAuthResponse, Array("{}".utf8))))
        #expect(world.clientSaid == [.failed(.invalidResponse(.notJSON("'isOK' is missing")))])
    }

    @Test("A login that cannot be sent fails before anything is sent")
    func invalidLogin() {
        let world = World(password: String(repeating: "x", count: 513))
        world.start()
        #expect(world.clientSent.isEmpty)
        guard case .failed(.invalidLogin)? = world.clientSaid.first else {
            Issue.record("\(world.clientSaid)")
            return
        }
    }

    @Test("A pinned key of low order is refused before anything is sent")
    func lowOrderKey() throws {
        let zero = try #require(PublicKey(bytes: [UInt8](repeating: 0, count: 32)))
        var client = CredentialClient(
            CredentialClient.Configuration(
                keys: SharedKeys(server: zero, presharedKey: FixedKeys.preshared()),
                login: Body.ClientAuthRequest(login: "kean", password: "123456")), random: SeededGenerator(seed: 1))
        let actions = client.start(at: Instant(nanoseconds: 0))
        #expect(actions == [.failed(.invalidServerKey)])
    }

    // MARK: - Key mismatches

    @Test("With a wrong key, the error at the deadline is a key mismatch", arguments: [true, false])
    func keyMismatch(isServerKey: Bool) {
        let other = [UInt8](repeating: 7, count: 32)
        let world =
            isServerKey ? World(pinned: other) : World(clientPresharedKey: other)
        world.start()
        world.run(for: .seconds(9))
        #expect(world.clientSaid.isEmpty)
        world.run(for: .seconds(1))
        #expect(world.clientSaid == [.failed(.keyMismatch)])
        #expect(world.server.tableCounts == (0, 0))
        #expect(world.server.statistics.wrongKeys == 5)
    }

    @Test("A spoofed response does not abort a login")
    func spoofedAnswer() throws {
        let world = World()
        world.start()
        let index = try MessageDecoder.header(of: world.clientSent[0].bytes).index
        for code in [PacketCode.serverHello, .cookie, .error] {
            let junk = Header(code: code, index: index).bytes
            world.clientReceives(junk + [UInt8](repeating: 1, count: code.lengths.lowerBound - junk.count))
        }
        world.run()
        #expect(world.clientSaid == [.established(World.assignment)])
    }

    @Test("A rogue server without the private key fails, and receives no password")
    func rogueServer() throws {
        // This server has its own static key, and the clients pin another key.
        let rogueKey = [UInt8](repeating: 9, count: 32)
        let world = World(serverKey: rogueKey)
        world.start()
        let hello = world.clientSent[0].bytes
        let index = try MessageDecoder.header(of: hello).index
        let genuine = SharedKeys(server: FixedKeys.privateKey().publicKey, presharedKey: FixedKeys.preshared())
        // The server can compute everything that needs no private key, such as the MAC, by which it recognises hellos.
        #expect(unsafe hello.withUnsafeBytes { unsafe CookieChecker.isMac1Valid($0, key: genuine.mac1Key) })
        // The server can create a server hello except for the result of es, which it has to guess.
        for guess in [FixedKeys.privateKey(rogueKey), FixedKeys.privateKey(FixedKeys.serverEphemeral)] {
            var state = SymmetricState(protocolName: NoiseNK.name)
            let prologue = SharedKeys.prologue(hello: Header(code: .clientHello, index: index))
            unsafe prologue.withUnsafeBytes { unsafe state.mixHash($0) }
            state.mixHash(Bytes32(genuine.server))
            let theirs = unsafe hello.withUnsafeBytes {
                unsafe Bytes32(loadingFrom: $0.baseAddress.unsafelyUnwrapped + Layout.ClientHello.noise)
            }
            state.mixHash(theirs)
            state.mixKey(theirs)
            let es = try #require(X25519.sharedSecret(secret: Bytes32(copying: guess.secret), publicKey: theirs))
            _ = state.mixKeyAndDerive(es)
            let sealed = Array(hello[(Layout.ClientHello.noise + 32)..<Layout.ClientHello.mac1])
            unsafe sealed.withUnsafeBytes { unsafe state.mixHash($0) }
            let own = Bytes32(copying: guess.secret)
            let ownPublic = X25519.publicKey(for: own)
            state.mixHash(ownPublic)
            state.mixKey(ownPublic)
            state.mixKey(es)
            let key = state.mixKeyAndHash(genuine.presharedKey)
            var message = [UInt8](repeating: 0, count: Layout.ServerHello.noiseByteCount)
            unsafe message.withUnsafeMutableBytes { out in
                let base = unsafe out.baseAddress.unsafelyUnwrapped
                unsafe ownPublic.store(to: base)
                unsafe [UInt8](arrayLiteral: 1, 2, 3, 4).withUnsafeBytes {
                    unsafe state.sealAndHash($0, key: key, into: base + 32)
                }
            }
            world.clientReceives(Header(code: .serverHello, index: index).bytes + message)
        }
        world.run(for: .seconds(20))
        #expect(world.clientSaid == [.failed(.keyMismatch)])
        // The client sent only hellos, and no login, sealed or not.
        #expect(world.clientSent.allSatisfy { code($0.bytes) == .clientHello })
        #expect(world.serverSaid.isEmpty)
    }
}
