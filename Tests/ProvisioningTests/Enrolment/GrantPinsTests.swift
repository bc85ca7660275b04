// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Logging
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing

@testable import Provisioning

@Suite("The pins of a grant", .timeLimit(.minutes(1)))
struct GrantPinsTests {
    private let fixtures: ContractFixtures
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    init() throws { fixtures = try ContractFixtures() }

    private func pins(_ bytes: UInt8...) -> [ServerKeyPin] {
        bytes.compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) }
    }

    private func grant(_ pins: [ServerKeyPin]?) -> EnrolmentGrant {
        var grant = fixtures.grant
        grant.pins = pins
        return grant
    }

    @Test("A grant with pins is read as it was written, and single or equal pins are refused")
    func message() throws {
        for pins in [nil, pins(1, 2)] {
            #expect(try EnrolmentGrant(body: grant(pins).body) == grant(pins))
        }
        for wrong in [pins(1), pins(1, 1), []] {
            let error = #expect(throws: ContractError.self) { try EnrolmentGrant(body: grant(wrong).body) }
            #expect(error?.field == "pins", "\(wrong)")
        }
    }

    @Test("The pins of the last grant replace those of the profile, and stay if a later grant has none")
    func replaced() async throws {
        let current = Mutex(grant(nil))
        let transport = ScriptedTransport { _ throws(ProvisioningTransportError) in
            ProvisioningReply(status: 200, body: current.withLock { $0.body })
        }
        let own = "-----BEGIN CERTIFICATE-----"
        let client = EnrolmentClient(
            servers: [
                ProvisioningServer(name: "one.example", port: 8443, trust: .pins(pins(1, 2))),
                ProvisioningServer(name: "two.example", port: 8443, trust: .authorities(own)),
            ], transport: transport, logger: logger)
        let store = Mutex<SecretBytes?>(nil)
        let keeper = EnrolmentKeeper(client: client, logger: logger) { (secret) throws(TunnelError) in
            store.withLock { $0 = secret }
        }
        var random = SeededGenerator(seed: 41)
        var enrolment = DeviceEnrolment(token: BearerSecret(.invitation, using: &random), using: &random)
        enrolment.privateKey = fixtures.key
        for (announced, used) in [
            (nil, pins(1, 2)), (pins(2, 3), pins(1, 2)), (pins(3, 4), pins(2, 3)), (nil, pins(3, 4)),
            (nil, pins(3, 4)),
        ] {
            current.withLock { $0 = grant(announced) }
            enrolment = try await keeper.refreshed(enrolment, renewing: true)
            #expect(transport.asked.last?.server.trust == .pins(used))
            // A process that starts now reads the same pins.
            #expect(try DeviceEnrolment(try #require(store.withLock { $0 })) == enrolment)
        }
        #expect(client.trusting(enrolment.grant).servers.map(\.trust) == [.pins(pins(3, 4)), .authorities(own)])
    }
}
