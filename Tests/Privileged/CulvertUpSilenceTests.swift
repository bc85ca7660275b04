// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        @Suite("Without an answer", .timeLimit(.minutes(5)))
        struct SilenceTests {
            /// Options with which a dead server is detected within seconds. The pings are sent to the server's address
            /// inside the tunnel.
            static let watchful = [
                "--ping", CulvertUpScene.gateway4, "--connectivity-interval", "1", "--max-connection-attempts", "2",
                "--ping-interval", "0.2",
            ]

            private func up(_ scene: CulvertUpScene, _ arguments: [String]) throws -> CommandResult {
                try PrivilegedTests.runAllowingFailure(scene.command(["up"] + arguments))
            }

            /// The packets to distant hosts that the router received while programs tried to send some.
            private func leaks(_ scene: CulvertUpScene) throws -> [String] {
                try scene.world.captured {
                    for address in ["203.0.113.7", "2001:db8:7::7"] {
                        let result = try scene.world.host.runAllowingFailure(
                            "ping", "-n", "-q", "-c", "3", "-i", "0.05", "-W", "0.5", address)
                        #expect(result.status != 0, "nothing comes back")
                    }
                }
                .filter { $0.contains("203.0.113.7") || $0.contains("2001:db8:7::7") }
            }

            @Test("A dead server: the tunnel stays, nothing goes out in clear, and it works again when the server does")
            func staysUp() throws {
                let scene = try CulvertUpScene()
                let result = try up(scene, [try scene.writeFile()] + Self.watchful)
                #expect(result.status == 0, "\(result)")
                try scene.ping()
                try scene.setServer(isSilent: true)
                try eventually("it is noticed", within: .seconds(60)) {
                    try scene.status()["state"] as? String == "reasserting"
                }
                // After a whole round of healing the state is unchanged.
                try eventually("another round of healing", within: .seconds(120)) {
                    try scene.succeed("log", scene.name).components(separatedBy: "healing: rebind").count > 2
                }
                #expect(try scene.status()["state"] as? String == "reasserting")
                #expect(try scene.way(to: "203.0.113.7") == scene.name)
                #expect(try scene.way(to: "2001:db8:7::7") == scene.name)
                #expect(try leaks(scene).isEmpty)
                try scene.setServer(isSilent: false)
                try eventually("it works again", within: .seconds(120)) {
                    try scene.status()["state"] as? String == "connected"
                }
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("With --end-when-dead, a tunnel with a dead server ends by itself, and the network is restored")
            func ends() throws {
                let scene = try CulvertUpScene()
                let result = try up(
                    scene, [try scene.writeFile()] + Self.watchful + ["--end-when-dead", "at-once"])
                #expect(result.status == 0, "\(result)")
                try scene.ping()
                try scene.setServer(isSilent: true)
                try eventually("its process has ended", within: .seconds(60)) { scene.processes.isEmpty }
                #expect(try scene.run("status", scene.name).status == 3)
                #expect(try scene.succeed("log", scene.name).contains("no data arrives through the tunnel"))
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            enum Missing: CaseIterable, Sendable {
                case server, name, network
            }

            @Test(
                "Up --no-wait returns when the settings are applied, and the tunnel connects later",
                arguments: Missing.allCases)
            func doesNotWait(_ missing: Missing) throws {
                let scene = try CulvertUpScene()
                let name = "vpn.culvert.test"
                switch missing {
                case .server: try scene.setServer(isSilent: true)
                case .name: break
                case .network:
                    for family in ["-4", "-6"] {
                        try scene.world.host.run("ip", family, "route", "del", "default")
                    }
                }
                let before = try scene.world.snapshot()
                // A server in an attached network would need no default route.
                let server =
                    switch missing {
                    case .server: "192.0.2.1"
                    case .name: name
                    case .network: "203.0.113.7"
                    }
                let file = try scene.writeFile(server: server)
                let waits = missing == .server ? nil : try scene.run("up", file, "--timeout", "1")
                #expect(waits == nil || waits?.status == 6, "\(String(describing: waits))")
                let result = try scene.run("up", file, "--no-wait")
                #expect(result.status == 0, "\(result)")
                let text = "\(scene.name): up, not connected yet; it continues to try"
                #expect(result.output.contains(text), "\(result)")
                #expect(try scene.status()["state"] as? String == "reasserting")
                #expect(try scene.way(to: "203.0.113.7") == scene.name)
                #expect(try leaks(scene).isEmpty)
                switch missing {
                case .server: try scene.setServer(isSilent: false)
                case .name:
                    let hosts = try String(contentsOfFile: "/etc/hosts", encoding: .utf8)
                    try "\(hosts)\n192.0.2.1 \(name)\n".write(
                        toFile: "/etc/hosts", atomically: false, encoding: .utf8)
                case .network:
                    try scene.world.host.run("ip", "route", "add", "default", "via", "192.0.2.1")
                    try scene.world.host.run("ip", "-6", "route", "add", "default", "via", "2001:db8:2::1")
                }
                try eventually("it is connected", within: .seconds(120)) {
                    try scene.status()["state"] as? String == "connected"
                }
                try scene.ping()
                try scene.succeed("down", scene.name)
                let changes = try scene.world.changes(since: missing == .network ? scene.before : before)
                #expect(changes.isEmpty, "\(changes)")
                #expect(scene.remains.isEmpty)
            }

            @Test("IPv6 that leaves outside the tunnel is reported on the terminal once, with the remedy")
            func ipv6Outside() throws {
                let scene = try CulvertUpScene()
                let open = try scene.run("up", try scene.writeFile(allowedIPs: "0.0.0.0/0"))
                #expect(open.status == 0)
                let warnings = open.output.split(separator: "\n").filter { $0.hasPrefix("warning: ") }
                #expect(warnings.count == 1 && warnings.first?.contains("add ::/0 to AllowedIPs") == true, "\(open)")
                #expect(try scene.succeed("log", scene.name).contains("add ::/0 to AllowedIPs"))
                try scene.succeed("down", scene.name)
                for arguments in [["--leak-policy", "everything"], []] {
                    if arguments.isEmpty { try scene.writeFile() }
                    let closed = try up(scene, [scene.files.path + "/\(scene.name).conf"] + arguments)
                    #expect(closed.status == 0 && !closed.output.contains("::/0"), "\(closed)")
                    try scene.succeed("down", scene.name)
                }
                try scene.expectUnchanged()
            }

            @Test("Warnings of the tunnel's process during the start are printed on the terminal once")
            func warnings() throws {
                let scene = try CulvertUpScene()
                try scene.world.host.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
                let result = try scene.run("up", try scene.writeFile())
                #expect(result.status == 0, "\(result)")
                let warnings = result.output.split(separator: "\n").filter { $0.hasPrefix("warning: ") }
                #expect(warnings.count == 1 && warnings.first?.contains("IPv6") == true, "\(result)")
                try scene.succeed("down", scene.name)
            }
        }
    }
#endif
