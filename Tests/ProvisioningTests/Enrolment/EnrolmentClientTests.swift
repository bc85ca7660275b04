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

/// A gateway's API in memory, which keeps to the contract, and whose network and replies can be lost.
final class StandInGateway: ProvisioningTransport {
    struct Device {
        var request: EnrolmentRequest
        var token: BearerSecret
        var grant: EnrolmentGrant
        var renewals = 0
    }

    struct State {
        var invitations: [BearerSecret] = []
        var devices: [Device] = []
        var nonces: [[UInt8]] = []
        /// Requests that do not arrive.
        var lostRequests = 0
        /// Replies that do not arrive, although what was asked is done.
        var lostReplies = 0
        /// The same of one path.
        var losesRepliesOf: String?
        /// Whether rotation requests are delayed until ``StandInGateway/deliverRotations()``.
        var delaysRotations = false
        var delayedRotations: [ProvisioningRequest] = []
        /// Seconds that have passed on the gateway's clock.
        var elapsed: Double = 0
        var isDown = false
        var asked: [String] = []
        var templateGrant: EnrolmentGrant
        /// Hears of each device's key, new or changed.
        var onKey: @Sendable (PublicKey) -> Void = { _ in }
        /// Hears of each request.
        var onAnswer: @Sendable () -> Void = {}
    }

    let serverKey: PrivateKey
    let state: Mutex<State>

    init(grant: EnrolmentGrant, serverKey: PrivateKey) {
        self.serverKey = serverKey
        state = Mutex(State(templateGrant: grant))
    }

    var asked: [String] { state.withLock { $0.asked } }
    func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    func send(_ request: ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply {
        let outcome: Result<ProvisioningReply, ProvisioningTransportError> = state.withLock { state in
            state.asked.append("\(request.method.rawValue) \(request.target)")
            if state.isDown { return .failure(.unreachable("the gateway is down")) }
            if state.lostRequests > 0 {
                state.lostRequests -= 1
                return .failure(.unreachable("the request was lost"))
            }
            if state.delaysRotations, request.target == EnrolmentPath.rotations {
                state.delayedRotations.append(request)
                return .failure(.unreachable("the request is delayed"))
            }
            let reply = answer(request, &state)
            if state.losesRepliesOf == request.target { return .failure(.unreachable("the reply was lost")) }
            if state.lostReplies > 0 {
                state.lostReplies -= 1
                return .failure(.unreachable("the reply was lost"))
            }
            return .success(reply)
        }
        state.withLock { $0.onAnswer }()
        return try outcome.get()
    }

    /// Delivers the delayed rotation requests. The replies are lost.
    func deliverRotations() {
        state.withLock { state in
            for request in state.delayedRotations { _ = answer(request, &state) }
            state.delayedRotations = []
        }
    }

    static func problem(_ status: Int, _ code: ProblemDetails.Code) -> ProvisioningReply {
        let problem = ProblemDetails(title: "no", status: status, detail: "said \(code.rawValue)", code: code)
        return ProvisioningReply(status: status, body: problem.body)
    }

    private func answer(_ request: ProvisioningRequest, _ state: inout State) -> ProvisioningReply {
        guard let bearer = request.bearer.flatMap({ BearerSecret(utf8: $0.bytes) }) else {
            return Self.problem(401, .unauthorized)
        }
        if request.target == EnrolmentPath.enrolments { return enrol(request, bearer, &state) }
        guard let index = state.devices.firstIndex(where: { $0.request.credential == bearer }) else {
            return Self.problem(401, .deviceUnknown)
        }
        func granted() -> ProvisioningReply {
            var grant = state.devices[index].grant
            grant.serverTime += state.elapsed
            return ProvisioningReply(status: 200, body: grant.body)
        }
        switch (request.method, request.target) {
        case (.get, EnrolmentPath.device): return granted()
        case (.post, EnrolmentPath.renewal):
            state.devices[index].renewals += 1
            state.devices[index].grant.servers = state.templateGrant.servers
            return granted()
        case (.post, EnrolmentPath.rotationNonces):
            let nonce = [UInt8](repeating: UInt8(state.nonces.count + 1), count: 32)
            state.nonces.append(nonce)
            return ProvisioningReply(
                status: 200,
                body: RotationNonce(nonce: nonce, serverKey: serverKey.publicKey, lifetimeSeconds: 60).body)
        case (.post, EnrolmentPath.rotations):
            guard let rotation = try? RotationRequest(body: request.body ?? []), state.nonces.contains(rotation.nonce)
            else { return Self.problem(400, .requestInvalid) }
            if state.devices[index].grant.device.publicKey == rotation.publicKey { return granted() }
            guard rotation.isProven(by: state.devices[index].grant.device.publicKey, to: serverKey) else {
                return Self.problem(403, .proofInvalid)
            }
            state.devices[index].grant.device.publicKey = rotation.publicKey
            state.onKey(rotation.publicKey)
            return granted()
        case (.get, EnrolmentPath.devices):
            let devices = state.devices.map { device in
                DeviceListEntry(
                    id: device.grant.device.id, name: device.grant.device.name,
                    publicKey: device.grant.device.publicKey, createdAt: device.grant.device.createdAt,
                    isCurrent: device.request.credential == bearer)
            }
            return ProvisioningReply(status: 200, body: DeviceList(devices: devices).body)
        case (.delete, let target):
            guard let found = state.devices.firstIndex(where: { EnrolmentPath.device($0.grant.device.id) == target })
            else { return Self.problem(404, .notFound) }
            state.devices.remove(at: found)
            return ProvisioningReply(status: 204, body: [])
        default: return Self.problem(404, .notFound)
        }
    }

    private func enrol(
        _ request: ProvisioningRequest, _ bearer: BearerSecret, _ state: inout State
    ) -> ProvisioningReply {
        guard let body = try? EnrolmentRequest(body: request.body ?? []) else {
            return Self.problem(400, .requestInvalid)
        }
        if let device = state.devices.first(where: { $0.token == bearer }) {
            guard device.request == body else { return Self.problem(403, .invitationUsed) }
            return ProvisioningReply(status: 200, body: device.grant.body)
        }
        guard state.invitations.contains(bearer) else { return Self.problem(401, .unauthorized) }
        var grant = state.templateGrant
        var random = SystemRandomNumberGenerator()
        grant.device.id = RandomID(using: &random)
        grant.device.publicKey = body.publicKey
        grant.device.name = body.name ?? ""
        state.devices.append(Device(request: body, token: bearer, grant: grant))
        state.onKey(body.publicKey)
        return ProvisioningReply(status: 201, body: grant.body)
    }
}

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

