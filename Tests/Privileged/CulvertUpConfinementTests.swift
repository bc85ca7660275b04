// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        @Suite("Confined", .timeLimit(.minutes(5)))
        struct ConfinementTests {
            /// The processes that start programs for this scene's tunnels, and their supervisors.
            private func helpers(_ scene: CulvertUpScene) -> [pid_t] {
                DaemonRemains.processes(of: "culvert", with: "--run-programs").filter { process in
                    DaemonRemains.commandLine(of: process).contains { $0.contains(scene.files.path) }
                }
            }

            /// The processes that start programs for this scene's tunnels.
            private func servers(_ scene: CulvertUpScene) -> [pid_t] {
                helpers(scene).filter { DaemonRemains.commandLine(of: $0).last == "server" }
            }

            /// The supervisors of those processes.
            private func supervisors(_ scene: CulvertUpScene) -> [pid_t] {
                helpers(scene).filter { !servers(scene).contains($0) }
            }

            @Test(
                "Each thread of its process has CAP_NET_ADMIN alone, no new privileges and a filter; hooks have what root has"
            )
            func privileges() throws {
                let scene = try CulvertUpScene()
                let seen = scene.files.path + "/seen"
                let hook = "PostUp = grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status > \(seen)"
                let file = try scene.writeFile(interface: "DNS = \(CulvertUpScene.gateway4)\n\(hook)")
                try scene.succeed("up", file, "--leak-policy", "enforced")
                let process = try #require(scene.processes.first)
                let tasks = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
                #expect(tasks.count > 3)
                for task in tasks {
                    // A thread may have ended meanwhile.
                    let path = "/proc/\(process)/task/\(task)/status"
                    guard let status = try? String(contentsOfFile: path, encoding: .utf8) else { continue }
                    for line in [
                        "CapPrm:\t0000000000001000", "CapEff:\t0000000000001000", "CapInh:\t0000000000000000",
                        "NoNewPrivs:\t1", "Seccomp:\t2",
                    ] {
                        #expect(status.contains(line + "\n"), "\(status)")
                    }
                }
                #expect(helpers(scene).count == 2 && servers(scene).count == 1)
                for helper in helpers(scene) {
                    print(
                        "resident: \(servers(scene).contains(helper) ? "server" : "supervisor")",
                        DaemonRemains.status("VmRSS", of: helper) ?? "",
                        DaemonRemains.status("RssAnon", of: helper) ?? "")
                }
                let hooks = try String(contentsOfFile: seen, encoding: .utf8)
                #expect(hooks.contains("Seccomp:\t0\n") && !hooks.contains("CapEff:\t0000000000001000\n"), "\(hooks)")
                try scene.ping()
                try scene.succeed("down", scene.name)
                try eventually("nothing runs any more") { helpers(scene).isEmpty }
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("Without descriptors for the process for programs, `up` ends within seconds and says why")
            func fewDescriptors() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                let up = try runAllowingFailure(
                    ["bash", "-c", "ulimit -n 24 && exec \"$@\"", "bash"] + scene.command(["up", file]),
                    deadline: .seconds(30))
                #expect(up.status == 1 && up.output.contains("start the process for programs: "), "\(up)")
                #expect(!up.output.contains("No child processes"), "\(up)")
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            /// A regression test: another file got the number of a closed stream, and so the program's output.
            @Test(
                "With closed standard streams the tunnel comes up", arguments: ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
            func closedStreams(_ closed: String) throws {
                let scene = try CulvertUpScene()
                let up = try runAllowingFailure(
                    ["bash", "-c", "exec \"$@\" \(closed)", "bash"] + scene.command(["up", try scene.writeFile()]))
                #expect(up.status == 0, "\(up)")
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            /// A regression test: a write beyond the limit ended the processes that start programs, and the firewall
            /// was never restored again.
            @Test("After a limit of the file size is lifted, the firewall is restored")
            func fileSizeLimit() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                let processes = scene.processes + helpers(scene)
                for process in processes { try run(["prlimit", "--pid", "\(process)", "--fsize=0:unlimited"]) }
                try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                try eventually("the firewall is a problem") {
                    try scene.problems().contains { $0.hasPrefix("the firewall: ") }
                }
                try scene.expectNothingLeaves()
                for process in processes { try run(["prlimit", "--pid", "\(process)", "--fsize=unlimited"]) }
                try eventually("the firewall is restored") {
                    try scene.hasTable() && !scene.problems().contains { $0.hasPrefix("the firewall: ") }
                }
                #expect(scene.processes + helpers(scene) == processes)
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("A file that only its user may read is read, also on reload; a low port is available")
            func othersFile() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile(interface: "ListenPort = 53\nMTU = 1400")
                let folder = scene.files.path
                try run(["chown", "-R", "65534", folder])
                try run(["chmod", "0700", folder])
                try scene.succeed("up", file)
                try scene.ping()
                #expect(try scene.status()["listenPort"] as? Int == 53)
                try scene.writeFile(interface: "ListenPort = 53\nMTU = 1380")
                try run(["chown", "65534", file])
                try run(["chmod", "0600", file])
                try scene.succeed("reload", scene.name)
                #expect(try scene.world.host.run("ip", "link", "show", scene.name).output.contains(" mtu 1380 "))
                try scene.succeed("down", scene.name)
                try run(["chown", "-R", "0", folder])
                try scene.expectUnchanged()
            }

            /// A regression test: the firewall was not loaded again while the tunnel was up ("cannot start nft: Broken
            /// pipe").
            @Test(
                "A killed process for programs is replaced, and a lost firewall is restored within a second",
                arguments: ["enforced", "everything"])
            func serverKilled(_ policy: String) throws {
                let scene = try CulvertUpScene()
                let mark = scene.files.path + "/hook"
                let file = try scene.writeFile(
                    interface: "DNS = \(CulvertUpScene.gateway4)\nPreDown = echo ran >> \(mark)")
                try scene.succeed("up", file, "--leak-policy", policy)
                try scene.ping()
                for _ in 0..<3 {
                    let server = try #require(servers(scene).first)
                    kill(server, SIGKILL)
                    try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                    let time = try ContinuousClock().measure {
                        try eventually("the firewall is back", within: .seconds(1)) { try scene.hasTable() }
                    }
                    print("server killed, \(policy): firewall restored after \(time)")
                    try scene.expectNothingLeaves()
                    #expect(servers(scene).count == 1 && servers(scene) != [server])
                }
                try scene.ping()
                try eventually("nothing is wrong", within: .seconds(5)) { try scene.problems().isEmpty }
                // A process that was killed while it was idle is also replaced for the commands in the file.
                kill(try #require(servers(scene).first), SIGKILL)
                try scene.succeed("down", scene.name)
                #expect(try String(contentsOfFile: mark, encoding: .utf8) == "ran\n")
                try eventually("nothing runs any more") { helpers(scene).isEmpty }
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test(
                "Without its supervisor the process for programs still restores the firewall, and down undoes everything"
            )
            func supervisorKilled() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                kill(try #require(supervisors(scene).first), SIGKILL)
                try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                try eventually("the firewall is back", within: .seconds(1)) { try scene.hasTable() }
                try scene.ping()
                try scene.succeed("down", scene.name)
                try eventually("nothing runs any more") { helpers(scene).isEmpty }
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test(
                "Without both processes for programs the tunnel continues, its policy holds, and down undoes everything"
            )
            func helperKilled() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                let helpers = (supervisors(scene), servers(scene))
                for process in helpers.0 + helpers.1 { kill(process, SIGKILL) }
                try scene.ping()
                // The tunnel cannot load the firewall again, so only the policy rules remain.
                try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                try eventually("the log says what holds now") {
                    try scene.succeed("log", scene.name).contains("policy rules hold back")
                }
                try scene.ping()
                #expect(try scene.problems().contains { $0.hasPrefix("the firewall: ") })
                let down = try scene.run("down", scene.name)
                // Only the name servers need a program.
                #expect(down.status == 0 && down.output.contains("undone: name servers"), "\(down)")
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test(
                "A stopped process for programs is replaced, policy rules hold until then, and the firewall is restored"
            )
            func serverStopped() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                let server = try #require(servers(scene).first)
                kill(server, SIGSTOP)
                try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                let time = try ContinuousClock().measure {
                    try eventually("policy rules hold back", within: .seconds(1)) {
                        try scene.world.host.run("ip", "rule").output.contains("prohibit")
                    }
                    try scene.expectNothingLeaves()
                    try eventually("the firewall is restored", within: .seconds(15)) { try scene.hasTable() }
                }
                print("server stopped: firewall restored after \(time)")
                try eventually("nothing is wrong", within: .seconds(5)) { try scene.problems().isEmpty }
                #expect(servers(scene).count == 1 && servers(scene) != [server])
                try scene.ping()
                try scene.succeed("down", scene.name)
                try eventually("nothing runs any more") { helpers(scene).isEmpty }
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            /// The supervisor must not wait for it forever.
            @Test("A stopped process for programs ends with the tunnel's process")
            func stoppedAndLeft() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                for server in servers(scene) { kill(server, SIGSTOP) }
                try scene.killProcess()
                try eventually("nothing runs any more") { helpers(scene).isEmpty }
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }

            @Test("When its process is killed, the program runner ends, the policy holds, and down undoes everything")
            func processKilled() throws {
                let scene = try CulvertUpScene()
                let mark = scene.files.path + "/hook"
                // A program that it runs at that moment ends as well.
                let file = try scene.writeFile(interface: "PostUp = echo $$ > \(mark); sleep 1000")
                let up = try SpawnedProcess(scene.command(["up", file, "--leak-policy", "enforced"]))
                try eventually("the hook runs") {
                    FileManager.default.fileExists(atPath: mark) && !scene.processes.isEmpty
                }
                try scene.killProcess()
                _ = try up.wait()
                try eventually("nothing runs any more") { helpers(scene).isEmpty }
                let hook = try #require(Int32(String(contentsOfFile: mark, encoding: .utf8).filter(\.isNumber)))
                #expect(kill(hook, 0) != 0)
                let ping = try scene.world.host.runAllowingFailure(
                    "ping", "-n", "-q", "-c", "1", "-W", "1", "203.0.113.7")
                #expect(ping.status != 0, "\(ping)")
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
            }
        }
    }
#endif
