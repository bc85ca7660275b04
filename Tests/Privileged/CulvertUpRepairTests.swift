// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        /// A tunnel with one or two faults of the system at a time.
        @Suite("Repairs under faults of the system", .timeLimit(.minutes(5)))
        struct RepairTests {
            private static let far = "8.8.8.8"

            private func hasProhibition(_ scene: CulvertUpScene) throws -> Bool {
                try ["-4", "-6"].allSatisfy { family in
                    try scene.world.host.run("ip", family, "rule").output.contains("prohibit")
                }
            }

            @Test(
                "Without a firewall, the rules in its place are restored within a second, and status shows the problem",
                arguments: ["enforced", "everything"])
            func rulesInPlaceOfTheFirewall(_ policy: String) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", policy)
                try scene.ping()
                #expect(try scene.problems().isEmpty)
                let nft = try ReplacedProgram("nft", .fails, of: scene.processes.first)
                try scene.world.host.run(nft.original, "flush", "ruleset")
                try eventually("rules hold back", within: .seconds(1)) { try hasProhibition(scene) }
                try scene.flushRules()
                try eventually("the rules are back", within: .seconds(1)) {
                    try hasProhibition(scene) && scene.way(to: Self.far) == scene.name
                }
                try scene.expectNothingLeaves(to: Self.far)
                #expect(try scene.problems().contains { $0.hasPrefix("the firewall: ") })
                let text = try scene.succeed("status", scene.name)
                #expect(text.contains("not in effect:") && text.contains("the firewall: "), "\(text)")
                #expect(try scene.succeed("log", scene.name).contains("not in effect: the firewall: "))
                try nft.putBack()
                try eventually("the firewall is back", within: .seconds(5)) {
                    try scene.hasTable() && !hasProhibition(scene) && scene.problems().isEmpty
                }
                #expect(try scene.succeed("log", scene.name).contains("in effect again: the firewall"))
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.world.host.run("nft", "add", "table", "inet", "others")
                try scene.world.host.run("nft", "add chain inet others theirs { type filter hook output priority 5; }")
                try scene.expectUnchanged()
            }

            @Test("While nft hangs, rules replace the lost firewall and are restored within a second")
            func hangingNft() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                try scene.ping()
                let nft = try ReplacedProgram("nft", .hangs, of: scene.processes.first)
                try scene.world.host.run(nft.original, "delete", "table", "inet", "culvert_\(scene.name)")
                try scene.flushRules()
                for _ in 0..<2 {
                    try eventually("rules hold back", within: .seconds(1)) {
                        try hasProhibition(scene) && scene.way(to: Self.far) == scene.name
                    }
                    try scene.expectNothingLeaves(to: Self.far)
                    // nft still hangs.
                    try scene.flushRules()
                }
                #expect(try scene.problems().contains { $0.contains("nft has not answered yet") })
                try nft.putBack()
                try eventually("the firewall is back", within: .seconds(15)) {
                    try scene.hasTable() && !hasProhibition(scene) && scene.problems().isEmpty
                }
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test(
                "With an nft that takes a second, nothing leaves a second after firewall and rules were removed together",
                arguments: ["enforced", "everything"])
            func slowNft(_ policy: String) throws {
                let scene = try CulvertUpScene()
                #expect(try !scene.packetsInClear(to: Self.far).isEmpty, "without a tunnel the router receives them")
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", policy)
                try scene.ping()
                let nft = try ReplacedProgram("nft", .isSlow, of: scene.processes.first)
                try scene.world.host.run(nft.original, "delete", "table", "inet", "culvert_\(scene.name)")
                try scene.flushRules()
                let held = try eventually("rules hold back", within: .seconds(1)) {
                    try (hasProhibition(scene) || scene.hasTable()) && scene.way(to: Self.far) == scene.name
                }
                try scene.expectNothingLeaves(to: Self.far)
                let restored = try eventually("the firewall is back", within: .seconds(15)) {
                    try scene.hasTable() && !hasProhibition(scene) && scene.problems().isEmpty
                }
                print("\(policy), nft takes a second: held back after \(held), the firewall is back after \(restored)")
                try scene.ping()
                try nft.putBack()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            /// The cause for which the thread of the tunnel's network waits.
            enum Wait: CaseIterable {
                case resolvconfAtNewPath, resolvconfAtReload, nftAtReload, lockAtNewNetwork
            }

            @Test(
                "While the tunnel waits for a program or a lock, rules hold packets back within a second",
                arguments: Wait.allCases)
            func waiting(_ wait: Wait) throws {
                let scene = try CulvertUpScene()
                let host = scene.world.host
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                try scene.ping()
                var replaced: ReplacedProgram?
                var other: SpawnedProcess?
                switch wait {
                case .resolvconfAtNewPath:
                    replaced = try ReplacedProgram("resolvconf", .hangs, of: scene.processes.first)
                    try host.run("ip", "address", "add", "172.20.5.2/24", "dev", "eth0")
                case .resolvconfAtReload, .nftAtReload:
                    let name = wait == .nftAtReload ? "nft" : "resolvconf"
                    replaced = try ReplacedProgram(name, .hangs, of: scene.processes.first)
                    try scene.writeFile(
                        interface: "DNS = 10.77.0.9, \(CulvertUpScene.gateway4)",
                        allowedIPs: "10.99.0.0/16, 0.0.0.0/1, 128.0.0.0/1, ::/0")
                    other = try SpawnedProcess(scene.command(["reload", scene.name]))
                case .lockAtNewNetwork:
                    other = try SpawnedProcess(["flock", "--no-fork", scene.runtime.path, "sleep", "60"])
                    try eventually("the lock is held", within: .seconds(10)) {
                        try runAllowingFailure(["flock", "--nonblock", scene.runtime.path, "true"]).status == 1
                    }
                    try host.run("ip", "address", "add", "172.20.5.2/24", "dev", "eth0")
                }
                if let replaced {
                    try eventually("the program hangs", within: .seconds(10)) { !replaced.processes.isEmpty }
                }
                let nft = wait == .nftAtReload ? try #require(replaced).original : "nft"
                for _ in 0..<3 {
                    _ = try host.runAllowingFailure(nft, "delete", "table", "inet", "culvert_\(scene.name)")
                    try scene.flushRules()
                    let time = try eventually("rules hold back", within: .seconds(1)) {
                        try (scene.hasTable() || hasProhibition(scene)) && scene.way(to: Self.far) == scene.name
                    }
                    print("\(wait): rules hold back after \(time)")
                }
                try scene.expectNothingLeaves(to: Self.far)
                try replaced?.putBack()
                if wait == .lockAtNewNetwork { other?.kill() }
                try eventually("all is in effect", within: .seconds(30)) {
                    try scene.hasTable() && scene.problems().isEmpty
                }
                other?.kill()
                if wait == .resolvconfAtNewPath || wait == .lockAtNewNetwork {
                    try host.run("ip", "address", "delete", "172.20.5.2/24", "dev", "eth0")
                }
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("A firewall and rules that are removed again and again are restored, and policy rules stay in effect")
            func removedAgainAndAgain() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "everything")
                try scene.ping()
                for _ in 0..<12 {
                    try scene.flushRules()
                    try eventually("the tunnel's rules are back", within: .seconds(5)) {
                        try scene.way(to: Self.far) == scene.name
                    }
                }
                // Two deletions may happen before a repair.
                for _ in 0..<10 {
                    try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                    try eventually("the firewall is back", within: .seconds(5)) { try scene.hasTable() }
                }
                // One repair can follow two deletions, so continue until the firewall counts as contested.
                try eventually("rules stay, and status says why", within: .seconds(30)) {
                    if try scene.problems().contains(where: { $0.contains("so policy rules stay in effect too") }) {
                        return try hasProhibition(scene)
                    }
                    if try scene.hasTable() {
                        try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                    }
                    return false
                }
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("A lost firewall is restored within a second while another process keeps the lock of the journals")
            func keptLock() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                let holder = try SpawnedProcess(["flock", "--no-fork", scene.runtime.path, "sleep", "60"])
                defer { holder.kill() }
                try eventually("the lock is held", within: .seconds(10)) {
                    try runAllowingFailure(["flock", "--nonblock", scene.runtime.path, "true"]).status == 1
                }
                try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                try eventually("the firewall is back", within: .seconds(1)) { try scene.hasTable() }
                try scene.expectNothingLeaves(to: Self.far)
                holder.kill()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("An MTU too small for IPv6 is restored with the addresses, and stops no other repair")
            func smallMTU() throws {
                let scene = try CulvertUpScene()
                let host = scene.world.host
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "route-based")
                try scene.ping()
                let addresses = try host.run("ip", "-br", "address", "show", "dev", scene.name).output
                try host.run("ip", "link", "set", scene.name, "mtu", "1200")
                try scene.flushRules()
                try eventually("all is made good", within: .seconds(1)) {
                    try scene.way(to: Self.far) == scene.name && scene.way(to: "2001:db8:7::7") == scene.name
                        && host.run("ip", "link", "show", scene.name).output.contains(" mtu 1420 ")
                }
                let restored = try host.run("ip", "-br", "address", "show", "dev", scene.name).output
                #expect(restored == addresses)
                try scene.ping()
                try scene.ping("2001:db8:7::7")
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("A kernel setting of the tunnel is restored within a second")
            func kernelSetting() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile())
                try scene.ping()
                let setting = "net.ipv4.conf.all.src_valid_mark"
                try scene.world.host.run("sysctl", "-qw", "\(setting)=0")
                try eventually("the setting is back", within: .seconds(1)) {
                    try scene.world.host.run("sysctl", "-n", setting).output.hasPrefix("1")
                }
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("A strict reverse path filter is loosened within a second, on a new link too, until `down`")
            func reversePathFilter() throws {
                let scene = try CulvertUpScene()
                let host = scene.world.host
                try scene.world.setStrictReversePath()
                let before = try scene.world.snapshot()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "everything", "--no-local-network")
                try scene.ping()
                try scene.world.expectAnswersARP()
                try host.run("sysctl", "-qw", "net.ipv4.conf.eth0.rp_filter=1")
                try eventually("the filter is loose again", within: .seconds(1)) {
                    try host.run("sysctl", "-n", "net.ipv4.conf.eth0.rp_filter").output.hasPrefix("2")
                }
                try scene.world.expectAnswersARP()
                try host.run("ip", "link", "add", "later", "type", "bridge")
                try host.run("ip", "address", "add", "198.51.100.1/24", "dev", "later")
                try host.run("ip", "link", "set", "later", "up")
                try eventually("the new link's filter is loose", within: .seconds(1)) {
                    try host.run("sysctl", "-n", "net.ipv4.conf.later.rp_filter").output.hasPrefix("2")
                }
                #expect(try scene.problems().isEmpty)
                try scene.succeed("down", scene.name)
                #expect(try host.run("sysctl", "-n", "net.ipv4.conf.later.rp_filter").output.hasPrefix("1"))
                try host.run("ip", "link", "delete", "dev", "later")
                let changes = try scene.world.changes(since: before)
                #expect(changes.isEmpty, "\(changes)")
                #expect(scene.remains.isEmpty)
            }

            @Test("A renamed or moved interface ends the tunnel like a deleted one", arguments: ["name", "netns"])
            func lostInterface(_ change: String) throws {
                let scene = try CulvertUpScene()
                let host = scene.world.host
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "everything")
                try scene.ping()
                try host.run("ip", "link", "set", scene.name, "down")
                try host.run(
                    "ip", "link", "set", scene.name, change, change == "name" ? "elsewhere" : scene.world.router.name)
                try eventually("the tunnel is up again", within: .seconds(60)) {
                    try scene.succeed("log", scene.name).contains("the tunnel is up again")
                }
                let log = try scene.succeed("log", scene.name)
                #expect(log.contains("the interface was renamed or moved to another network namespace"), "\(log)")
                try scene.ping()
                #expect(try scene.problems().isEmpty)
                #expect(try host.runAllowingFailure("ip", "link", "show", "elsewhere").status != 0)
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("A tunnel that fails after a reload starts again as the reload left it")
            func failureAfterReload() throws {
                let scene = try CulvertUpScene()
                let host = scene.world.host
                try scene.succeed("up", try scene.writeFile(interface: "MTU = 1400"), "--leak-policy", "everything")
                try scene.ping()
                try scene.writeFile(interface: "MTU = 1380")
                try scene.succeed("reload", scene.name)
                try host.run("ip", "link", "delete", "dev", scene.name)
                try eventually("the tunnel is up again", within: .seconds(60)) {
                    try scene.succeed("log", scene.name).contains("the tunnel is up again")
                }
                #expect(try host.run("ip", "link", "show", scene.name).output.contains(" mtu 1380 "))
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test(
                "A firewall that is deleted while `up` starts with a slow nft is loaded again before `up` ends",
                .enabled(if: Privileged.isSandbox, "needs scripts/sandbox"), arguments: [2, 3])
            func deletedWhileStarting(_ calls: Int) throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                let nft = try ReplacedProgram("nft", .isSlow)
                defer { try? nft.putBack() }
                let up = try SpawnedProcess(scene.command(["up", file, "--leak-policy", "enforced"]))
                func hasTable() throws -> Bool {
                    try scene.world.host.run(nft.original, "list", "tables").output.contains("culvert_\(scene.name)")
                }
                // A listing follows the first load, and the listings of the settings follow both.
                for _ in 1..<calls {
                    try eventually("the table is loaded", within: .seconds(30)) { try hasTable() }
                    try scene.world.host.run(nft.original, "delete", "table", "inet", "culvert_\(scene.name)")
                }
                let result = try up.wait(deadline: .seconds(90))
                #expect(result.status == 0, "\(result)")
                #expect(try hasTable())
                try scene.ping()
                try nft.putBack()
                try eventually("all is in effect", within: .seconds(10)) { try scene.problems().isEmpty }
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test(
                "The table against spoofed packets is loaded, restored and removed without nft, if nft fails or is missing",
                .enabled(if: Privileged.isSandbox, "needs scripts/sandbox"), arguments: [true, false])
            func spoofingWithoutNFT(_ isInstalled: Bool) throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile(allowedIPs: "0.0.0.0/0")
                let nft = try ReplacedProgram(
                    "nft", isInstalled ? .failsAt(1...1_000_000, takesEffect: false) : .missing)
                defer { try? nft.putBack() }
                let table = "culvert_\(scene.name)"
                func listing() throws -> String {
                    try scene.world.host.run(nft.original, "list", "ruleset").output
                }
                try scene.succeed("up", file)
                let loaded = try listing()
                #expect(loaded.contains("table inet \(table)") && loaded.contains("fib saddr type != local drop"))
                try scene.world.host.run(nft.original, "flush chain inet \(table) arriving")
                try eventually("the rules are restored", within: .seconds(10)) { try listing() == loaded }
                try eventually("all is in effect", within: .seconds(10)) { try scene.problems().isEmpty }
                try scene.ping()
                try scene.succeed("down", scene.name)
                // A program that is missing counts no calls.
                if isInstalled { #expect(nft.calls == 0) }
                try nft.putBack()
                try scene.expectUnchanged()
            }

            @Test("`down` succeeds without nft if the firewall was deleted")
            func nothingToRemove() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "everything")
                try scene.killProcess()
                try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                let nft = try ReplacedProgram("nft", .missing)
                let down = try scene.run("down", scene.name)
                #expect(down.status == 0, "\(down)")
                try nft.putBack()
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            /// The state of the disk and of the tunnel.
            enum Disk: CaseIterable {
                case full, fullAndKilled, readOnlyAndKilled
            }

            @Test(
                "Ending needs no space and no writable disk, for a tunnel that runs or was killed",
                arguments: Disk.allCases)
            func withoutWriting(_ disk: Disk) throws {
                let scene = try CulvertUpScene()
                try PrivilegedTests.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", scene.runtime.path])
                defer { _ = try? PrivilegedTests.run(["umount", "-l", scene.runtime.path]) }
                // More routes than fit into an error message.
                let networks = (0..<200).map { "10.80.\($0).0/24" }.joined(separator: ", ")
                let file = try scene.writeFile(allowedIPs: "10.77.0.0/24, fd77::/64, \(networks)")
                try scene.succeed("up", file, "--leak-policy", "enforced")
                try scene.ping(CulvertUpScene.gateway4)
                if disk != .full { try scene.killProcess() }
                switch disk {
                case .full, .fullAndKilled:
                    let filler = "\(scene.runtime.path)/filler"
                    let filled = try PrivilegedTests.runAllowingFailure(
                        ["dd", "if=/dev/zero", "of=\(filler)", "bs=4096", "count=2000"])
                    #expect(filled.status == 1, "\(filled)")
                case .readOnlyAndKilled:
                    try PrivilegedTests.run(["mount", "-o", "remount,bind,ro", scene.runtime.path])
                }
                let down = try scene.run("down", scene.name)
                #expect(down.status == 0 && down.output.utf8.count < 20_000, "\(down)")
                let changes = try scene.world.changes(since: scene.before)
                #expect(changes.isEmpty, "\(changes)")
            }

            @Test("`cleanup` refuses a tunnel that runs, even if its journal names another start of its process")
            func otherOwner() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                let cleanup = try runAllowingFailure(
                    ["unshare", "--time", "--fork", "--boottime", "1000000"] + scene.command(["cleanup", scene.name]))
                #expect(cleanup.status == 1 && cleanup.output.contains("is running"), "\(cleanup)")
                #expect(try scene.hasTable() && scene.succeed("log", scene.name).contains("made again") == false)
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("`status` does not wait for a named pipe in place of the held policy")
            func policyInPipe() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                let file = "\(scene.runtime.path)/\(scene.name).guard"
                try? FileManager.default.removeItem(atPath: file)
                try PrivilegedTests.run(["mkfifo", file])
                #expect(try scene.succeed("status", scene.name, deadline: .seconds(10)).contains("connected"))
                try FileManager.default.removeItem(atPath: file)
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            /// Damage to a journal.
            enum Damage: CaseIterable {
                case truncated, overwritten, deleted
            }

            @Test(
                "Without a journal, `down` undoes the changes that the kernel lists, and fails for the rest",
                arguments: Damage.allCases, ["route-based", "enforced"])
            func lostJournal(_ damage: Damage, _ policy: String) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", policy)
                try scene.ping()
                try scene.killProcess()
                let journal = "\(scene.runtime.path)/\(scene.name).journal"
                switch damage {
                case .truncated: try Data().write(to: URL(fileURLWithPath: journal))
                case .overwritten:
                    var bytes = try Data(contentsOf: URL(fileURLWithPath: journal))
                    for index in stride(from: bytes.startIndex, to: bytes.endIndex, by: 40) { bytes[index] = 0x21 }
                    try bytes.write(to: URL(fileURLWithPath: journal))
                case .deleted: try FileManager.default.removeItem(atPath: journal)
                }
                let down = try scene.run("down", scene.name)
                #expect(down.status == 1, "\(down)")
                #expect(down.output.contains("journal was deleted or damaged"), "\(down)")
                #expect(down.output.contains("src_valid_mark"), "\(down)")
                // The rest is unchanged.
                try scene.world.host.run("sysctl", "-qw", "net.ipv4.conf.all.src_valid_mark=0")
                #expect(try !CulvertUpScene.resolvConfNow.contains(CulvertUpScene.gateway4))
                try CulvertUpScene.resolvConf.write(toFile: "/etc/resolv.conf", atomically: false, encoding: .utf8)
                let changes = try scene.world.changes(since: scene.before)
                #expect(changes.isEmpty, "\(changes)")
                try scene.ping("10.55.1.1")
                // From here on the state is as if the tunnel had never been up.
                #expect(try [0, 3].contains(scene.run("down", scene.name).status))
                #expect(scene.remains.isEmpty, "\(scene.remains)")
            }
        }
    }
#endif
