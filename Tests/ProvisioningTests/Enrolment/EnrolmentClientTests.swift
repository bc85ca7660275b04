// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Logging
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Synchronization
import Testing
import WireGuardCore

@testable import Provisioning

@Suite("The client of the enrolment API", .timeLimit(.minutes(1)))
struct EnrolmentClientTests {
    private let fixtures: ContractFixtures
    private let gateway: StandInGateway
    private let token: BearerSecret
    private let client: EnrolmentClient
    private let clock = VirtualClock()

    init() throws {
        fixtures = try ContractFixtures()
        var random = SeededGenerator(seed: 31)
        let token = BearerSecret(.invitation, using: &random)
        self.token = token
        gateway = StandInGateway(grant: fixtures.grant, serverKey: fixtures.serverKey)
        gateway.change { $0.invitations = [token] }
        client = EnrolmentClient(
            servers: ["one", "two"].map { ProvisioningServer(name: "\($0).example", port: 8443) }, transport: gateway,
            clock: clock, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            random: { SeededGenerator(seed: 1) })
    }

    private var request: EnrolmentRequest {
        EnrolmentRequest(publicKey: fixtures.key.publicKey, credential: fixtures.credential, name: "laptop")
    }

    /// Advances the clock over pauses.
    private func passing<Value: Sendable>(
        _ body: () async throws(ProvisioningError) -> Value
    ) async throws(ProvisioningError) -> Value {
        let clock = clock
        let driver = Task {
            while !Task.isCancelled {
                // Each step is shorter than the time limit of a request, so that no running request times out.
                if clock.sleeperCount >= 2 { clock.advance(by: .milliseconds(100)) }
                for _ in 0..<20 { await Task.yield() }
            }
        }
        defer { driver.cancel() }
        return try await body()
    }

    @Test("An invitation becomes a device, whichever request or reply is lost", arguments: [0, 1, 2, 3])
    func enrol(_ lost: Int) async throws {
        gateway.change { state in
            state.lostRequests = lost
            state.lostReplies = lost
        }
        let grant = try await passing { () throws(ProvisioningError) in try await client.enrol(request, with: token) }
        #expect(grant.device.publicKey == fixtures.key.publicKey && grant.device.name == "laptop")
        #expect(gateway.state.withLock { $0.devices.count } == 1)
        // A repetition gets the same device.
        let again = try await client.enrol(request, with: token)
        #expect(again.device.id == grant.device.id)
    }

    @Test("An invitation that another key or credential has used is refused immediately")
    func used() async throws {
        _ = try await client.enrol(request, with: token)
        var random = SeededGenerator(seed: 32)
        for other in [
            EnrolmentRequest(publicKey: PrivateKey(using: &random).publicKey, credential: fixtures.credential),
            EnrolmentRequest(
                publicKey: fixtures.key.publicKey, credential: BearerSecret(.device, using: &random)),
        ] {
            let before = gateway.asked.count
            let error = await #expect(throws: ProvisioningError.self) { try await client.enrol(other, with: token) }
            guard case .problem(let problem) = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
            #expect(problem.code == .invitationUsed && problem.status == 403)
            #expect(error?.tunnelError.code == .authenticationFailed)
            #expect(gateway.asked.count == before + 1)
        }
    }

