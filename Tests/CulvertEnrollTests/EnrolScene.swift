// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CommandLineTesting
import Foundation
import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Provisioning
import Synchronization
import WireGuardCore

@testable import culvert_enroll

/// A gateway with scripted answers.
final class ScriptedGateway: ProvisioningTransport {
    typealias Answer = @Sendable (ProvisioningRequest) throws(ProvisioningTransportError) -> ProvisioningReply

    private let answer: Mutex<Answer>
    private let requests = Mutex<[ProvisioningRequest]>([])

    init(_ answer: @escaping Answer) { self.answer = Mutex(answer) }

    var asked: [String] { requests.withLock { $0.map(\.description) } }

    func set(_ other: @escaping Answer) { answer.withLock { $0 = other } }

    func send(_ request: ProvisioningRequest) async throws(ProvisioningTransportError) -> ProvisioningReply {
        requests.withLock { $0.append(request) }
        return try answer.withLock { $0 }(request)
    }

    static func grant(for key: PublicKey, server: PublicKey) -> EnrolmentGrant {
        var random = SeededGenerator(seed: 3)
        let time = Date(timeIntervalSince1970: 1_780_000_000)
        return EnrolmentGrant(
            device: .init(
                id: RandomID(using: &random), name: "laptop", user: "anna", publicKey: key, createdAt: time,
                expiresInSeconds: 86_400),
            addresses: [.v4(10, 66, 0, 2)],
            servers: [
                .init(publicKey: server, endpoints: [try? EndpointAddress("vpn.example.com:51820")].compactMap(\.self))
            ],
            routes: [.allIPv4], renewAfterSeconds: 3600, serverTime: time)
    }

    static func problem(_ code: ProblemDetails.Code) -> ProvisioningReply {
        ProvisioningReply(
            status: 403, body: ProblemDetails(title: "no", status: 403, detail: "used already", code: code).body)
    }
}

/// A folder of profiles, an invitation, and a gateway that gives every device the same grant.
struct EnrolScene: Sendable {
    let folder: URL
    let captured = CapturedConsole()
    let invitation: Invitation
    let gateway: ScriptedGateway
    let serverKey: PublicKey

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "culvert-enroll-\(UUID().uuidString)")
        var random = SeededGenerator(seed: 51)
        let pins = (1...2).compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) }
        invitation = try Invitation(
            host: "vpn.example.com", token: BearerSecret(.invitation, using: &random),
            expires: Date(timeIntervalSinceNow: 600), pins: pins, gateway: "Example Office")
        serverKey = PrivateKey(using: &random).publicKey
        gateway = ScriptedGateway(Self.accepting(serverKey))
    }

    /// Answers every enrolment with a grant.
    static func accepting(_ serverKey: PublicKey) -> ScriptedGateway.Answer {
        { (request) throws(ProvisioningTransportError) in
            guard let body = request.body, let enrolment = try? EnrolmentRequest(body: body) else {
                throw .unreachable("no body")
            }
            return ProvisioningReply(
                status: 201, body: ScriptedGateway.grant(for: enrolment.publicKey, server: serverKey).body)
        }
    }

    func tool(within deadline: Duration = .seconds(30)) -> EnrolTool {
        EnrolTool(
            directory: ProfileDirectory(path: folder.path), console: captured.console(), transport: gateway,
            deadline: deadline)
    }

    func enrol(
        _ other: Invitation? = nil, name: String? = nil, replaces: Bool = false,
        within deadline: Duration = .seconds(30)
    ) async -> Int32 {
        let (tool, invitation) = (tool(within: deadline), other ?? invitation)
        return await tool.reporting { () throws(EnrolProblem) in
            try await tool.enrol(invitation, name: name, deviceName: "laptop", replaces: replaces)
        }
    }

    /// The profile with this name, and the enrolment that it uses.
    func kept(_ name: String) async throws -> (TunnelProfile, DeviceEnrolment)? {
        let manager = try await ProfileDirectory(path: folder.path).manager().manager
        guard let profile = await manager.profiles.first(where: { $0.name == name }) else { return nil }
        let configuration: EnrolledTunnelConfiguration = try profile.configuration.decode()
        let secret = try await ProfileDirectory(path: folder.path).secrets().read(
            configuration.secretName, of: profile.id)
        return (profile, try DeviceEnrolment(secret))
    }

    func clean() { try? FileManager.default.removeItem(at: folder) }
}
