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

@Suite("The login tunnel's devices", .timeLimit(.minutes(3)))
struct CredentialDeviceTests {
    private let internet = MemoryInternet()
    private let changes = Changes()

    private func client(_ last: UInt32 = 10) throws -> LoginClient {
        try LoginClient(on: internet, at: 0xc000_0200 + last, changes: changes)
    }

    private func inner(_ last: UInt8) -> IPAddress { .v4(10, 7, 0, last) }

    @Test("After a login packets pass in both directions, and the store receives the session's end once")
    func login() async throws {
        let server = try LoginServer(on: internet, changes: changes)
        let client = try client()
        client.logIn()
        guard case .established(let assignment)? = await client.event() else {
            Issue.record("\(client.events)")
            return
        }
        #expect(assignment.addresses == [InterfaceAddress(host: inner(2))])
        try client.device.attach(client.tun)
        #expect(await client.passes(from: inner(2)))
        let session = try #require(server.running.sessions.first)
        #expect(session.login == "kean" && session.moved.receivedPackets > 0 && session.moved.sentPackets > 0)
        #expect(session.endpoint.address == .v4(0xc000_020a))
        #expect(client.device.statistics.receivedPackets > 0)
        client.device.close()
        #expect(await changes.wait { server.store.state.withLock { $0.ended } == [.closed] })
        #expect(server.running.sessions.isEmpty && server.running.statistics.accepted == 1)
        await server.running.stop()
        #expect(server.store.state.withLock { $0.ended } == [.closed])
    }

    @Test("A refused client receives the reason, and a later login of the same device may succeed")
    func refusal() async throws {
        let server = try LoginServer(on: internet, changes: changes)
        let client = try client()
        client.logIn("kean", "wrong")
        let refusal = Body.Refusal(.credentials, message: "no such user, or another password")
        #expect(await client.event(0) == .failed(.refused(refusal)))
        client.logIn()
        guard case .established? = await client.event(1) else {
            Issue.record("\(client.events)")
            return
        }
        #expect(server.running.statistics.refused == 1)
        client.device.close()
        await server.running.stop()
    }

    @Test("Packets from an unassigned address, or to one, are dropped and counted")
    func sources() async throws {
        let server = try LoginServer(on: internet, changes: changes)
        let client = try client()
        client.logIn()
        _ = await client.event()
        try client.device.attach(client.tun)
        #expect(await client.passes(from: inner(2)))
        let before = server.behind.statistics.packetsReceived
        for _ in 0..<10 {
            client.tun.inject(
                PacketBuilder.icmpEcho(
                    from: inner(3), to: LoginClient.target, identifier: 1, sequence: 1, payload: [1]))
        }
        // When these packets have arrived, earlier packets on the same path have arrived too.
        #expect(await client.passes(from: inner(2), sequence: 2))
        let statistics = server.running.statistics
        #expect(statistics.disallowedSource == 10)
        #expect(server.behind.statistics.packetsReceived > before)
        client.device.close()
        await server.running.stop()
    }

    @Test("Two clients have different addresses, and each receives its own packets")
    func two() async throws {
        let server = try LoginServer(on: internet, changes: changes)
        let (kean, ada) = (try client(10), try client(11))
        kean.logIn()
        _ = await kean.event()
        ada.logIn("ada", "lovelace")
        _ = await ada.event()
        try kean.device.attach(kean.tun)
        try ada.device.attach(ada.tun)
        #expect(await kean.passes(from: inner(2)))
        #expect(await ada.passes(from: inner(3)))
        #expect(Set(server.running.sessions.map(\.login)) == ["kean", "ada"])
        // The server notifies both that it shuts down.
        await server.running.stop()
        #expect(await kean.event(1) == .ended(.shutdown))
        #expect(await ada.event(1) == .ended(.shutdown))
        #expect(server.store.state.withLock { $0.ended } == [.shutdown, .shutdown])
        for client in [kean, ada] { client.device.close() }
    }

