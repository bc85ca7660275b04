// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel
import Synchronization
import WireGuardCore

@testable import Provisioning

/// A gateway's API in memory, which follows the contract, and can lose requests and replies.
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
        /// The number of requests that are lost.
        var lostRequests = 0
        /// The number of replies that are lost; their requests take effect.
        var lostReplies = 0
        /// The path whose replies are all lost.
        var losesRepliesOf: String?
        /// Whether rotation requests are delayed until ``StandInGateway/deliverRotations()``.
        var delaysRotations = false
        var delayedRotations: [ProvisioningRequest] = []
        /// Seconds that have passed on the gateway's clock.
        var elapsed: Double = 0
        var isDown = false
        var asked: [String] = []
        var templateGrant: EnrolmentGrant
        /// Called with each new or changed key of a device.
        var onKey: @Sendable (PublicKey) -> Void = { _ in }
        /// Called after each request.
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
