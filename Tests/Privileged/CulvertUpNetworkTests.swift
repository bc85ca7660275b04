// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        /// Unusual networks, with a server outside the routed networks and without a default route to it.
        @Suite("Any network", .timeLimit(.minutes(5)))
        struct NetworkTests {
            private static let name = "vpn.culvert.test"
            /// A distant address behind the router that is also an address of the server.
            private static let far = "203.0.113.7"

            private func setHosts(_ line: String) throws {
                let hosts = try String(contentsOfFile: "/etc/hosts", encoding: .utf8)
                try "\(hosts)\n\(line)\n".write(toFile: "/etc/hosts", atomically: false, encoding: .utf8)
            }

            @Test(
                "A server inside the routed networks is reached, by number and by name, known before or after the start",
                arguments: ["203.0.113.7", "vpn.culvert.test", "vpn.culvert.test later"])
            func serverInside(_ server: String) throws {
                let scene = try CulvertUpScene()
                let isLater = server.hasSuffix(" later")
                if server == Self.name { try setHosts("\(Self.far) \(Self.name)") }
                let file = try scene.writeFile(
                    server: isLater ? Self.name : server, allowedIPs: "200.0.0.0/5, 10.77.0.0/24")
                let result = try scene.run("up", file, isLater ? "--no-wait" : "--timeout=60")
                #expect(result.status == 0, "\(result)")
                if isLater { try setHosts("\(Self.far) \(Self.name)") }
                try eventually("it is connected", within: .seconds(120)) {
                    try scene.status()["state"] as? String == "connected"
                }
                // Programs' packets to this address use the tunnel, but the tunnel's own packets do not.
                #expect(try scene.way(to: Self.far) == scene.name)
                #expect(try scene.way(to: "198.51.100.7") == "eth0")
                let before = try scene.peer.received
                for address in [Self.far, CulvertUpScene.gateway4] { try scene.ping(address) }
                // Six pings of 84 bytes, with the tunnel's overhead.
                #expect(try scene.peer.received - before > 600)
                try scene.succeed("down", scene.name)
                #expect(scene.remains.isEmpty)
            }

            @Test(
                "Without a default route a server on the attached network is reached; for another, the error names the missing route"
            )
            func attached() throws {
                let scene = try CulvertUpScene()
                for family in ["-4", "-6"] { try scene.world.host.run("ip", family, "route", "del", "default") }
                let before = try scene.world.snapshot()
                let file = try scene.writeFile(allowedIPs: "10.77.0.0/24")
                let result = try scene.run("up", file, "--timeout", "60")
                #expect(result.status == 0, "\(result)")
                try scene.ping(CulvertUpScene.gateway4)
                try scene.succeed("down", scene.name)
                try scene.writeFile(server: Self.far, allowedIPs: "10.77.0.0/24")
                let far = try scene.run("up", file, "--timeout", "60")
                #expect(far.status == 6 && far.output.contains("there is no route to \(Self.far)"), "\(far)")
                let changes = try scene.world.changes(since: before)
                #expect(changes.isEmpty, "\(changes)")
                #expect(scene.remains.isEmpty)
            }

            @Test(
                "Another address on the same interface is another network: the server learns it without user traffic"
            )
            func otherAddress() throws {
                let scene = try CulvertUpScene()
                try scene.world.host.run("sysctl", "-qw", "net.ipv4.conf.eth0.promote_secondaries=1")
                try scene.succeed("up", try scene.writeFile())
                #expect(try scene.peer.endpoint.hasPrefix("192.0.2.2:"))
                try scene.world.host.run("ip", "address", "add", "192.0.2.3/24", "dev", "eth0")
                try scene.world.host.run("ip", "address", "del", "192.0.2.2/24", "dev", "eth0")
                try eventually("the server knows", within: .seconds(60)) {
                    try scene.peer.endpoint.hasPrefix("192.0.2.3:")
                }
                #expect(try scene.succeed("log", scene.name).contains("another network: new sockets"))
                try scene.ping()
                try scene.succeed("down", scene.name)
            }

            @Test("Under a policy that blocks, a tunnel whose interface was deleted comes back by itself")
            func interfaceDeleted() throws {
                let scene = try CulvertUpScene()
                let mark = scene.files.path + "/hooks"
                let file = try scene.writeFile(
                    interface: "PostUp = echo up >> \(mark)\nPostDown = echo down >> \(mark)")
                try scene.succeed("up", file, "--leak-policy", "everything")
                try scene.ping()
                // The guard was loaded before the interface existed, so its IPv6 setting could not be read.
                #expect(try !scene.succeed("log", scene.name).contains("IPv6 is disabled"))
                let process = try #require(scene.processes.first)
                try scene.world.host.run("ip", "link", "delete", "dev", scene.name)
                try eventually("it is up again", within: .seconds(120)) {
                    guard scene.processes == [process] else { return false }
                    return try scene.succeed("log", scene.name).contains("the tunnel is up again")
                }
                #expect(try scene.status()["state"] as? String == "connected")
                try scene.ping()
                #expect(try String(contentsOfFile: mark, encoding: .utf8) == "up\ndown\nup\n")
                // `down` ends the command even while it waits to retry.
                try scene.setServer(isSilent: true)
                try scene.world.host.run("ip", "link", "delete", "dev", scene.name)
                try eventually("it has failed again", within: .seconds(120)) {
                    try scene.succeed("log", scene.name).components(separatedBy: "trying again in 1 s").count == 3
                }
                let blocked = try scene.world.host.runAllowingFailure("ping", "-n", "-c", "1", "-W", "1", Self.far)
                #expect(blocked.status != 0)
                try scene.succeed("down", scene.name)
                try scene.setServer(isSilent: false)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("On a host without nft the server's answers are marked, so that a strict rp_filter accepts them")
            func strictReversePath() throws {
                let scene = try CulvertUpScene()
                let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
                let nft = try #require(
                    folders.map { "\($0)/nft" }.first { FileManager.default.isExecutableFile(atPath: $0) })
                let settings = ["net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.eth0.rp_filter=1"]
                for setting in settings { try scene.world.host.run("sysctl", "-qw", setting) }
                let before = try scene.world.snapshot()
                let file = try scene.writeFile()
                try PrivilegedTests.run(["mount", "--bind", "/dev/null", nft])
                defer { _ = try? PrivilegedTests.run(["umount", nft]) }
                let up = try scene.succeed("up", file)
                #expect(!up.contains("nft") && !up.contains("rp_filter"), "\(up)")
                try scene.ping()
                try scene.succeed("down", scene.name)
                // A strict policy needs the program.
                let strict = try scene.run("up", file, "--leak-policy", "enforced")
                #expect(strict.status == 1 && strict.output.contains("nft is not installed"), "\(strict)")
                try PrivilegedTests.run(["umount", nft])
                let changes = try scene.world.changes(since: before)
                #expect(changes.isEmpty, "\(changes)")
            }

            @Test("The kernel asks no routers into the tunnel: its interface has no link-local address")
            func quietInterface() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                let addresses = try scene.world.host.run("ip", "-6", "address", "show", "dev", scene.name).output
                #expect(addresses.contains("fd77::2/64") && !addresses.contains("fe80:"), "\(addresses)")
                try scene.ping("2001:db8:7::7")
                try scene.succeed("down", scene.name)
            }
        }
    }
#endif
