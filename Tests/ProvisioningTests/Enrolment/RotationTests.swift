// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Logging
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import Provisioning

@Suite("A rotation whose requests are delayed", .timeLimit(.minutes(1)))
struct RotationTests {
    /// The secret store and the clock of a device.
    private final class Machine: Sendable {
        let secret = Mutex<SecretBytes?>(nil)
        let time = Mutex(Date(timeIntervalSince1970: 1_000_000))
    }

    private let gateway: StandInGateway
    private let machine = Machine()
    private let clock = VirtualClock()
    private let keeper: EnrolmentKeeper
    private let token: BearerSecret

    init() throws {
        let fixtures = try ContractFixtures()
        var random = SeededGenerator(seed: 61)
        let token = BearerSecret(.invitation, using: &random)
        self.token = token
        let (machine, gateway) = (machine, StandInGateway(grant: fixtures.grant, serverKey: fixtures.serverKey))
        gateway.change { $0.invitations = [token] }
        self.gateway = gateway
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let client = EnrolmentClient(
            servers: [ProvisioningServer(name: "one.example", port: 8443)], transport: gateway, clock: clock,
            logger: logger, random: { SeededGenerator(seed: 1) })
        keeper = EnrolmentKeeper(client: client, logger: logger, now: { machine.time.withLock { $0 } }) {
            (secret) throws(TunnelError) in machine.secret.withLock { $0 = secret }
        }
    }

    /// The enrolment, as a process that starts now reads it.
    private var stored: DeviceEnrolment {
        get throws { try DeviceEnrolment(try #require(machine.secret.withLock { $0 })) }
    }

    private var gatewayKey: PublicKey? { gateway.state.withLock { $0.devices.first?.grant.device.publicKey } }

    /// Enrols, and then rotates without an answer: the requests are delayed.
    /// - Returns: The key before the rotation.
    private func rotateWithDelay() async throws -> PrivateKey {
        var random = SystemRandomNumberGenerator()
        let enrolment = try await keeper.refreshed(DeviceEnrolment(token: token, using: &random))
        gateway.change { $0.delaysRotations = true }
        let clock = clock
        let driver = Task {
            while !Task.isCancelled {
                if clock.sleeperCount >= 2 { clock.advance(by: .milliseconds(100)) }
                for _ in 0..<20 { await Task.yield() }
            }
        }
        _ = await #expect(throws: ProvisioningError.self) { try await keeper.rotated(enrolment) }
        driver.cancel()
        gateway.change { $0.delaysRotations = false }
        return enrolment.privateKey
    }

    private func pass(gateway seconds: Double = 0, device deviceSeconds: Double = 0) {
        gateway.change { $0.elapsed += seconds }
        machine.time.withLock { $0 += deviceSeconds }
    }

    @Test("A request that arrives after the device has requested the gateway's key does not lock the device out")
    func delayed() async throws {
        let old = try await rotateWithDelay()
        let asked = try await keeper.refreshed(stored)
        #expect(asked.privateKey == old)
        let next = try #require(asked.nextKey)
        pass(gateway: 59, device: 59)
        #expect(try await keeper.refreshed(stored).nextKey == next)
        gateway.deliverRotations()
        #expect(gatewayKey == next.publicKey)
        let found = try await keeper.refreshed(stored)
        #expect(found.privateKey == next && found.nextKey == nil)
        #expect(try stored == found)
        #expect(try await keeper.refreshed(stored).privateKey == next)
    }

    @Test("The new key is discarded when both clocks show that the nonce has expired", arguments: [true, false])
    func expired(gatewayFirst: Bool) async throws {
        let old = try await rotateWithDelay()
        let next = try #require(try await keeper.refreshed(stored).nextKey)
        // The jump of one clock alone has no effect.
        if gatewayFirst { pass(gateway: 100_000) } else { pass(device: 100_000) }
        #expect(try await keeper.refreshed(stored).nextKey == next)
        if gatewayFirst { pass(device: 69) } else { pass(gateway: 69) }
        #expect(try await keeper.refreshed(stored).nextKey == next)
        if gatewayFirst { pass(device: 1) } else { pass(gateway: 1) }
        let after = try await keeper.refreshed(stored)
        #expect(after.privateKey == old && after.nextKey == nil)
        #expect(try stored == after && gatewayKey == old.publicKey)
    }

    @Test("A clock that is set back restarts the wait once")
    func setBack() async throws {
        _ = try await rotateWithDelay()
        _ = try await keeper.refreshed(stored)
        pass(gateway: 60, device: -900_000)
        #expect(try await keeper.refreshed(stored).nextKey != nil)
        pass(gateway: 69, device: 69)
        #expect(try await keeper.refreshed(stored).nextKey != nil)
        pass(gateway: 1, device: 1)
        #expect(try await keeper.refreshed(stored).nextKey == nil)
    }

    @Test("A repeated rotation uses the same new key, so that a request of the first attempt causes no harm")
    func repeated() async throws {
        let old = try await rotateWithDelay()
        let next = try #require(try stored.nextKey)
        let rotated = try await keeper.rotated(stored)
        #expect(rotated.privateKey == next && next != old && rotated.nextKey == nil)
        gateway.deliverRotations()
        #expect(gatewayKey == next.publicKey)
        #expect(try await keeper.refreshed(stored).privateKey == next)
    }

    @Test("A device renews during an unfinished rotation")
    func renewal() async throws {
        _ = try await rotateWithDelay()
        let renewed = try await keeper.refreshed(stored, renewing: true)
        #expect(gateway.state.withLock { $0.devices[0].renewals } == 1)
        #expect(renewed.nextKey != nil)
    }

    @Test("A secret of an earlier version with a new key and without a wait waits from the next answer on")
    func earlierVersion() async throws {
        let old = try await rotateWithDelay()
        let text = String(decoding: try #require(machine.secret.withLock { $0 }).bytes, as: UTF8.self)
        let json = try JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))
        guard case .object(var members) = json else {
            Issue.record("the secret is not an object")
            return
        }
        #expect(members.removeValue(forKey: "nextKeyWait") != nil)
        let bytes = try JSONValue.object(members).text()
        machine.secret.withLock { $0 = SecretBytes(bytes) }
        #expect(try await keeper.refreshed(stored).nextKey != nil)
        pass(gateway: 70, device: 70)
        let after = try await keeper.refreshed(stored)
        #expect(after.nextKey == nil && after.privateKey == old)
    }
}
