// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import Logging
import PacketTunnel
public import WireGuardCore

/// A device's client for a gateway's API. It enrols the device, requests its grant, renews it, changes its key, and
/// manages the user's other devices.
///
/// Each call sends its request to several servers in turn, with increasing pauses between rounds, within one deadline.
/// Retries are identical, and the gateway answers an identical request identically, so a lost reply has no effect.
public struct EnrolmentClient: Sendable {
    /// The servers to ask, in turn: the gateway, under each of its names and addresses.
    public private(set) var servers: [ProvisioningServer]
    private let rounds: ServerRounds
    private let socketMark: UInt32?

    /// Creates a client.
    /// - Parameters:
    ///   - servers: The servers to ask, in turn.
    ///   - transport: Sends requests.
    ///   - deadline: The time limit of each call.
    ///   - clock: The clock of deadlines and pauses.
    ///   - logger: Logs the failures of servers.
    ///   - socketMark: The mark that lets sockets bypass a tunnel that is up.
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

    /// Returns this client with the pins of a device's last grant in place of the servers' earlier pins: the gateway may have
    /// replaced its keys since the invitation.
    public func trusting(_ grant: EnrolmentGrant?) -> EnrolmentClient {
        guard let pins = grant?.pins else { return self }
        var client = self
        for index in servers.indices {
            if case .pins = servers[index].trust { client.servers[index].trust = .pins(pins) }
        }
        return client
    }

    /// Enrols a device with an invitation. Store the key and the credential before the call, and repeat the call with
    /// the same ones after a failure: once the gateway has received them, they identify the device.
    public func enrol(
        _ request: EnrolmentRequest, with invitation: BearerSecret
    ) async throws(ProvisioningError) -> EnrolmentGrant {
        try await grant(.post, EnrolmentPath.enrolments, invitation, body: request.body, for: [request.publicKey])
    }

    /// Requests the device's current grant.
    /// - Parameters:
    ///   - credential: The device's own secret.
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

    /// Replaces the device's key. Store the new key before the call: once the gateway has received it, only the new key
    /// works.
    ///
    /// After a failure, the gateway may have either key: request the grant, which contains the key. A delayed request
    /// can still change the key during the lifetime of its nonce (one minute), so keep both keys for that time.
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
            throw .reply(field: "serverKey", problem: "is not a key")
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

    /// Revokes one of the user's devices, possibly this one. A missing device is not an error.
    public func revoke(_ device: RandomID, credential: BearerSecret) async throws(ProvisioningError) {
        do throws(ProvisioningError) {
            _ = try await ask(.delete, EnrolmentPath.device(device), credential) { (_) throws(ContractError) in true }
        } catch {
            // The API reports a removed device in the same way as another user's device.
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
                throw ContractError(field: "device.publicKey", problem: "is not this device's key")
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
            // A reply without a problem document is not from the device API: another program answers at this address.
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
