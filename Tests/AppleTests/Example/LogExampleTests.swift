// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelModel
import Foundation
import HostConformance
import Logging
import NetworkExtension
import Observation
import PacketTunnelTesting
import Testing

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("The example's log page", .timeLimit(.minutes(5)))
struct LogExampleTests {
    @MainActor static func reaches(_ condition: @MainActor () -> Bool) async -> Bool {
        let changes = Changes()
        return await changes.wait {
            withObservationTracking {
                condition()
            } onChange: {
                changes.notify()
            }
        }
    }

    @Test("The log shows lines of app and extension as they are written, filtered by level and search text")
    @MainActor func file() async throws {
        let folder = try Folder()
        let (app, tunnel) = (
            SharedLog(folder: folder.path, subsystem: "test"), SharedLog(folder: folder.path, subsystem: "test")
        )
        let (appLogger, tunnelLogger) = (app.logger("app", origin: .app), tunnel.logger("tunnel", origin: .extension))
        appLogger.info("the first line")
        let model = LogModel(app, managers: [])
        let following = Task { await model.follow() }
        #expect(await Self.reaches { model.lines.count == 1 })
        tunnelLogger.error("the second line")
        appLogger.warning("the third line")
        #expect(await Self.reaches { model.lines.map(\.origin) == [.app, .extension, .app] })
        model.minimumLevel = .error
        #expect(model.lines.map(\.message) == ["the second line"])
        model.minimumLevel = .info
        model.search = "THIRD"
        #expect(model.text.hasSuffix("APP warning app: the third line\n") && model.lines.count == 1)
        model.clear()
        #expect(model.records.isEmpty && app.file?.records().isEmpty == true)
        tunnelLogger.info("the third line again")
        #expect(await Self.reaches { model.lines.count == 1 })
        following.cancel()
        await following.value
        #expect(model.notice == nil)
    }

    @Test("Without a file that both share, it asks the tunnel that runs, and else says why there is nothing")
    @MainActor func messages() async throws {
        let folder = try Folder()
        let none = SharedLog(appGroup: nil, subsystem: "test")
        let log = SharedLog(folder: folder.path, subsystem: "test")
        let manager = TunnelManager(store: MemoryProfileStore(), secrets: MemorySecretStore()) { _ in
            MemoryHost(logger: log.logger("tunnel", origin: .extension), log: log.file) {
                ScriptedProvider(Script())
            }
        }
        let profile = TunnelProfile(name: "one", provider: "script", configuration: .object(["name": .string("one")]))
        try await manager.create(profile)
        let model = LogModel(none, managers: [manager])
        await model.follow()
        #expect(model.notice?.contains("no app group is named") == true)

        try await manager.start(profile.id)
        let following = Task { await model.follow() }
        #expect(await Self.reaches { model.lines.contains { $0.message == "tunnel connected" } })
        #expect(model.notice == nil)
        following.cancel()
        await following.value
        try await manager.stop(profile.id)
    }
}

/// A folder that goes with this.
struct Folder: ~Copyable {
    let path: String

    init() throws {
        path = NSTemporaryDirectory() + "culvert-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
