// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import PacketTunnel
import PacketTunnelTesting
import PinnedProvisioning
import Provisioning
import Synchronization
import Testing
import WireGuardTunnel

@testable import Gateway

@Suite("The backup key of a gateway's device API", .timeLimit(.minutes(2)))
struct BackupKeyFlowTests {
    /// A device with its profile, which has the pins of the invitation for ever, and its stored enrolment.
    private final class Laptop: Sendable {
        private static let logger = Logger(label: "laptop") { _ in SwiftLogNoOpLogHandler() }
        private let servers: [ProvisioningServer]
        private let stored: Mutex<DeviceEnrolment>

        init(_ invitation: Invitation) {
            servers = EnrolledTunnelConfiguration(invitation).gateways
            var random = SystemRandomNumberGenerator()
            stored = Mutex(DeviceEnrolment(token: invitation.token, using: &random))
        }

        var pins: [ServerKeyPin]? { stored.withLock { $0.grant?.pins } }

        /// Enrols or renews, as a process that starts now.
        func renew() async throws(ProvisioningError) {
            let client = EnrolmentClient(
                servers: servers, transport: PinnedProvisioningTransport(), deadline: .seconds(5),
                logger: Self.logger)
            let keeper = EnrolmentKeeper(client: client, logger: Self.logger) { (secret) throws(TunnelError) in
                do throws(ContractError) {
                    let enrolment = try DeviceEnrolment(secret)
                    self.stored.withLock { $0 = enrolment }
                } catch {
                    throw TunnelError(.storage, "\(error)")
                }
            }
            _ = try await keeper.refreshed(stored.withLock { $0 }, renewing: true)
        }
    }

    /// Replaces the active key, once no gateway uses the folder.
    private func recover(_ folder: String, _ key: String, new: String) async throws -> GatewayDirectory.Pins {
        let directory = try GatewayDirectory(existing: "\(folder)/gateway")
        return try await directory.recoverAPIKey("\(folder)/\(key)", newBackupKey: "\(folder)/\(new)", .local(0))
    }

    /// Runs a gateway meanwhile, and waits until it has released its folder.
    private func serve(
        _ folder: String, _ start: (String) async throws -> FlowScene, _ body: (FlowScene) async throws -> Void
    ) async throws {
        func run() async throws {
            let scene = try await start(folder)
            try await body(scene)
            await scene.stop()
        }
        try await run()
        let directory = "\(folder)/gateway"
        #expect(
            await waitUntil(timeout: .seconds(30), pollEvery: .milliseconds(5)) {
                (try? GatewayDirectory(existing: directory).lock()) != nil
            })
    }

    /// Starts the gateway of a folder again.
    private func again(_ folder: String) async throws -> FlowScene {
        try await FlowScene(GatewayDirectory(existing: "\(folder)/gateway"))
    }

    @Test("Devices follow a gateway that lost its API key to the backup key, and again to the next backup key")
    func lostKey() async throws {
        try await TestFolder.use { folder in
            var laptops: [Laptop] = []
            try await serve(folder, { try await FlowScene($0) }) { scene in
                for limit in [5, nil, nil] { laptops.append(Laptop(try await scene.invitation(deviceLimit: limit))) }
                try await laptops[0].renew()
                try await laptops[1].renew()
            }
            let (laptop, sleeper, unused) = (laptops[0], laptops[1], laptops[2])
            let first = try GatewayDirectory(existing: "\(folder)/gateway").pins()
            #expect(laptop.pins == [first.active, first.backup])

            // The key is lost: the gateway does not start, and the error names the command.
            try FileManager.default.removeItem(atPath: "\(folder)/gateway/api.key")
            let failure = await #expect(throws: GatewayProcessError.self) { _ = try await again(folder) }
            #expect(failure?.fix.contains("culvert gateway key activate-backup") == true)

            let second = try await recover(folder, "backup.key", new: "backup-2.key")
            #expect(second.active == first.backup && second.backup != first.active)
            try await serve(folder, again) { scene in
                // The device has only the first pins, and gets the new ones.
                try await laptop.renew()
                #expect(laptop.pins == [second.active, second.backup])
                // An invitation from before is still valid.
                try await unused.renew()
                #expect(unused.pins == laptop.pins && sleeper.pins == [first.active, first.backup])
                let entries = try await scene.process.service.audit(
                    AuditFilter(action: .backupKeyActivated), PageRequest(), .local(0)
                ).items
                #expect(
                    entries.map(\.record.details)
                        == [["active": second.active.description, "backup": second.backup.description]])
            }

            let third = try await recover(folder, "backup-2.key", new: "backup-3.key")
            #expect(third.active == second.backup)
            try await serve(folder, again) { _ in
                try await laptop.renew()
                #expect(laptop.pins == [third.active, third.backup])
                // A device that did not renew in between knows neither key.
                let refused = await #expect(throws: ProvisioningError.self) { try await sleeper.renew() }
                #expect(refused?.tunnelError.message.contains("not the server") == true)
            }
        }
    }

    @Test("A device refuses a server with the stolen key after it has the new pins")
    func stolenKey() async throws {
        try await TestFolder.use { folder in
            var laptops: [Laptop] = []
            try await serve(folder, { try await FlowScene($0) }) { scene in
                laptops.append(Laptop(try await scene.invitation()))
                try await laptops[0].renew()
            }
            let (laptop, stolen) = (laptops[0], "\(folder)/stolen")
            try FileManager.default.createDirectory(atPath: stolen, withIntermediateDirectories: false)
            try FileManager.default.copyItem(atPath: "\(folder)/gateway", toPath: "\(stolen)/gateway")

            _ = try await recover(folder, "backup.key", new: "backup-2.key")
            try await serve(folder, again) { _ in try await laptop.renew() }
            try await serve(stolen, again) { _ in
                let refused = await #expect(throws: ProvisioningError.self) { try await laptop.renew() }
                #expect(refused?.tunnelError.message.contains("not the server") == true)
            }
        }
    }

    @Test("A running gateway keeps its keys: the activation is refused and leaves no file")
    func running() async throws {
        try await TestFolder.use { folder in
            let scene = try await FlowScene(folder)
            let error = await #expect(throws: GatewayDirectoryError.self) {
                _ = try await recover(folder, "backup.key", new: "backup-2.key")
            }
            #expect(error?.kind == .inUse)
            #expect(!FileManager.default.fileExists(atPath: "\(folder)/backup-2.key"))
            await scene.stop()
        }
    }
}
