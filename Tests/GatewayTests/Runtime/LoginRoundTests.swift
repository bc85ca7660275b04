// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import TunnelIO
import TunnelServer
import WireGuardCore

@testable import CredentialTunnel
@testable import Gateway

/// A network in memory whose calls wait, and fail, if a test sets it so.
private final class HeldNetwork: PeerNetwork {
    let changes = Changes()
    private let state = Mutex((isHeld: false, fails: false, isApplying: false))

    var isApplying: Bool { state.withLock { $0.isApplying } }

    func set(isHeld: Bool, fails: Bool) {
        state.withLock { ($0.isHeld, $0.fails) = (isHeld, fails) }
        changes.notify()
    }

    func start() async throws(TunnelServerError) -> PeerNetworkDevices {
        do { return PeerNetworkDevices(try VirtualNetwork().makeTun(name: "login"), addresses: []) } catch {
            throw .notRunning
        }
    }

    func apply(
        _: [IPPrefix: ClientAccess?], isComplete _: Bool, released _: Set<IPPrefix>
    ) async throws(TunnelServerError) -> [IPPrefix: TunnelServerError] {
        state.withLock { $0.isApplying = true }
        changes.notify()
        _ = await changes.wait { self.state.withLock { !$0.isHeld } }
        let fails = state.withLock { state in
            state.isApplying = false
            return state.fails
        }
        if fails { throw .notRunning }
        return [:]
    }

    func check(subnets _: [IPPrefix]) async throws(TunnelServerError) {}
    func stop() async {}
    var condition: NetworkState { NetworkState() }
}

@Suite("The rounds of many logins", .timeLimit(.minutes(2)))
struct LoginRoundTests {
    private static let password = "correct horse"
    private static let count = 20

    private func attempt(_ number: Int) -> LoginAttempt {
        LoginAttempt(
            session: ClientID(slot: Int32(number), generation: 1), login: "user\(number)",
            password: SecretBytes(Array(Self.password.utf8)),
            source: Endpoint(address: .v4(192, 0, 2, UInt8(number)), port: 4000))
    }

    @Test("Logins at the same time share a round, and all of them are refused if it fails")
    func shared() async throws {
        let fixture = try ServiceFixture { settings in
            settings.loginTunnel.isEnabled = true
            settings.servesWireGuard = false
        }
        let (service, network) = (fixture.service, HeldNetwork())
        for number in 0..<Self.count {
            let user = try await fixture.user("user\(number)")
            _ = try await service.setPassword(of: user.id, Array(Self.password.utf8), fixture.admin)
        }
        var random = fixture.random
        let runtime = GatewayRuntime(
            service: service, network: network, datagrams: MemoryInternet().attach([.v4(198, 51, 100, 1)]),
            loginKeys: LoginTunnelKeys(
                privateKey: PrivateKey(using: &random), presharedKey: PresharedKey(using: &random)),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await runtime.start()

        network.set(isHeld: true, fails: true)
        var logins = [Task { await runtime.verdict(on: attempt(0)) }]
        #expect(await network.changes.wait { network.isApplying })
        logins += (1..<Self.count).map { number in Task { await runtime.verdict(on: attempt(number)) } }
        let end = ContinuousClock.now + .seconds(40)
        while runtime.rounds.waitingCount < Self.count - 1, ContinuousClock.now < end { await Task.yield() }
        #expect(runtime.rounds.waitingCount == Self.count - 1)
        network.set(isHeld: false, fails: true)
        for login in logins { #expect(await login.value == .refused(Body.Refusal(.unavailable))) }
        // The first login has its own round.
        #expect(runtime.figures.rounds == 2 && runtime.figures.failedRounds == 2)

        network.set(isHeld: false, fails: false)
        logins = (0..<Self.count).map { number in Task { await runtime.verdict(on: attempt(number)) } }
        for login in logins { #expect(await login.value.assignment != nil) }
        await runtime.stop()
    }
}
