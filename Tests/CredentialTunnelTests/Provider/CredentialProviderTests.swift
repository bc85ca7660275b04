// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import WireGuardCore

@testable import CredentialTunnel

@Suite("The login tunnel's provider", .timeLimit(.minutes(3)))
struct CredentialProviderTests {
    @Test("A provider logs in, applies the assignment, carries packets, reports status and disconnects")
    func login() async throws {
        let scene = try ProviderScene()
        try await scene.start()
        #expect(scene.host.status.status == .connected)
        let settings = try #require(scene.host.platform.settings)
        #expect(settings.addresses == [InterfaceAddress(host: ProviderScene.inner)])
        #expect(settings.includedRoutes == [.allIPv4] && settings.dns?.servers == [.v4(10, 7, 0, 1)])
        #expect(settings.mtu == 1420 && settings.remoteAddress == "vpn.example")
        #expect(await scene.passes())
        let status = try await scene.status()
        #expect(
            status.state == .connected && status.login == "kean" && status.receivedBytes > 0 && status.sentBytes > 0)
        #expect(status.server == "198.51.100.1:4500" && status.keyAge.map { $0 < 60 } == true)
        await scene.host.stop(.userInitiated)
        #expect(await scene.changes.wait { scene.server.store.state.withLock { $0.ended } == [.closed] })
        await scene.stop()
    }

    @Test("The status is trying during the first and each later login")
    func trying() {
        let trying = CredentialState.allCases.filter { state in
            CredentialStatusRequest.Reply(state: state, login: "anna", receivedBytes: 0, sentBytes: 0, drops: [:])
                .status.isTrying
        }
        #expect(trying == [.connecting, .reconnecting])
    }

    @Test("A refusal ends the start with the server's reason and without applied settings")
    func refusal() async throws {
        let scene = try ProviderScene()
        let error = await scene.failure(password: "wrong")
        #expect(error?.code == .authenticationFailed)
        #expect(error?.message.contains("no such user, or another password") == true)
        #expect(scene.host.platform.settings == nil)
        #expect(await scene.reaches(.disconnected))
        scene.server.store.state.withLock { $0.refusal = Body.Refusal(.full, message: "all 250 addresses are in use") }
        let full = await scene.failure()
        // A later attempt may succeed.
        #expect(full?.code == .serverUnreachable && full?.message.contains("all 250 addresses") == true)
        await scene.stop()
    }

    @Test("A different server key is distinguished from an unreachable server")
    func pin() async throws {
        let scene = try ProviderScene(loginDeadline: .seconds(1)) {
            $0.serverKey = FixedKeys.privateKey(FixedKeys.serverEphemeral).publicKey.base64
        }
        #expect(await scene.failure()?.code == .keyMismatch)
        await scene.stop()
    }

    @Test("A rogue server with only the pre-shared key fails, and receives no password")
    func rogue() async throws {
        let scene = try ProviderScene(serverKey: FixedKeys.clientEphemeral, loginDeadline: .seconds(1))
        let seen = Eavesdropper<[UInt8]>()
        scene.internet.setFilter { datagram in
            seen.observe(datagram.bytes)
            return true
        }
        #expect(await scene.failure()?.code == .keyMismatch)
        #expect(scene.logins == 0)
        // Only hellos were sent, because there was no session in which to send a login.
        let codes = Set(seen.messages.compactMap { PacketCode(rawValue: $0.first ?? 0) })
        #expect(codes == [.clientHello, .error])
        await scene.stop()
    }

    @Test("A different pre-shared key is distinguished from an unreachable server")
    func presharedKey() async throws {
        let scene = try ProviderScene(loginDeadline: .seconds(1))
        #expect(await scene.failure(presharedKey: FixedKeys.server)?.code == .keyMismatch)
        await scene.stop()
    }

    @Test("A spoofed response does not abort a login")
    func spoof() async throws {
        let scene = try ProviderScene()
        let spoofed = Atomic<Int>(0)
        scene.internet.setFilter { datagram in
            // An attacker's response arrives first.
            if datagram.source == LoginServer.address, spoofed.add(1, ordering: .relaxed).oldValue == 0 {
                datagram.bytes[20] ^= 1
            }
            return true
        }
        try await scene.start()
        #expect(scene.host.status.status == .connected && spoofed.load(ordering: .relaxed) > 1)
        await scene.stop()
    }

    @Test("Without a response, the start ends at its deadline with an error")
    func nothing() async throws {
        let scene = try ProviderScene(loginDeadline: .seconds(1))
        scene.internet.setFilter { $0.source != LoginServer.address }
        let error = await scene.failure()
        #expect(error?.code == .serverUnreachable)
        #expect(error?.message.contains("no response") == true)
        await scene.stop()
    }

    @Test("An invalid configuration is refused with all problems, and a missing secret is refused")
    func invalid() async throws {
        let scene = try ProviderScene {
            $0.server = "no port"
            $0.serverKey = "short"
            $0.login = ""
        }
        let error = await scene.failure()
        #expect(error?.code == .configurationInvalid)
        #expect(error?.problems.map(\.field) == ["server", "serverKey", "login"])
        #expect(await scene.failure(presharedKey: [1, 2, 3])?.code == .configurationInvalid)
        let other = try ProviderScene()
        #expect(await other.failure(presharedKey: [1, 2, 3])?.code == .secretUnavailable)
        let offline = try ProviderScene(path: NetworkPath(status: .unsatisfied))
        #expect(await offline.failure()?.code == .networkUnavailable)
        for scene in [scene, other, offline] { await scene.stop() }
    }

    @Test("On another network the session continues without a login, confirmed by new keys")
    func roaming() async throws {
        let scene = try ProviderScene()
        try await scene.start()
        #expect(await scene.passes())
        scene.host.pathChanged(NetworkPath(status: .unsatisfied))
        #expect(await scene.reaches(.reasserting))
        scene.network.move(to: [.v4(0xc000_0277)])
        scene.host.pathChanged(ProviderScene.cellular)
        #expect(await scene.reaches(.connected))
        #expect(await scene.passes(2))
        #expect(scene.server.running.sessions.map(\.endpoint.address) == [.v4(0xc000_0277)])
        #expect(scene.logins == 1)
        await scene.stop()
    }

    @Test("After a restart of the server, the provider logs in again and packets pass")
    func restart() async throws {
        let scene = try ProviderScene()
        // On a loaded machine a login may be repeated, and the next one would get the address after this one.
        scene.server.store.state.withLock { $0.fixed = ProviderScene.inner }
        try await scene.start()
        #expect(await scene.passes())
        try await scene.server.restart(scene.internet)
        #expect(await scene.changes.wait { scene.logins >= 2 })
        #expect(await scene.passes(2))
        // Packets pass before the host has the new status.
        #expect(await scene.reaches(.connected))
        await scene.stop()
    }

    @Test("Logins to an unreachable server are repeated with pauses until it responds")
    func pauses() async throws {
        let clock = VirtualClock()
        let scene = try ProviderScene(clock: clock, loginDeadline: .seconds(2))
        try await scene.start()
        // The server disconnects, and does not respond to several attempts.
        await scene.server.running.stop()
        #expect(await scene.reaches(.reasserting))
        let hellos = Atomic<Int>(0)
        let changes = scene.changes
        scene.internet.setFilter { datagram in
            if datagram.bytes.first == PacketCode.clientHello.rawValue { hellos.add(1, ordering: .relaxed) }
            changes.notify()
            return true
        }
        func pass(until condition: () -> Bool) async -> Bool {
            for _ in 0..<1000 {
                if condition() { return true }
                _ = await changes.wait(within: .milliseconds(20)) { condition() }
                clock.advance(by: .seconds(1))
            }
            return false
        }
        #expect(await pass { hellos.load(ordering: .relaxed) > 3 })
        #expect(scene.logins == 1 && scene.host.status.status == .reasserting)
        try await scene.server.restart(scene.internet)
        #expect(await pass { scene.host.status.status == .connected })
        await scene.stop()
    }

    @Test("Keys are renewed while packets pass, without the password")
    func rekey() async throws {
        let scene = try ProviderScene(rekeyAfter: .milliseconds(100))
        try await scene.start()
        try await scene.secrets.remove("password", of: "test")
        var sequence: UInt16 = 0
        #expect(
            await scene.changes.wait(within: .seconds(30)) {
                sequence += 1
                _ = await scene.passes(sequence)
                return sequence > 20
            })
        #expect(try await scene.status().keyAge.map { $0 < 30 } == true)
        #expect(scene.logins == 1)
        await scene.stop()
    }

    @Test("A session that the server removes, or a changed password, ends the tunnel")
    func removed() async throws {
        let scene = try ProviderScene()
        try await scene.start()
        let session = try #require(scene.server.running.sessions.first)
        scene.server.running.disconnect(session.id, .removed)
        #expect(await scene.reaches(.disconnected))
        #expect(scene.host.status.error?.code == .sessionTerminated)

        // The message names the cause.
        try await scene.start()
        let next = try #require(scene.server.running.sessions.first)
        scene.server.running.disconnect(next.id, .passwordChanged)
        #expect(await scene.reaches(.disconnected))
        #expect(scene.host.status.error?.code == .sessionTerminated)
        #expect(scene.host.status.error?.message.contains("password was changed") == true)

        try await scene.start()
        scene.server.store.state.withLock { $0.users = ["kean": "another"] }
        // The server announces its shutdown, and starts again.
        await scene.server.running.stop()
        #expect(await scene.reaches(.reasserting))
        try await scene.server.restart(scene.internet)
        #expect(await scene.reaches(.disconnected))
        #expect(scene.host.status.error?.code == .authenticationFailed)
        await scene.stop()
    }

    @Test("The first login ends after the time of the configuration")
    func loginTimeout() async throws {
        let scene = try ProviderScene(loginDeadline: .seconds(3600)) { $0.loginTimeout = 0.2 }
        await scene.server.running.stop()
        let error = await scene.failure()
        #expect(error?.code == .serverUnreachable)
        let invalid = try ProviderScene { $0.loginTimeout = 0 }
        #expect(invalid.configuration.validate().map(\.field) == ["loginTimeout"])
        await scene.stop()
    }

    @Test("A configuration survives a JSON round trip with omitted defaults")
    func json() throws {
        let text = #"{"server":"vpn.example:4500","serverKey":"k","login":"kean"}"#
        let configuration = try JSONCoding.decode(CredentialTunnelConfiguration.self, text)
        #expect(
            configuration == CredentialTunnelConfiguration(server: "vpn.example:4500", serverKey: "k", login: "kean"))
        var full = configuration
        full.excludedRoutes = [.allIPv6]
        full.leakPolicy = .everything
        full.allowsLocalNetwork = true
        full.loginTimeout = 20
        #expect(try JSONCoding.decode(CredentialTunnelConfiguration.self, JSONCoding.encode(full)) == full)
    }
}
