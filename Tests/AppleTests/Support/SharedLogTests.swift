// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import HostConformance
import Logging
import NetworkExtension
import Testing
import os

@testable import PacketTunnel
@testable import PacketTunnelApple

@Suite("The log that app and extension share", .timeLimit(.minutes(5)))
struct SharedLogTests {
    @Test("Lines of both are in one file of their app group, and in the unified log with the tag of their writer")
    func both() throws {
        let folder = try Folder()
        let (group, subsystem) = ("group.\(UUID().uuidString)", "test.\(UUID().uuidString)")
        StandInContainers.set(URL(fileURLWithPath: folder.path), for: group)
        defer { StandInContainers.set(nil, for: group) }
        let app = SharedLog(appGroup: group, subsystem: subsystem)
        let tunnel = SharedLog(appGroup: group, subsystem: subsystem)
        #expect(app.problem == nil && app.file?.path == folder.path + "/" + SharedLog.fileName)
        app.logger("app", origin: .app).info("from the app")
        tunnel.logger("tunnel", origin: .extension).info(
            "from the tunnel, private_key=yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=")
        tunnel.logger("tunnel", origin: .extension).debug("not at this level")
        let records = try #require(app.file).records()
        #expect(records.map(\.origin) == [.app, .extension])
        #expect(records.allSatisfy { !$0.message.contains("yAnz5TF") })
        #expect(
            StandInLog.entries(of: subsystem).map(\.text) == [
                "[APP] from the app", "[TUNNEL] from the tunnel, private_key=[redacted]",
            ])
    }

    @Test("Without a container there is no file, which is logged, and lines go to the unified log")
    func noContainer() {
        for group in [nil, "group.missing"] {
            let subsystem = "test.\(UUID().uuidString)"
            let log = SharedLog(appGroup: group, subsystem: subsystem)
            #expect(log.file == nil && log.problem?.fix.contains("app group") == true)
            log.logger("app", origin: .app).info("a line")
            let entries = StandInLog.entries(of: subsystem)
            #expect(entries.count == 2 && entries.last?.text == "[APP] a line")
        }
        #expect(SharedLog(folder: "/nonexistent", subsystem: "test").problem?.message.contains("/nonexistent") == true)
    }

    @Test("The extension serves its log through the system's messages, immediately and as it is written")
    func overMessages() async throws {
        let folder = try Folder()
        let script = Script()
        let log = SharedLog(folder: folder.path, subsystem: "test")
        let system = BridgeTests.system(script) { $0.keep(log) }
        try await system.start(BridgeTests.request)
        let client = MessageClient(channel: system)
        #expect(try await client.send(LogRequest()).records.map(\.message).contains("tunnel connected"))
        let pages = try await client.subscribe(to: LogSubscription())
        var (iterator, seen) = (pages.makeAsyncIterator(), [String]())
        log.logger("tunnel", origin: .extension).notice("something new")
        while seen.last != "something new" { seen += try #require(try await iterator.next()).records.map(\.message) }
        #expect(seen.contains("tunnel connected"))
        pages.cancel()
        await system.stop(.userInitiated)
        #expect(system.unbalanced.repeated.isEmpty)
    }

    @Test("A manager of tunnels in an extension writes to the app's log")
    func manager() async throws {
        let folder = try Folder()
        let log = SharedLog(folder: folder.path, subsystem: "test")
        var options = NetworkExtensionManagerOptions(providerBundleIdentifier: "com.example.\(UUID().uuidString)")
        options.logger = log.logger("manager", origin: .app)
        let manager = TunnelManager.networkExtension(options)
        let profile = TunnelProfile(name: "one", provider: "script")
        try await manager.create(profile)
        try await manager.remove(profile.id)
        let lines = try #require(log.file).records().map { "\($0.origin.tag) \($0.label): \($0.message)" }
        #expect(lines.contains("APP manager: the profile was created"))
        #expect(lines.contains("APP manager: the profile was removed"))
    }
}
