// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CommandLineTesting
    import CompatibilityFixtures
    import CredentialTunnel
    import Foundation
    import PacketTunnel
    import Provisioning
    import Testing
    import WireGuardTunnel

    @testable import PacketTunnelLinux
    @testable import culvert

    /// Profiles and the files of running tunnels, as an earlier commit has written them.
    @Suite("Tunnels of an earlier version")
    struct TunnelFixtureTests {
        private let folder: ScratchFolder

        init() throws { folder = try ScratchFolder() }

        @Test("A profile of each kind is loaded with its secrets, and is changed")
        func profiles() async throws {
            let profiles = ProfileFolder(path: try Fixtures.copy("clients", to: folder.path + "/culvert"))
            let loader = TunnelLoader(wireGuardFolder: folder.path, profiles: profiles, interface: nil)
            var providers: Set<String> = []
            for name in ["phone", "staff", "cred", "office"] {
                let tunnel = try await loader.load(name)
                providers.insert(tunnel.kind.provider)
                try tunnel.kind.check(name)
                #expect(
                    tunnel.leakPolicy == tunnel.kind.leakPolicy && tunnel.kind.server?.hasPrefix("192.0.2.2") == true)
                for secret in try await tunnel.secrets.names(of: tunnel.profileID) {
                    #expect(try await tunnel.secrets.read(secret, of: tunnel.profileID).count > 0)
                }
                switch tunnel.kind {
                case .wireGuard(let configuration):
                    #expect(configuration.leakPolicy == .enforcedRoutes && configuration.allowedNetworks.count == 1)
                    #expect(configuration.connectivity.endWhenDead == .afterHealing)
                    #expect(await tunnel.publicKey()?.count == 44)
                    let profile = try #require(try await profiles.find(name))
                    #expect(
                        try JSONValue(encoding: configuration) == profile.configuration, "the form that was written")
                case .login(let configuration):
                    #expect(configuration.login == "anna")
                    #expect(configuration.leakPolicy == (name == "cred" ? .everything : .routeBased))
                case .enrolled(let configuration):
                    let secret = try await tunnel.secrets.read(configuration.secretName, of: tunnel.profileID)
                    let enrolment = try DeviceEnrolment(secret)
                    #expect(enrolment.grant?.device.id == configuration.deviceID && enrolment.token == nil)
                    #expect(enrolment.grant?.servers.count == 1 && enrolment.grant?.presharedKey != nil)
                }
            }
            #expect(providers.count == 3, "each case of TunnelKind")
            let captured = CapturedConsole()
            let tool = ProfileTool(
                folder: profiles, console: captured.console(), runtime: RuntimeDirectory(path: folder.path + "/run"))
            try await tool.list(json: false)
            for name in ["phone", "staff", "cred", "office"] { #expect(captured.output.contains("\(name) ")) }
            try await tool.addLogin(LoginChange(name: "staff", server: "192.0.2.3:51840")) { _ in nil }
            #expect(try await loader.load("staff").kind.server == "192.0.2.3:51840")
            try await tool.remove("phone")
            await #expect(throws: CommandProblem.self) { try await loader.load("phone") }
        }

        @Test("Each line of an earlier journal is decoded, and its facts are kept when it is written again")
        func journal() throws {
            let path = try Fixtures.copy("tunnels", to: folder.path + "/run")
            let directory = JournalDirectory(path: path)
            for name in ["phone", "staff"] {
                let contents = try #require(try directory.read(name))
                #expect(contents.damagedLines == 0 && contents.owner != nil && !contents.pending.isEmpty)
                let lines = try Fixtures.text("tunnels/\(name).journal").split(separator: "\n")
                for line in lines {
                    let record = try #require(JournalLine.decode(Array(line.utf8)[...]))
                    #expect(JournalLine.decode(try #require(JournalLine.encode(record)).dropLast()) == record)
                }
                #expect(contents.pending.count == lines.count - 1)
            }
        }

        @Test("Held policies are read: one lasts until `down`, one until its release")
        func guards() throws {
            let path = try Fixtures.copy("tunnels", to: folder.path + "/run")
            let options = LinuxHostOptions(journalFolder: path)
            #expect(try LinuxPlatform.heldPolicy(name: "phone", options: options) == .enforcedRoutes)
            #expect(try LinuxPlatform.heldPolicy(name: "phone", untilReleased: true, options: options) == nil)
            #expect(try LinuxPlatform.heldPolicy(name: "staff", untilReleased: true, options: options) == .everything)
            #expect(RuntimeDirectory(path: path).heldPolicy("phone") == .enforcedRoutes)
            let held = try #require(try JournalDirectory(path: path).heldPolicy("staff"))
            #expect(held.text == (try Fixtures.text("tunnels/staff.guard")))
        }

        @Test("`culvert log` reads the log of a killed tunnel")
        func log() throws {
            let path = try Fixtures.copy("tunnels", to: folder.path + "/run")
            // The fixture has no slots that were never written.
            let file = try FileHandle(forWritingTo: URL(filePath: path + "/phone.log"))
            let geometry = RingLogGeometry.standard
            try file.truncate(atOffset: UInt64(4096 + geometry.slotCount * geometry.slotByteCount))
            try file.close()
            let captured = CapturedConsole()
            let tool = LogTool(runtime: RuntimeDirectory(path: path), console: captured.console())
            let messages = try tool.open("phone").records().map(\.message)
            #expect(messages.contains { $0.contains("phone from profile phone") })
            #expect(messages.contains("tunnel connected"))
        }
    }
#endif