    @Test("A server that shuts down notifies more clients than its queue of answers has places")
    func shutdown() async throws {
        var options = CredentialServerDevice.Options()
        options.limits.answers = 2
        let server = try LoginServer(on: internet, changes: changes, options: options)
        let clients = try (20..<26).map { try client(UInt32($0)) }
        for client in clients {
            client.logIn()
            _ = await client.event()
        }
        await server.running.stop()
        for client in clients { #expect(await client.event(1) == .ended(.shutdown)) }
        for client in clients { client.device.close() }
    }

    @Test("Sessions continue after a change of the client's address and with new sockets")
    func roaming() async throws {
        let server = try LoginServer(on: internet, changes: changes)
        let client = try client()
        client.logIn()
        _ = await client.event()
        try client.device.attach(client.tun)
        #expect(await client.passes(from: inner(2)))
        client.network.move(to: [.v4(0xc000_0277)])
        try client.device.rebind()
        #expect(
            await changes.wait(within: .seconds(20)) {
                server.running.sessions.first?.endpoint.address == .v4(0xc000_0277)
                    ? true : await client.passes(from: self.inner(2), sequence: 2, within: 1)
            })
        #expect(await client.passes(from: inner(2), sequence: 3))
        #expect(server.running.sessions.first?.endpoint.address == .v4(0xc000_0277))
        #expect(client.events.dropFirst().allSatisfy { $0 == .renewed })
        client.device.close()
        await server.running.stop()
    }

    @Test("Keys are renewed while packets pass, without another login")
    func rekey() async throws {
        var options = CredentialServerDevice.Options()
        options.limits.rekeyGap = .milliseconds(1)
        let server = try LoginServer(on: internet, changes: changes, options: options)
        let client = try client()
        var timing = SessionTiming()
        timing.rekeyAfter = .milliseconds(50)
        client.logIn(timing: timing)
        _ = await client.event()
        try client.device.attach(client.tun)
        for sequence in 1...20 { #expect(await client.passes(from: inner(2), sequence: UInt16(sequence))) }
        #expect(
            await changes.wait(within: .seconds(20)) {
                _ = await client.passes(from: self.inner(2), sequence: 99, within: 1)
                return client.device.rekeys > 2
            })
        #expect(server.store.state.withLock { $0.attempts.count } == 1)
        client.device.close()
        await server.running.stop()
    }

    @Test("A server that lost its sessions causes a login that replaces the old session")
    func restart() async throws {
        let server = try LoginServer(on: internet, changes: changes)
        let client = try client()
        client.logIn()
        _ = await client.event()
        try client.device.attach(client.tun)
        #expect(await client.passes(from: inner(2)))
        try await server.restart(internet)
        #expect(await client.passes(from: inner(2), sequence: 2, within: 1) == false)
        #expect(await client.event(1) == .mayBeUnknown)
        client.logIn()
        guard case .established? = await client.event(2) else {
            Issue.record("\(client.events)")
            return
        }
        #expect(await client.passes(from: inner(2), sequence: 3))
        client.device.close()
        await server.running.stop()
    }

    @Test("The queue of logins is bounded, and a client of a dropped login repeats it")
    func queue() async throws {
        var options = CredentialServerDevice.Options()
        options.limits.verifications = 2
        let server = try LoginServer(on: internet, changes: changes, options: options)
        let gate = Event()
        server.store.state.withLock { $0.gate = gate }
        let clients = try (20..<25).map { try client(UInt32($0)) }
        // Check again after every datagram.
        let changes = changes
        internet.setFilter { _ in
            changes.notify()
            return true
        }
        for client in clients { client.logIn() }
        #expect(
            await changes.wait(within: .seconds(20)) {
                // One login is being verified, and one waits.
                server.running.statistics.protocolDrops.verificationsFull > 0
                    && server.store.state.withLock { $0.attempts.count } == 1
            })
        gate.signal()
        for client in clients {
            guard case .established? = await client.event() else {
                Issue.record("\(client.events)")
                continue
            }
        }
        #expect(server.store.state.withLock { $0.attempts.count } == 5)
        for client in clients { client.device.close() }
        await server.running.stop()
        #expect(server.store.state.withLock { $0.ended.count } == 5)
    }

    @Test("Each address of a server is tried in turn")
    func addresses() async throws {
        let server = try LoginServer(on: internet, changes: changes)
        let client = try client()
        let dead = Endpoint(address: .v4(0xc633_6499), port: LoginServer.port)
        let alive = Endpoint(address: LoginServer.address, port: LoginServer.port)
        client.logIn(at: [dead, alive])
        guard case .established? = await client.event() else {
            Issue.record("\(client.events)")
            return
        }
        #expect(client.device.endpoint == alive)
        client.device.close()
        await server.running.stop()
    }
}