    @Test("A device requests its grant, renews, changes its key, and lists and revokes devices")
    func life() async throws {
        _ = try await client.enrol(request, with: token)
        let credential = fixtures.credential
        var random = SeededGenerator(seed: 33)
        #expect(
            try await client.grant(credential: credential, publicKey: fixtures.key.publicKey).device.publicKey
                == fixtures.key.publicKey)
        _ = try await client.renew(credential: credential, publicKey: fixtures.key.publicKey)
        #expect(gateway.state.withLock { $0.devices[0].renewals } == 1)
        let next = PrivateKey(using: &random)
        let rotated = try await client.rotate(from: fixtures.key, to: next.publicKey, credential: credential)
        #expect(rotated.device.publicKey == next.publicKey)
        // A grant for another key is not valid for this device.
        let error = await #expect(throws: ProvisioningError.self) {
            try await passing { () throws(ProvisioningError) in
                try await client.grant(credential: credential, publicKey: fixtures.key.publicKey)
            }
        }
        guard case .timedOut = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        let devices = try await client.devices(credential: credential)
        #expect(devices.map(\.isCurrent) == [true])
        try await client.revoke(devices[0].id, credential: credential)
        // Revoking a removed device succeeds.
        try await client.revoke(devices[0].id, credential: credential)
        let gone = await #expect(throws: ProvisioningError.self) {
            try await client.renew(credential: credential, publicKey: next.publicKey)
        }
        #expect(gone?.tunnelError.message.contains("deviceUnknown") == true)
    }

    @Test("After a lost reply to a rotation, a device can find out which key the gateway has")
    func lostRotation() async throws {
        let store = Mutex<SecretBytes?>(nil)
        var random = SeededGenerator(seed: 34)
        let keeper = EnrolmentKeeper(
            client: client, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            random: { SeededGenerator(seed: 35) }
        ) { (secret) throws(TunnelError) in store.withLock { $0 = secret } }
        var enrolment = try await keeper.refreshed(DeviceEnrolment(token: token, using: &random))
        let old = enrolment.privateKey
        gateway.change { $0.losesRepliesOf = EnrolmentPath.rotations }
        _ = await #expect(throws: ProvisioningError.self) {
            try await passing { () throws(ProvisioningError) in try await keeper.rotated(enrolment) }
        }
        gateway.change { $0.losesRepliesOf = nil }
        // A process that starts now has the stored state.
        enrolment = try DeviceEnrolment(try #require(store.withLock { $0 }))
        #expect(enrolment.privateKey == old && enrolment.nextKey != nil)
        enrolment = try await keeper.refreshed(enrolment)
        #expect(enrolment.privateKey != old && enrolment.nextKey == nil)
        #expect(gateway.state.withLock { $0.devices[0].grant.device.publicKey } == enrolment.privateKey.publicKey)
        #expect(try DeviceEnrolment(try #require(store.withLock { $0 })) == enrolment)
    }

    @Test(
        "After an answer that is not a problem of the API the next server is asked, and a wrong clock is reported as the cause"
    )
    func strangers() async throws {
        let portal = ScriptedTransport { request throws(ProvisioningTransportError) in
            request.server.name == "one.example"
                ? ProvisioningReply(status: 404, body: Array("<html>".utf8))
                : ProvisioningReply(status: 500, body: [])
        }
        let client = EnrolmentClient(
            servers: client.servers, transport: portal, deadline: .seconds(5), clock: clock,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let error = await #expect(throws: ProvisioningError.self) {
            try await passing { () throws(ProvisioningError) in try await client.enrol(request, with: token) }
        }
        #expect(error?.isOutage == true && portal.asked.count > 2)
        #expect(error?.tunnelError.description.contains(token.exportedText) == false)

        let early = ScriptedTransport { _ throws(ProvisioningTransportError) in throw .clockUnset("it says 1970") }
        let second = EnrolmentClient(
            servers: client.servers, transport: early,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let unset = await #expect(throws: ProvisioningError.self) { try await second.enrol(request, with: token) }
        #expect(unset == .transport(.clockUnset("it says 1970")) && early.asked.count == 1)
        #expect(unset?.tunnelError.fix == "set the clock, and try again")
    }

    @Test("A request contains method, body and bearer secret, and its description contains no secret")
    func description() async throws {
        let grant = fixtures.grant
        let seen = ScriptedTransport { _ throws(ProvisioningTransportError) in
            ProvisioningReply(status: 201, body: grant.body)
        }
        let client = EnrolmentClient(servers: [self.client.servers[0]], transport: seen, socketMark: 7)
        _ = try await client.enrol(request, with: token)
        let sent = try #require(seen.asked.first)
        #expect(sent.method == .post && sent.target == "/v1/enrolments" && sent.socketMark == 7)
        #expect(sent.body == request.body && sent.bearer?.bytes == token.bytes.bytes)
        #expect(sent.fields.contains { $0 == ("Content-Type", "application/json") })
        var dumped = ""
        dump(sent, to: &dumped)
        for text in ["\(sent)", String(reflecting: sent), dumped] {
            #expect(!text.contains(token.exportedText) && !text.contains(fixtures.credential.exportedText))
        }
        #expect("\(sent)" == "POST https://one.example:8443/v1/enrolments")
    }
}