    /// Lets pauses pass.
    private func passing<Value: Sendable>(
        _ body: () async throws(ProvisioningError) -> Value
    ) async throws(ProvisioningError) -> Value {
        let clock = clock
        let driver = Task {
            while !Task.isCancelled {
                // By less than a request may take, so that none that is on its way runs out of time.
                if clock.sleeperCount >= 2 { clock.advance(by: .milliseconds(100)) }
                for _ in 0..<20 { await Task.yield() }
            }
        }
        defer { driver.cancel() }
        return try await body()
    }

    @Test("An invitation becomes a device, whichever request or reply is lost on the way", arguments: [0, 1, 2, 3])
    func enrol(_ lost: Int) async throws {
        gateway.change { state in
            state.lostRequests = lost
            state.lostReplies = lost
        }
        let grant = try await passing { () throws(ProvisioningError) in try await client.enrol(request, with: token) }
        #expect(grant.device.publicKey == fixtures.key.publicKey && grant.device.name == "laptop")
        #expect(gateway.state.withLock { $0.devices.count } == 1)
        // Once more is the same device.
        let again = try await client.enrol(request, with: token)
        #expect(again.device.id == grant.device.id)
    }

    @Test("An invitation that another key or credential has used is refused at once")
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

    @Test("A device asks, renews, changes its key, lists and revokes")
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
        // Another key than this device's is no grant for it.
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
        // It is fine that it is no more.
        try await client.revoke(devices[0].id, credential: credential)
        let gone = await #expect(throws: ProvisioningError.self) {
            try await client.renew(credential: credential, publicKey: next.publicKey)
        }
        #expect(gone?.tunnelError.message.contains("deviceUnknown") == true)
    }

    @Test("A lost reply to a rotation leaves a device that can find out which key it has")
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
        // A process that starts now has what was kept.
        enrolment = try DeviceEnrolment(try #require(store.withLock { $0 }))
        #expect(enrolment.privateKey == old && enrolment.nextKey != nil)
        enrolment = try await keeper.refreshed(enrolment)
        #expect(enrolment.privateKey != old && enrolment.nextKey == nil)
        #expect(gateway.state.withLock { $0.devices[0].grant.device.publicKey } == enrolment.privateKey.publicKey)
        #expect(try DeviceEnrolment(try #require(store.withLock { $0 })) == enrolment)
    }

    @Test("An answer that is no problem of the API is another server's turn, and a clock that is not set is the cause")
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

    @Test("A request carries method, body and bearer secret, and shows neither secret")
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
