// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import Logging
import PacketTunnel
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

    /// Replaces the active key, and starts the gateway again.
    private func recover(_ folder: String, _ key: String, new: String) async throws -> (
        scene: FlowScene, pins: GatewayDirectory.Pins
    ) {
        let directory = try GatewayDirectory(existing: "\(folder)/gateway")
        let pins = try await directory.recoverAPIKey(
            "\(folder)/\(key)", newBackupKey: "\(folder)/\(new)", .local(0))
        return (try await FlowScene(directory), pins)
    }

    @Test("Devices follow a gateway that lost its API key to the backup key, and again to the next backup key")
    func lostKey() async throws {
        try await TestFolder.use { folder in
            var scene = try await FlowScene(folder)
            let laptop = Laptop(try await scene.invitation(deviceLimit: 5))
            let sleeper = Laptop(try await scene.invitation())
            let unused = Laptop(try await scene.invitation())
            try await laptop.renew()
            try await sleeper.renew()
            let first = try GatewayDirectory(existing: "\(folder)/gateway").pins()
            #expect(laptop.pins == [first.active, first.backup])
            await scene.stop()

            // The key is lost: the gateway does not start, and the error names the command.
            try FileManager.default.removeItem(atPath: "\(folder)/gateway/api.key")
            let failure = await #expect(throws: GatewayProcessError.self) {
                _ = try await FlowScene(GatewayDirectory(existing: "\(folder)/gateway"))
            }
            #expect(failure?.fix.contains("culvert gateway key activate-backup") == true)

            let second: GatewayDirectory.Pins
            (scene, second) = try await recover(folder, "backup.key", new: "backup-2.key")
            #expect(second.active == first.backup && second.backup != first.active)
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
            await scene.stop()

            let third: GatewayDirectory.Pins
            (scene, third) = try await recover(folder, "backup-2.key", new: "backup-3.key")
            #expect(third.active == second.backup)
            try await laptop.renew()
            #expect(laptop.pins == [third.active, third.backup])
            // A device that did not renew in between knows neither key.
            let refused = await #expect(throws: ProvisioningError.self) { try await sleeper.renew() }
            #expect(refused?.tunnelError.message.contains("not the server") == true)
            await scene.stop()
        }
    }

    @Test("A device refuses a server with the stolen key after it has the new pins")
    func stolenKey() async throws {
        try await TestFolder.use { folder in
            var scene = try await FlowScene(folder)
            let laptop = Laptop(try await scene.invitation())
            try await laptop.renew()
            await scene.stop()
            let stolen = "\(folder)/stolen"
            try FileManager.default.copyItem(atPath: "\(folder)/gateway", toPath: stolen)

            (scene, _) = try await recover(folder, "backup.key", new: "backup-2.key")
            try await laptop.renew()
            await scene.stop()
            let thief = try await FlowScene(GatewayDirectory(existing: stolen))
            let refused = await #expect(throws: ProvisioningError.self) { try await laptop.renew() }
            #expect(refused?.tunnelError.message.contains("not the server") == true)
            await thief.stop()
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
