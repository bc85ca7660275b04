// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import CompatibilityFixtures
    import Foundation
    import Testing

    @testable import PacketTunnelLinux

    /// Files of an earlier commit's programs, used by the programs of this commit.
    ///
    /// The programs use the machine's clock. The certificates of the fixtures are valid from 2000 to 2120, users and
    /// devices until 2126, and the invitation until 2036 (`GatewayFixtureTests/secrets`).
    @Suite(
        "Data of an earlier version", .serialized,
        .enabled(if: Privileged.isAvailable && PrivateEtc.isPossible, "needs root and a mount namespace"),
        .timeLimit(.minutes(5)))
    struct CompatibilityTests {
        @Test("A gateway serves its enrolled, stock and login devices, enrols another device, and changes rules")
        func gateway() async throws {
            let scene = try GatewayProgramScene(fixture: "gateway")
            let (anna, ben) = (scene.network.anna, scene.network.ben)
            let clients = try Fixtures.copy("clients", to: scene.files.path + "/clients")
            for (client, third) in [(anna, 100), (ben, 101)] {
                try client.run("ip", "route", "add", "default", "via", "198.51.\(third).1")
            }
            try scene.run()
            let server = GatewayProgramScene.server
            // Each kind of profile for the gateway.
            for name in ["phone", "staff", "office"] {
                let up = try scene.culvert("up", name, "--directory", clients, in: anna)
                #expect(up.contains("\(name): connected after"), "\(up)")
                #expect(try scene.pings(server, from: anna, patience: 9), "\(name)")
                #expect(try scene.seenSource(of: anna) == GatewayProgramScene.host, "\(name)")
                if name != "office" { try scene.culvert("down", name, in: anna) }
            }

            // A stock client, with the file that was exported for it.
            let daemon = try DaemonProcess(.wireguardGo, in: ben)
            let file = scene.files.path + "/\(daemon.name).conf"
            try Fixtures.copy("gateway-admin/phone.conf", to: file)
            try Wg.configure(daemon.name, try PrivilegedTests.run(["wg-quick", "strip", file]).output)
            let peers = try scene.culvert("gateway", "peer", "show", "phone")
            let address = try #require(peers.firstMatch(of: /10\.66\.\d+\.\d+/)).0
            try ben.run("ip", "address", "add", "\(address)/32", "dev", daemon.name)
            try ben.run("ip", "link", "set", daemon.name, "mtu", "1420", "up")
            try ben.run("ip", "route", "add", "\(server)/32", "dev", daemon.name)
            #expect(try scene.pings(server, from: ben, patience: 9))
            #expect(try #require(try Wg.dump(daemon.name).peers.first).latestHandshake > 0)
            _ = try daemon.stop()

            // Another device, with the unused invitation.
            let invitation = try Fixtures.copy(
                "gateway-admin/unused.invitation", to: scene.files.path + "/invitation")
            let enrolled = try scene.culvert(
                "enroll", invitation, "--name", "new", "--directory", clients, in: ben)
            let device = try #require(enrolled.firstMatch(of: /of anna: device ([a-z2-7]{26})/), "\(enrolled)").1
            #expect(try scene.culvert("up", "new", "--directory", clients, in: ben).contains("connected after"))
            #expect(try scene.pings(server, from: ben, patience: 9))
            #expect(
                try scene.culvert("enroll", "renew", "office", "--directory", clients, in: anna).contains("renewed"))

            // Rules, and the end of the gateway.
            let blocked = try await scene.network.cutOff(anna) {
                try scene.culvert("gateway", "rule", "add", "deny", "--user", "anna", "--to", "\(server)/32", "--first")
            }
            #expect(blocked < .seconds(1))
            #expect(try scene.pings(GatewayProgramScene.inner, from: anna, patience: 9))
            try scene.culvert("gateway", "peer", "revoke", String(device))
            try eventually("the new device is cut off") { try !scene.pings(GatewayProgramScene.inner, from: ben) }
            try scene.culvert("down", "office", in: anna)
            try scene.culvert("down", "--all", in: ben)
            try scene.stop()
            try scene.network.world.expectUnchanged(since: scene.before)
        }

        @Test("A gateway that was restored from a backup serves the enrolled device")
        func backup() throws {
            let scene = try GatewayProgramScene(fixture: "gateway")
            let files = scene.files.path
            let anna = scene.network.anna
            try anna.run("ip", "route", "add", "default", "via", "198.51.100.1")
            try FileManager.default.removeItem(atPath: GatewayProgramScene.directory)
            let backup = try Fixtures.copy("gateway-admin/gateway.backup", to: files + "/backup")
            let passphrase = try Fixtures.copy("gateway-admin/passphrase", to: files + "/passphrase")
            try scene.culvert(
                "gateway", "restore", backup, "--owner", "culvert", "--passphrase-file", passphrase)
            try scene.run()
            let clients = try Fixtures.copy("clients", to: files + "/clients")
            #expect(try scene.culvert("up", "office", "--directory", clients, in: anna).contains("connected after"))
            #expect(try scene.pings(GatewayProgramScene.server, from: anna, patience: 9))
            #expect(try scene.culvert("gateway", "audit").contains("restored"))
            try scene.culvert("down", "office", in: anna)
            try scene.stop()
        }

        @Test(
            "A gateway that took over a credential server logs its user in by the old profile, and another user by a password"
        )
        func credentialServer() throws {
            let etc = try PrivateEtc(resolvConf: CulvertUpScene.resolvConf)
            let scene = try LoginGatewayScene()
            try scene.initialize()
            try scene.addDefaultRoute()
            let server = try Fixtures.copy("credential-server", to: "\(scene.folder.path)/server")
            for words in ["new users: 2", "existing users: 2"] {
                let result = try scene.command("import-credential-server", server)
                #expect(result.status == 0 && result.output.contains(words), "\(result)")
            }
            try scene.start()
            #expect(try scene.command("import-credential-server", server).status == 5)
            #expect(scene.presharedKey == (try Fixtures.line("credential-server/preshared.key")))
            let clients = try Fixtures.copy("clients", to: scene.profiles)
            func culvert(_ arguments: String...) throws -> String {
                try PrivilegedTests.run(scene.culvert(arguments), deadline: .seconds(120)).output
            }
            #expect(try culvert("up", "cred", "--directory", clients).contains("cred: connected after"))
            try scene.outside.run("ping", "-n", "-q", "-c", "1", "-W", "9", "203.0.113.7")
            #expect(try scene.outside.run("ip", "address", "show", "dev", "cred").output.contains("10.66.0.77/"))
            _ = try culvert("down", "cred")
            try scene.add("cara", "a new user's password")
            let client = try scene.client()
            guard case .success = try client.logIn("cara", "a new user's password") else {
                Issue.record("the new user was refused: \(client.events)")
                return
            }
            try scene.stop()
            withExtendedLifetime(etc) {}
        }

        /// A host with the files and the kernel state of an earlier version's tunnel that was killed.
        private struct Left {
            let etc: PrivateEtc
            let world: LinuxHostWorld
            let runtime: TemporaryFolder
            let before: [String]

            init(_ name: String) throws {
                etc = try PrivateEtc(resolvConf: CulvertUpScene.resolvConf)
                world = try LinuxHostWorld()
                runtime = try TemporaryFolder()
                before = try world.snapshot()
                try Fixtures.copy("tunnels", to: runtime.path)
                for file in try FileManager.default.contentsOfDirectory(atPath: runtime.path)
                where !file.hasPrefix(name + ".") {
                    try FileManager.default.removeItem(atPath: "\(runtime.path)/\(file)")
                }
                try world.host.run("nft", "-f", Fixtures.url("tunnels/\(name).nft").path)
            }

            /// Runs the program and returns its result with any status.
            func attempt(_ arguments: String...) throws -> CommandResult {
                try PrivilegedTests.runAllowingFailure(
                    [
                        "ip", "netns", "exec", world.host.name, "env", "CULVERT_RUNTIME_DIRECTORY=\(runtime.path)",
                        CulvertUpScene.program,
                    ] + arguments)
            }

            /// The names of the journals and marks in the folder, sorted.
            var remains: [String] {
                get throws {
                    try FileManager.default.contentsOfDirectory(atPath: runtime.path).filter {
                        $0.hasSuffix(".journal") || $0.hasSuffix(".guard")
                    }.sorted()
                }
            }

            /// Whether a ping to the internet is answered.
            var reachesInternet: Bool {
                get throws {
                    try world.host.runAllowingFailure(
                        "ping", "-n", "-q", "-c", "1", "-W", "1", GatewayProgramScene.server
                    ).status == 0
                }
            }
        }

        @Test(
            "`culvert down` and `culvert cleanup` undo each change in the journal of a killed tunnel",
            arguments: ["down", "cleanup"])
        func journal(_ command: String) throws {
            let left = try Left("phone")
            for family in ["4", "6"] {
                try left.world.host.run("ip", "-\(family)", "-batch", Fixtures.url("tunnels/phone.ip\(family)").path)
            }
            try left.world.host.run("sysctl", "-qw", "net.ipv4.conf.all.src_valid_mark=1")
            let record = try left.runtime.write("nameserver 203.0.113.53\n", to: "record")
            try left.world.host.run("sh", "-c", "resolvconf -a phone < \(record)")
            #expect(try left.world.changes(since: left.before).count > 5)
            #expect(try left.attempt("status", "phone", "--json").output.contains(#""enforced""#))
            #expect(try !left.reachesInternet)
            let undone = try left.attempt(command, "phone")
            #expect(undone.status == 0, "\(undone)")
            let pending = try JournalLine.read(Array(Fixtures.text("tunnels/phone.journal").utf8)).pending
            for entry in pending {
                if case .number = entry.change { continue }
                #expect(undone.output.contains(entry.summary), "\(undone)")
            }
            try left.world.expectUnchanged(since: left.before)
            #expect(try left.reachesInternet)
            #expect(try left.remains.isEmpty)
        }

        @Test("A policy that was held until its release holds through `culvert down`, and is released")
        func guarded() throws {
            let left = try Left("staff")
            #expect(try left.attempt("status", "staff", "--json").output.contains(#""held""#))
            _ = try left.attempt("down", "staff")
            #expect(try left.remains.contains("staff.guard") && !left.reachesInternet)
            #expect(try left.attempt("guard", "staff", "--release").output.contains("culvert_staff"))
            try left.world.expectUnchanged(since: left.before)
            #expect(try left.reachesInternet && left.remains.isEmpty)
        }
    }
#endif
