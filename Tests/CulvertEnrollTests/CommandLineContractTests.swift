// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import ArgumentParser
import CommandLineTesting
import Foundation
import PacketTunnel
import PacketTunnelTesting
import Provisioning
import Synchronization
import Testing
import WireGuardCore

@testable import culvert_enroll

@Suite("Contract of culvert-enroll")
struct CommandLineContractTests {
    @Test("docs/command-line.txt has the commands, options, exit statuses and JSON members of culvert-enroll")
    func contract() async throws {
        var contract = try ProgramContract(dump: EnrollCommand._dumpHelp())
        let outputs = try await outputs()
        for (command, documents) in outputs { try contract.add("culvert-enroll \(command) --json", documents) }
        let problems = try contract.check()
        #expect(problems.isEmpty, "\(ContractFile.advice)")
    }

    /// The output of each command for a device that expires, and for one that does not.
    private func outputs() async throws -> [String: [String]] {
        var outputs: [String: [String]] = [:]
        for expires in [true, false] {
            for (command, text) in try await Self.outputs(expires) { outputs[command, default: []].append(text) }
        }
        return outputs
    }

    private static func outputs(_ expires: Bool) async throws -> [String: String] {
        let folder = FileManager.default.temporaryDirectory.appending(path: "culvert-enroll-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        var random = SeededGenerator(seed: 51)
        let pins = (1...2).compactMap { ServerKeyPin(bytes: [UInt8](repeating: $0, count: 32)) }
        let invitation = try Invitation(
            host: "vpn.example.com", token: BearerSecret(.invitation, using: &random),
            expires: Date(timeIntervalSinceNow: 600), pins: pins, gateway: "office")
        let answers = Answers(server: PrivateKey(using: &random).publicKey, expires: expires)
        let gateway = ScriptedGateway { (request) throws(ProvisioningTransportError) in try answers.answer(request) }
        func output(_ body: (EnrolTool) async throws(EnrolProblem) -> Void) async throws -> String {
            let captured = CapturedConsole()
            let tool = EnrolTool(
                directory: ProfileDirectory(path: folder.path), console: captured.console(), json: true,
                transport: gateway, deadline: .seconds(30))
            try await body(tool)
            return captured.output
        }
        let device = try await output { tool throws(EnrolProblem) in
            try await tool.enrol(invitation, name: "office", deviceName: "laptop", replaces: false)
        }
        return [
            "device": device,
            "list": try await output { tool throws(EnrolProblem) in try await tool.list("office") },
            "renew": try await output { tool throws(EnrolProblem) in try await tool.renew("office") },
            "rotate": try await output { tool throws(EnrolProblem) in try await tool.rotate("office") },
            "revoke": try await output { tool throws(EnrolProblem) in try await tool.revoke("office", device: nil) },
        ]
    }
}

/// The answers of a gateway to its one device.
private final class Answers: Sendable {
    private let server: PublicKey
    private let expires: Bool
    /// The device's key.
    private let key: Mutex<PublicKey>

    init(server: PublicKey, expires: Bool) {
        self.server = server
        self.expires = expires
        key = Mutex(server)
    }

    func answer(_ request: ProvisioningRequest) throws(ProvisioningTransportError) -> ProvisioningReply {
        let body = request.body ?? []
        switch request.target {
        case EnrolmentPath.enrolments: return try grant(try? EnrolmentRequest(body: body).publicKey)
        case EnrolmentPath.rotations: return try grant(try? RotationRequest(body: body).publicKey)
        case EnrolmentPath.device, EnrolmentPath.renewal: return try grant(key.withLock { $0 })
        case EnrolmentPath.rotationNonces:
            let nonce = RotationNonce(nonce: [UInt8](repeating: 1, count: 32), serverKey: server, lifetimeSeconds: 60)
            return ProvisioningReply(status: 200, body: nonce.body)
        case EnrolmentPath.devices:
            let device = ScriptedGateway.grant(for: server, server: server).device
            let entry = DeviceListEntry(
                id: device.id, name: "laptop", platform: expires ? "linux" : nil, publicKey: device.publicKey,
                createdAt: device.createdAt, expiresInSeconds: expires ? 1 : nil, lastSeenSecondsAgo: expires ? 1 : nil,
                isCurrent: true)
            return ProvisioningReply(status: 200, body: DeviceList(devices: [entry]).body)
        default: return ProvisioningReply(status: 204, body: [])
        }
    }

    private func grant(_ new: PublicKey?) throws(ProvisioningTransportError) -> ProvisioningReply {
        guard let new else { throw .unreachable("the request has no key") }
        key.withLock { $0 = new }
        var grant = ScriptedGateway.grant(for: new, server: server)
        if !expires { grant.device.expiresInSeconds = nil }
        return ProvisioningReply(status: 200, body: grant.body)
    }
}
