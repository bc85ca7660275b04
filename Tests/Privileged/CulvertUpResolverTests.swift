// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    @testable import PacketTunnelLinux

    extension CulvertUpTests {
        /// A DHCP client, or another program, that writes resolv.conf itself. A regression test: all later DNS queries
        /// bypassed the tunnel, and the status still showed the tunnel's name server.
        @Suite("Name servers that another program replaces", .timeLimit(.minutes(5)))
        struct ResolverTests {
            private static let file = "/etc/resolv.conf"
            /// The text of a DHCP client.
            private static let theirs = "search lan.example\nnameserver 192.0.2.99\nnameserver 192.0.2.98\n"

            /// The way in which the other program writes.
            enum Way: CaseIterable {
                case renamed, written, lineByLine, linked

                /// The shell's commands.
                var script: String {
                    let text = ResolverTests.theirs.replacing("\n", with: "\\n")
                    let lines = ResolverTests.theirs.split(separator: "\n")
                    return switch self {
                    case .renamed:
                        "printf '\(text)' > /etc/resolv.conf.dhcp; mv /etc/resolv.conf.dhcp \(ResolverTests.file)"
                    case .written: "printf '\(text)' > \(ResolverTests.file)"
                    case .lineByLine:
                        ": > \(ResolverTests.file); "
                            + lines.map { "sleep 0.03; echo '\($0)' >> \(ResolverTests.file)" }.joined(separator: "; ")
                    case .linked:
                        "printf '\(text)' > /run/dhcp.conf; ln -s /run/dhcp.conf /etc/resolv.conf.dhcp; "
                            + "mv /etc/resolv.conf.dhcp \(ResolverTests.file)"
                    }
                }
            }

            private func servers() throws -> [String] { ResolvConf.servers(in: try CulvertUpScene.resolvConfNow) }

            private func isTunnels() throws -> Bool { try servers() == [CulvertUpScene.gateway4] }

            private func nameServerProblems(_ scene: CulvertUpScene) throws -> [String] {
                try scene.problems().filter { $0.contains("name servers") }
            }

            /// Expects the other program's file. Then restores the file from before the tunnel, and expects the network
            /// from before the tunnel.
            private func expectTheirs(_ scene: CulvertUpScene, sourceLocation: SourceLocation = #_sourceLocation) throws
            {
                let text = try CulvertUpScene.resolvConfNow
                #expect(text == Self.theirs, sourceLocation: sourceLocation)
                try FileManager.default.removeItem(atPath: Self.file)
                try CulvertUpScene.resolvConf.write(toFile: Self.file, atomically: false, encoding: .utf8)
                try scene.expectUnchanged(sourceLocation: sourceLocation)
                #expect(scene.remains.isEmpty, sourceLocation: sourceLocation)
            }

            @Test(
                "A replaced resolv.conf names the tunnel's server again within a second, and `down` restores the other program's file",
                arguments: Way.allCases)
            func replaced(_ way: Way) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "route-based")
                #expect(try isTunnels())
                for count in 1...2 {
                    try run(["sh", "-ec", way.script])
                    let time = try ContinuousClock().measure {
                        try eventually("the tunnel's server is back", within: .seconds(1)) { try isTunnels() }
                    }
                    print("resolv.conf, \(way): restored after \(time)")
                    try eventually("status shows the repair", within: .seconds(5)) {
                        let status = try scene.status()
                        return status["repairs"] as? Int ?? 0 >= count
                            && (status["lastRepair"] as? String)?.contains("name servers through openresolv") == true
                    }
                }
                #expect(try nameServerProblems(scene).isEmpty)
                try scene.succeed("down", scene.name)
                let link = try? FileManager.default.destinationOfSymbolicLink(atPath: Self.file)
                #expect(link == (way == .linked ? "/run/dhcp.conf" : nil))
                try expectTheirs(scene)
                try? FileManager.default.removeItem(atPath: "/run/dhcp.conf")
            }

            @Test("A deleted resolv.conf, and servers that were removed from resolvconf, are restored within a second")
            func deleted() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "route-based")
                for command in [["rm", Self.file], ["resolvconf", "-f", "-d", scene.name]] {
                    try run(command)
                    try eventually("the tunnel's server is back", within: .seconds(1)) {
                        (try? isTunnels()) ?? false
                    }
                }
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("A program that replaces resolv.conf again and again is a problem, and has its file after `down`")
            func contest() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "route-based")
                let other = try SpawnedProcess([
                    "sh", "-c",
                    """
                    while :; do
                        grep -q 192.0.2.99 \(Self.file) || { printf '\(Self.theirs.replacing("\n", with: "\\n"))' > /etc/other
                            mv /etc/other \(Self.file); }
                        sleep 0.02
                    done
                    """,
                ])
                defer { other.kill() }
                try eventually("status shows the problem", within: .seconds(30), pollEvery: .milliseconds(100)) {
                    try nameServerProblems(scene).contains { $0.contains("again and again") }
                }
                other.kill()
                #expect(try scene.succeed("log", scene.name).contains("not in effect: name servers"))
                try scene.succeed("down", scene.name)
                try expectTheirs(scene)
            }

            @Test(
                "While resolvconf hangs, the firewall and the rules are restored within a second, and status shows the problem"
            )
            func hangingManager() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                try scene.ping()
                let lock = try ResolvconfLock(tries: 10)
                try run(["sh", "-ec", Way.renamed.script])
                try eventually("status shows the problem", within: .seconds(5)) {
                    try !nameServerProblems(scene).isEmpty
                }
                for _ in 0..<2 {
                    try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                    try scene.flushRules()
                    let time = try ContinuousClock().measure {
                        try eventually("the firewall and the rules are back", within: .seconds(1)) {
                            try scene.hasTable() && scene.way(to: "8.8.8.8") == scene.name
                        }
                    }
                    print("firewall and rules while resolvconf hangs: restored after \(time)")
                }
                #expect(try !isTunnels())
                try lock.release()
                try FileManager.default.removeItem(atPath: "/etc/resolvconf.conf")
                try eventually("the tunnel's server is back", within: .seconds(10)) {
                    try isTunnels() && nameServerProblems(scene).isEmpty
                }
                try scene.ping()
                try scene.succeed("down", scene.name)
                try expectTheirs(scene)
            }

            @Test("A file that is mounted over resolv.conf is a problem until it is unmounted")
            func covered() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "route-based")
                #expect(try isTunnels())
                let process = try #require(scene.processes.first)
                let other = try scene.files.write(Self.theirs, to: "other.conf")
                let inside = ["nsenter", "--mount=/proc/\(process)/ns/mnt"]
                try PrivilegedTests.run(inside + ["mount", "--bind", other, Self.file])
                try eventually("status names the mount", within: .seconds(5)) {
                    try nameServerProblems(scene).contains { $0.contains("umount \(Self.file)") }
                }
                // The other program's file is unchanged.
                #expect(try String(contentsOfFile: other, encoding: .utf8) == Self.theirs)
                try PrivilegedTests.run(inside + ["umount", Self.file])
                try eventually("the problem is solved", within: .seconds(5)) { try nameServerProblems(scene).isEmpty }
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            /// Files that no program can use.
            enum Damage: CaseIterable {
                case linkToItself, megabytes

                var script: String {
                    switch self {
                    case .linkToItself: "rm \(ResolverTests.file); ln -s resolv.conf \(ResolverTests.file)"
                    // Replace the file in one step, because a part of it would be another program's valid file.
                    case .megabytes:
                        "head -c 6000000 /dev/zero | tr '\\0' '#' > \(ResolverTests.file).new; "
                            + "mv \(ResolverTests.file).new \(ResolverTests.file)"
                    }
                }

                var words: String {
                    switch self {
                    case .linkToItself: "leads to itself"
                    case .megabytes: "at most 65536 bytes"
                    }
                }
            }

            @Test(
                "`up` refuses a resolv.conf that cannot be read, and replaces one while the tunnel is up",
                arguments: Damage.allCases)
            func unreadable(_ damage: Damage) throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                try run(["sh", "-ec", damage.script])
                let up = try scene.run("up", file, deadline: .seconds(60))
                #expect(up.status == 1 && up.output.contains(damage.words), "\(up)")
                try FileManager.default.removeItem(atPath: Self.file)
                try CulvertUpScene.resolvConf.write(toFile: Self.file, atomically: false, encoding: .utf8)
                try scene.succeed("up", file, "--leak-policy", "route-based")
                try run(["sh", "-ec", damage.script])
                try eventually("the tunnel's server is back", within: .seconds(30)) {
                    // A link to itself cannot be read.
                    (try? isTunnels()) == true
                }
                try eventually("nothing is wrong", within: .seconds(30)) { try nameServerProblems(scene).isEmpty }
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }
        }
    }
#endif
