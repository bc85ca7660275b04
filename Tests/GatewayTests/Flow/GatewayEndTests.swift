// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import GRDB
import Logging
import PacketTunnelTesting
import Provisioning
import Testing
import TunnelIO
import WireGuardCore

@testable import Gateway

@Suite("The end of a gateway", .timeLimit(.minutes(2)))
struct GatewayEndTests {
    private static let admin = Caller.local(0)

    /// A device of a new user.
    private func device(_ scene: FlowScene) async throws -> DeviceID {
        let service = scene.process.service
        let user = try await service.addUser(UserDraft(login: "anna"), Self.admin).item
        var random = RandomSource()
        let draft = DeviceDraft(
            userID: user.id, name: "laptop", publicKey: PrivateKey(using: &random).publicKey)
        return try await service.addDevice(draft, Self.admin).item.device.id
    }

    /// Runs a gateway that, when it ends, waits half a second for its database.
    private func run(_ body: (FlowScene, DeviceID, CapturedLog, String) async throws -> Void) async throws {
        try await TestFolder.use { folder in
            let log = CapturedLog()
            let scene = try await FlowScene(folder, logger: log.logger, stopLimit: .milliseconds(500))
            try await body(scene, try await device(scene), log, "\(folder)/gateway/gateway.db")
        }
    }

    /// Ends a gateway. Expects that it ends quickly, and that the log reports the revocation of a device as not saved.
    private func expectEnd(_ scene: FlowScene, without id: DeviceID, _ log: CapturedLog) async {
        let time = await ContinuousClock().measure { await scene.stop() }
        #expect(time < .seconds(30))
        #expect(
            log.text.contains("critical not saved, will be undone by the next start: device \(id) is revoked"),
            "\(log.text)")
    }

    @Test("A gateway closes its database when it ends, and leaves no write-ahead log")
    func closes() async throws {
        try await TestFolder.use { folder in
            let log = CapturedLog()
            let scene = try await FlowScene(folder, logger: log.logger)
            let id = try await device(scene)
            // Open several connections for reading.
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<8 { group.addTask { _ = try await scene.process.service.device(id, Self.admin) } }
                try await group.waitForAll()
            }
            let path = "\(folder)/gateway/gateway.db"
            #expect(FileManager.default.fileExists(atPath: path + "-wal"))
            await scene.stop()
            for end in ["-wal", "-shm"] { #expect(!FileManager.default.fileExists(atPath: path + end), "\(end)") }
            #expect(!log.text.contains("cannot close"), "\(log.text)")
            let store = try GatewayStore(path: path)
            #expect(try await store.device(id) != nil)
            try store.close()
        }
    }

    @Test("A gateway whose database another process has locked ends, and logs the unsaved revocation")
    func locked() async throws {
        try await run { scene, id, log, path in
            var configuration = Configuration()
            configuration.allowsUnsafeTransactions = true
            let other = try DatabaseQueue(path: path, configuration: configuration)
            try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
            #expect(try await !scene.process.service.removeDevice(id, Self.admin))
            await expectEnd(scene, without: id, log)
            try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
            try other.close()
        }
    }

    @Test("A gateway whose disk does not answer ends, and logs the unsaved revocation")
    func hung() async throws {
        try await run { scene, id, log, _ in
            let (service, store) = (scene.process.service, scene.process.store)
            // Start a write that does not end, and then a revocation.
            let (gate, changes) = (Monitor((isWriting: false, isOpen: false)), Changes())
            changes.follow(service.changeSignals())
            let write = Task {
                try await store.database.write { _ in
                    gate.update { gate in
                        gate.isWriting = true
                        return true
                    }
                    changes.notify()
                    _ = gate.wait(until: LaneClock.now() + 90 * LaneClock.nanosecondsPerSecond) {
                        $0.isOpen ? true : nil
                    }
                }
            }
            #expect(await changes.wait { gate.withValue { $0.isWriting } })
            let removal = Task { try await service.removeDevice(id, Self.admin) }
            #expect(await changes.wait { service.denials.devices == [id] })
            await expectEnd(scene, without: id, log)
            #expect(log.text.contains("the database has not answered"), "\(log.text)")
            gate.update { gate in
                gate.isOpen = true
                return true
            }
            try await write.value
            _ = try await removal.value
            try store.close()
        }
    }
}
