// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
import PacketTunnel
public import WireGuardCore

/// A client of a gateway's device API: enrols a device, requests its grant, renews it, rotates its key, and manages
/// the user's other devices.
///
/// Each call sends its request to several servers in turn, with increasing pauses between rounds and within one
/// deadline. The request is the same each time, and the gateway answers an identical request identically, so that a
/// lost reply causes no harm.
public struct EnrolmentClient: Sendable {
    /// The servers, which are used in turn: the gateway, at each of its names and addresses.
    public let servers: [ProvisioningServer]
    private let rounds: ServerRounds
    private let socketMark: UInt32?

    /// Makes a client.
    /// - Parameters:
    ///   - servers: The servers, which are used in turn.
    ///   - transport: Sends requests.
    ///   - deadline: The time limit of each call.
    ///   - clock: The clock of deadlines and pauses.
    ///   - logger: Logs the failures of servers.
    ///   - socketMark: The mark with which sockets bypass a running tunnel.
    ///   - random: The source of random pauses.
    public init(
        servers: [ProvisioningServer], transport: any ProvisioningTransport, deadline: Duration = .seconds(30),
        clock: any Clock<Duration> = ContinuousClock(), logger: Logger = Logger(label: "enrolment"),
        socketMark: UInt32? = nil,
        random: @escaping @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }
    ) {
        self.servers = servers
        self.socketMark = socketMark
        rounds = ServerRounds(
            transport: transport, clock: clock, logger: logger, deadline: deadline, random: random)
    }

    /// Enrols a device with an invitation. Store key and credential before the call, and repeat the call with the same
    /// ones if it fails: they belong to the device as soon as the gateway has received them.
    public func enrol(
        _ request: EnrolmentRequest, with invitation: BearerSecret
    ) async throws(ProvisioningError) -> EnrolmentGrant {
        try await grant(.post, EnrolmentPath.enrolments, invitation, body: request.body, for: [request.publicKey])
    }

    /// Requests the device's current grant.
    /// - Parameters:
    ///   - credential: The device's credential.
    ///   - publicKey: The device's key, which the gateway must have.
    ///   - nextKey: The key of an unfinished rotation, which the gateway may have instead.
    public func grant(
        credential: BearerSecret, publicKey: PublicKey, nextKey: PublicKey? = nil
    ) async throws(ProvisioningError) -> EnrolmentGrant {
        try await grant(.get, EnrolmentPath.device, credential, for: [publicKey, nextKey])
    }

    /// Extends the device's expiry.
    /// - Parameters:
    ///   - credential: The device's credential.
    ///   - publicKey: The device's key, which the gateway must have.
    ///   - nextKey: The key of an unfinished rotation, which the gateway may have instead.
    public func renew(
        credential: BearerSecret, publicKey: PublicKey, nextKey: PublicKey? = nil
    ) async throws(ProvisioningError) -> EnrolmentGrant {
        try await grant(.post, EnrolmentPath.renewal, credential, for: [publicKey, nextKey])
    }

    /// Replaces the device's key. Store the new key before the call: once the gateway has received it, only this key
    /// is valid.
    ///
    /// After a failure, it is not known which key the gateway has: request the grant, which contains it. A delayed
    /// request can still change the key for the lifetime of its nonce (a minute): keep both keys for that time.
    public func rotate(
        from old: PrivateKey, to new: PublicKey, credential: BearerSecret
    ) async throws(ProvisioningError) -> EnrolmentGrant {
        let nonce = try await rotationNonce(credential: credential)
        return try await rotate(from: old, to: new, answering: nonce, credential: credential)
    }

    /// Requests a nonce for a rotation.
    func rotationNonce(credential: BearerSecret) async throws(ProvisioningError) -> RotationNonce {
        try await ask(.post, EnrolmentPath.rotationNonces, credential) {
            (body) throws(ContractError) in try RotationNonce(body: body)
        }
    }

    /// Replaces the device's key with a nonce that was requested before.
    func rotate(
        from old: PrivateKey, to new: PublicKey, answering nonce: RotationNonce, credential: BearerSecret
    ) async throws(ProvisioningError) -> EnrolmentGrant {
        guard let request = RotationRequest(from: old, to: new, answering: nonce) else {
            throw .reply(field: "serverKey", problem: "must be a valid key")
        }
        return try await grant(.post, EnrolmentPath.rotations, credential, body: request.body, for: [new])
    }

    /// Lists the user's devices.
    public func devices(credential: BearerSecret) async throws(ProvisioningError) -> [DeviceListEntry] {
        try await ask(.get, EnrolmentPath.devices, credential, replyLimit: 8 << 20) {
            (body) throws(ContractError) in try DeviceList(body: body)
        }
        .devices
    }

    /// Revokes one of the user's devices, which may be this one. Revoking a removed device succeeds.
    public func revoke(_ device: RandomID, credential: BearerSecret) async throws(ProvisioningError) {
        do throws(ProvisioningError) {
            _ = try await ask(.delete, EnrolmentPath.device(device), credential) { (_) throws(ContractError) in true }
        } catch {
            // A device of another user is reported like one that was removed.
            guard case .problem(let problem) = error, problem.code == .notFound || problem.code == .deviceUnknown else {
                throw error
            }
        }
    }

    // MARK: - Requests

    /// - Parameter publicKeys: The allowed keys of the grant's device.
    private func grant(
        _ method: ProvisioningRequest.Method, _ path: String, _ secret: BearerSecret, body: [UInt8]? = nil,
        for publicKeys: [PublicKey?]
    ) async throws(ProvisioningError) -> EnrolmentGrant {
        let allowsLoopback = servers.allSatisfy(\.isOnThisMachine)
        return try await ask(method, path, secret, body: body) { (body) throws(ContractError) in
            let grant = try EnrolmentGrant(body: body)
            try grant.checkAddresses(allowsLoopback: allowsLoopback)
            guard publicKeys.contains(grant.device.publicKey) else {
                throw ContractError(field: "device.publicKey", problem: "must be this device's key")
            }
            guard !grant.servers.contains(where: { publicKeys.contains($0.publicKey) }) else {
                throw ContractError(field: "servers", problem: "must not have the device's own key")
            }
            return grant
        }
    }

    private func ask<Value: Sendable>(
        _ method: ProvisioningRequest.Method, _ path: String, _ secret: BearerSecret, body: [UInt8]? = nil,
        replyLimit: Int = 262_144, _ read: @escaping @Sendable ([UInt8]) throws(ContractError) -> Value
    ) async throws(ProvisioningError) -> Value {
        try await rounds.ask(servers) { [socketMark] server in
            ProvisioningRequest(
                server: server, method: method, target: path, bearer: secret.bytes, body: body,
                replyLimit: replyLimit, socketMark: socketMark)
        } read: { (reply, _) throws(ProvisioningError) in
            guard (200...299).contains(reply.status) else { throw Self.refusal(reply) }
            do throws(ContractError) {
                return try read(reply.body)
            } catch {
                throw .reply(field: error.field, problem: error.problem)
            }
        }
        .value
    }

    private static func refusal(_ reply: ProvisioningReply) -> ProvisioningError {
        var problem = try? ProblemDetails(body: reply.body)
        problem?.status = reply.status
        let reason = problem.map { ": \($0.detail ?? $0.title)" } ?? ""
        switch reply.status {
        case 400..<500 where ![408, 425, 429].contains(reply.status):
            // A reply that is not a problem document is not from this API: another server answers.
            guard let problem, problem.code != nil else {
                return .reply(field: "status", problem: "HTTP \(reply.status) without a readable reason")
            }
            return .problem(problem)
        case 408, 425, 429, 500...599:
            if let problem, problem.code == .poolFull { return .problem(problem) }
            return .busy("the gateway cannot answer now (HTTP \(reply.status)\(reason))")
        default: return .reply(field: "status", problem: "HTTP \(reply.status) is not an answer of this API")
        }
    }
}
