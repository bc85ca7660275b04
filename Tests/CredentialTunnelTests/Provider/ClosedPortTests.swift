// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO

@testable import CredentialTunnel

@Suite("A login tunnel whose server's port is closed", .timeLimit(.minutes(3)))
struct ClosedPortTests {
    private static let closed = Endpoint(address: .v4(192, 0, 2, 1), port: 4500)
    private static let other = Endpoint(address: .v4(192, 0, 2, 2), port: 4500)

    @Test("A closed port of the real network ends the start with an error that names the server and the port")
    func realNetwork() async throws {
        // No program listens at port 1. Without a report of the system, the start would end with `no response`.
        let scene = try ProviderScene(loginDeadline: .seconds(60), network: SystemDatagramNetwork()) {
            $0.server = "127.0.0.1:1"
        }
        let error = try #require(await scene.failure())
        #expect(error.code == .serverUnreachable)
        #expect(error.message == "the UDP port of 127.0.0.1:1 is closed (refused by 127.0.0.1:1)")
        #expect(scene.host.platform.settings == nil)
        await scene.stop()
    }

    /// Watches the ports until a result, with a clock that advances by itself.
    private func watch(_ network: RefusingNetwork, _ endpoints: [Endpoint]) async -> (isClosed: Bool, time: Duration) {
        let clock = VirtualClock()
        let watch = ClosedPortWatch(network: network, mark: 7, clock: clock)
        let result = Task { await watch.areClosed(endpoints) }
        let driver = Task {
            while !Task.isCancelled {
                await clock.waitForSleepers(1)
                clock.advanceToNextDeadline()
            }
        }
        let isClosed = await result.value
        driver.cancel()
        return (isClosed, clock.now.offset)
    }

    @Test("A port counts as closed after two refusals, half a second into the login")
    func twice() async {
        let network = RefusingNetwork { _, _ in true }
        let result = await watch(network, [Self.closed])
        #expect(result.isClosed && result.time == .milliseconds(500))
        #expect(network.probes == [Self.closed, Self.closed] && network.marks == [7])
    }

    @Test("One refusal does not end a start")
    func once() async {
        let network = RefusingNetwork { _, number in number == 0 }
        #expect(await watch(network, [Self.closed]).isClosed == false)
        #expect(network.probes.count == ClosedPortWatch.intervals.count)
    }

    @Test("An address that refuses nothing keeps the start, and one that cannot be reached does not")
    func addresses() async {
        let silent = RefusingNetwork { endpoint, _ in endpoint == Self.closed }
        #expect(await watch(silent, [Self.closed, Self.other]).isClosed == false)
        let unreachable = RefusingNetwork { endpoint, _ in endpoint == Self.closed ? true : nil }
        #expect(await watch(unreachable, [Self.other, Self.closed]).isClosed)
        let nothing = RefusingNetwork { _, _ in nil }
        #expect(await watch(nothing, [Self.closed, Self.other]).isClosed == false)
    }

    @Test("After the server's response, refusals end neither a login nor a session")
    func late() async throws {
        let changes = Changes()
        let internet = MemoryInternet()
        let client = try LoginClient(on: internet, at: 0xc000_020a, changes: changes)
        client.logIn()
        client.device.cancelLoginAtClosedPort()
        #expect(await client.event(0) == .portClosed)
        let server = try LoginServer(on: internet, changes: changes)
        let gate = Event()
        server.store.state.withLock { $0.gate = gate }
        client.logIn()
        // The server verifies the password, so the handshake is complete.
        #expect(await changes.wait { server.store.state.withLock { !$0.attempts.isEmpty } })
        client.device.cancelLoginAtClosedPort()
        gate.signal()
        guard case .established? = await client.event(1) else {
            Issue.record("\(client.events)")
            return
        }
        client.logIn()
        client.device.cancelLoginAtClosedPort()
        guard case .established? = await client.event(2) else {
            Issue.record("\(client.events)")
            return
        }
        client.device.close()
        await server.running.stop()
    }
}

/// A network without sockets, whose hosts refuse the datagrams that a function selects.
private final class RefusingNetwork: PortProbing {
    private let seen = Mutex<(probes: [Endpoint], marks: Set<UInt32>)>(([], []))
    private let refuses: @Sendable (Endpoint, _ number: Int) -> Bool?

    /// - Parameter refuses: Returns whether the datagram with this number to this endpoint is refused, or `nil` if it cannot
    ///   be sent.
    init(_ refuses: @escaping @Sendable (Endpoint, _ number: Int) -> Bool?) { self.refuses = refuses }

    /// The destinations of the datagrams that were sent.
    var probes: [Endpoint] { seen.withLock { $0.probes } }
    /// The marks of the datagrams that were sent.
    var marks: Set<UInt32> { seen.withLock { $0.marks } }

    func bind(_ binding: DatagramBinding, count: Int) throws(TunnelIOError) -> [DatagramSockets] {
        throw TunnelIOError(.unsupported("sockets"))
    }

    func probe(_ endpoint: Endpoint, mark: UInt32) throws(TunnelIOError) -> @Sendable () -> Bool {
        let number = seen.withLock { seen in
            seen.probes.count(where: { $0 == endpoint })
        }
        guard let isRefused = refuses(endpoint, number) else {
            throw TunnelIOError(.socket(operation: "send"))
        }
        seen.withLock { seen in
            seen.probes.append(endpoint)
            seen.marks.insert(mark)
        }
        return { isRefused }
    }
}
