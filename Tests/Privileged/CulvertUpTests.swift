// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    /// The `culvert` command against a wireguard-go server.
    @Suite(
        "culvert up", .serialized,
        .enabled(if: Privileged.isAvailable && PrivateEtc.isPossible, "needs root and a mount namespace"),
        .timeLimit(.minutes(5)))
    struct CulvertUpTests {
        @Test("A stock wg-quick file routes everything and name servers through the tunnel; down restores all of it")
        func wholeLife() throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile()
            for round in 0..<2 {
                let words = try scene.succeed("up", file)
                #expect(words.contains("\(scene.name): connecting to 192.0.2.1:51820\n"))
                #expect(words.contains("\(scene.name): connected after"))
                #expect(try scene.way(to: "203.0.113.7") == scene.name)
                #expect(try scene.way(to: "2001:db8:7::7") == scene.name)
                // The local network stays outside the tunnel.
                #expect(try scene.way(to: "192.0.2.1") == "eth0")
                for address in ["203.0.113.7", "2001:db8:7::7", CulvertUpScene.gateway4, "192.0.2.1"] {
                    try scene.ping(address)
                }
                #expect(try scene.peer.latestHandshake > 0 && scene.peer.received > 1000)
                let resolver = try CulvertUpScene.resolvConfNow
                #expect(resolver.contains("nameserver \(CulvertUpScene.gateway4)\n"))
                #expect(resolver.contains("corp.example") && !resolver.contains("192.0.2.53"))

                try expectStatus(scene)
                let again = try scene.run("up", file)
                #expect(again.status == 5)
                #expect(again.output.contains("'\(scene.name)' is connected already: process "), "\(again)")
                try scene.ping()

                #expect(try scene.succeed("down", round == 0 ? scene.name : file).contains("down; it was connected"))
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty)
                #expect(try scene.run("status", scene.name).status == 3)
                #expect(try scene.run("down", scene.name).status == 3)
                #expect(try scene.succeed("status") == "no tunnel is up\n")
            }
            let log = try scene.succeed("log", scene.name)
            #expect(log.components(separatedBy: "tunnel connected").count == 3, "\(log)")
            #expect(!log.contains(scene.privateKey))
            #expect(try scene.succeed("log", scene.name, "--lines", "1", "--json").contains(#""origin":"daemon""#))
        }

        private func expectStatus(_ scene: CulvertUpScene) throws {
            let status = try scene.status()
            #expect(status["state"] as? String == "connected")
            #expect(status["activity"] as? String == "connected")
            #expect(status["source"] as? String == scene.files.path + "/\(scene.name).conf")
            #expect(status["dnsServers"] as? [String] == [CulvertUpScene.gateway4])
            #expect(status["leakPolicy"] as? String == "route-based")
            // Three pings of 84 bytes, with the tunnel's overhead.
            #expect(status["receivedBytes"] as? Int ?? 0 > 1000)
            #expect(status["sentBytes"] as? Int ?? 0 > 1000)
            #expect(status["memoryBytes"] as? Int ?? 0 > 1_000_000)
            let peer = try #require((status["peers"] as? [[String: Any]])?.first)
            #expect(peer["endpoint"] as? String == "192.0.2.1:51820")
            #expect(peer["allowedIPs"] as? [String] == ["0.0.0.0/0", "::/0"])
            let age = try #require(peer["lastHandshakeSeconds"] as? Double)
            #expect(age >= 0 && age < 120)
            #expect(try scene.succeed("status").contains("192.0.2.1:51820"))
            #expect(try scene.succeed("status", scene.name).contains("  leak policy:   route-based\n"))
            let mode = try FileManager.default.attributesOfItem(atPath: scene.runtime.path + "/\(scene.name).sock")
            #expect(mode[.posixPermissions] as? Int == 0o600)
        }

        @Test("Hooks run in their order and in the tunnel's network; one that fails takes everything back")
        func hooks() throws {
            let scene = try CulvertUpScene()
            let mark = scene.files.path + "/hooks"
            let file = try scene.writeFile(
                interface: """
                    PreUp = echo pre-up %i >> \(mark)
                    PostUp = echo post-up %i >> \(mark); ip link show %i >/dev/null
                    PreDown = echo pre-down %i >> \(mark); ip link show %i >/dev/null
                    PostDown = echo post-down %i >> \(mark)
                    """)
            try scene.succeed("up", file)
            try scene.ping()
            try scene.succeed("down", scene.name)
            let hooks = try String(contentsOfFile: mark, encoding: .utf8)
            #expect(
                hooks.split(separator: "\n")
                    == ["pre-up", "post-up", "pre-down", "post-down"].map { "\($0) \(scene.name)" })
            try scene.expectUnchanged()
            try scene.writeFile(interface: "PostUp = echo a reason; false")
            let failed = try scene.run("up", file)
            #expect(failed.status == 1)
            #expect(failed.output.contains("'echo …' ended with status 1: a reason"), "\(failed)")
            try scene.expectUnchanged()
            #expect(scene.remains.isEmpty)
        }

        @Test("Reload takes on a changed file without an end of sessions; one that cannot be used changes nothing")
        func reload() throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile(interface: "MTU = 1400")
            try scene.succeed("up", file)
            try scene.ping()
            let (before, sent) = (try scene.status(), try scene.peer.received)
            try scene.writeFile(interface: "MTU = 1380\nPostUp = true", allowedIPs: "203.0.113.0/24, 10.77.0.0/24")
            let reloaded = try scene.run("reload", scene.name)
            #expect(reloaded.status == 0 && reloaded.output.contains("\(scene.name): reloaded"), "\(reloaded)")
            #expect(
                reloaded.output.contains("warning: PreUp, PostUp, PreDown and PostDown take effect at the next start"))
            try scene.ping()
            #expect(try scene.peer.received > sent, "the server counts on")
            let after = try scene.status()
            #expect(after["processID"] as? Int == before["processID"] as? Int)
            #expect(after["routes"] as? [String] == ["203.0.113.0/24", "10.77.0.0/24"])
            #expect(try scene.way(to: "203.0.113.7") == scene.name)
            #expect(try scene.way(to: "198.51.100.7") == "eth0")
            #expect(try scene.world.host.run("ip", "link", "show", scene.name).output.contains(" mtu 1380 "))

            _ = try scene.files.write("[Interface]\nPrivateKey = nonsense\n", to: "\(scene.name).conf")
            let refused = try scene.run("reload", scene.name)
            #expect(refused.status == 2 && refused.output.contains("continues unchanged"), "\(refused)")
            #expect(refused.output.contains("PrivateKey"), "\(refused)")
            try scene.ping()
            #expect(try scene.status()["routes"] as? [String] == after["routes"] as? [String])
            try scene.succeed("down", scene.name)
            try scene.expectUnchanged()
            let gone = try scene.run("reload", scene.name)
            #expect(gone.status == 3 && gone.output.contains("is not up"), "\(gone)")
        }

        @Test("A mark that is another's table or another tunnel's is refused, and nothing is left of the start")
        func takenMark() throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile(interface: "FwMark = 777")
            try scene.world.host.run("ip", "route", "add", "blackhole", "198.51.100.99", "table", "777")
            let table = try scene.run("up", file)
            #expect(
                table.status != 0 && table.output.contains("the mark 777 is taken already, by the routing table"),
                "\(table)")
            try scene.world.host.run("ip", "route", "flush", "table", "777")
            try scene.expectUnchanged()
            try scene.succeed("up", file)
            try scene.ping()
            let second = scene.name + "b"
            let other = try scene.writeFile(interface: "FwMark = 777", allowedIPs: "198.51.100.0/24", name: second)
            let tunnel = try scene.run("up", other)
            #expect(
                tunnel.status != 0 && tunnel.output.contains("the mark 777 is taken already, by another tunnel"),
                "\(tunnel)")
            try scene.ping()
            try scene.succeed("down", scene.name)
            try scene.expectUnchanged()
        }

        @Test("Search domains without name servers leave the system its own")
        func searchDomains() throws {
            let scene = try CulvertUpScene()
            let up = try scene.run("up", try scene.writeFile(interface: "DNS = corp.example"))
            let warnings = up.output.split(separator: "\n").filter { $0.hasPrefix("warning: ") }
            #expect(up.status == 0 && warnings.count == 1, "\(up)")
            #expect(warnings.first?.contains("ignoring search domains without name servers") == true, "\(up)")
            #expect(try CulvertUpScene.resolvConfNow == CulvertUpScene.resolvConf)
            try scene.succeed("down", scene.name)
            try scene.expectUnchanged()
        }

        @Test(
            "An interruption during a hook ends the start immediately, and nothing remains",
            arguments: [true, false])
        func interruptedHook(_ isDown: Bool) throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile(interface: "PostUp = touch \(scene.files.path)/began; sleep 50")
            let began = ContinuousClock.now
            let command = try SpawnedProcess(scene.command(["up", file]))
            try eventually("the command runs") {
                FileManager.default.fileExists(atPath: scene.files.path + "/began")
            }
            if isDown { try scene.succeed("down", scene.name) } else { command.signal(SIGINT) }
            let result = try command.wait(deadline: .seconds(60))
            #expect(result.status == 130, "\(result)")
            #expect(ContinuousClock.now - began < .seconds(45))
            try scene.expectUnchanged()
            #expect(scene.remains.isEmpty)
        }

        @Test("A change that resolvconf does not undo is reported, and undone by the next try")
        func stuckResolvconf() throws {
            let scene = try CulvertUpScene()
            try scene.succeed("up", try scene.writeFile())
            let lock = try ResolvconfLock()
            let down = try scene.run("down", scene.name)
            #expect(down.status == 1 && down.output.contains("waiting for lock"), "\(down)")
            #expect(try CulvertUpScene.resolvConfNow.contains(CulvertUpScene.gateway4))
            // The rest is undone.
            #expect(try scene.way(to: "203.0.113.7") == "eth0")
            try lock.release()
            try scene.succeed("down", scene.name)
            try scene.expectUnchanged()
            #expect(scene.remains.isEmpty)
        }

        @Test("The changes that the tunnel's process could not undo are undone at its end, and down reports it")
        func stuckForAWhile() throws {
            let scene = try CulvertUpScene()
            try scene.succeed("up", try scene.writeFile())
            let lock = try ResolvconfLock(tries: 4)
            let down = try SpawnedProcess(scene.command(["down", scene.name]))
            try eventually("the process has given up", within: .seconds(60)) { scene.processes.isEmpty }
            try lock.release()
            let result = try down.wait(deadline: .seconds(60))
            #expect(result.status == 0 && result.output.contains("undone: "), "\(result)")
            try scene.expectUnchanged()
            #expect(scene.remains.isEmpty)
        }

        @Test("With Table = N the routes are only in that table, for the user's own rules, and end with the tunnel")
        func routingTable() throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile(interface: "Table = 1234")
            let strict = try scene.run("up", file, "--leak-policy", "enforced")
            #expect(strict.status == 2 && strict.output.contains("'Table' names a routing table"), "\(strict)")
            try scene.succeed("up", file)
            for family in ["-4", "-6"] {
                let table = try scene.world.host.run("ip", family, "route", "show", "table", "1234").output
                #expect(table.hasPrefix("default dev \(scene.name) "), "\(table)")
            }
            #expect(try scene.way(to: "203.0.113.7") == "eth0" && scene.way(to: "2001:db8:7::7") == "eth0")
            let before = try scene.peer.received
            try scene.world.host.run("ip", "rule", "add", "to", "203.0.113.7", "table", "1234", "priority", "50")
            #expect(try scene.way(to: "203.0.113.7") == scene.name)
            try scene.ping()
            #expect(try scene.peer.received > before)
            try scene.succeed("down", scene.name)
            #expect(try scene.way(to: "203.0.113.7") == "eth0")
            try scene.world.host.run("ip", "rule", "del", "priority", "50")
            try scene.expectUnchanged()
            // The main table has the route to the server, which stays.
            try scene.writeFile(interface: "Table = main")
            try scene.succeed("up", file)
            #expect(try scene.way(to: "203.0.113.7") == scene.name && scene.way(to: "192.0.2.1") == "eth0")
            try scene.ping()
            try scene.succeed("down", scene.name)
            try scene.expectUnchanged()
        }

        @Test("Mistakes are reported, each with its status, and change nothing")
        func mistakes() throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile(interface: "Adress = 10.0.0.1/24")
            let mistake = try scene.run("up", file)
            #expect(mistake.status == 2 && mistake.output.contains("\(scene.name).conf:4:1: error:"), "\(mistake)")
            #expect(try scene.run("up", "no-such-tunnel").status == 3)
            #expect(try scene.run("up", scene.files.path + "/none.conf").status == 3)
            let taken = try scene.run("up", try scene.writeFile(name: "eth0"))
            #expect(taken.status == 1 && taken.output.contains("belongs to one of another kind"), "\(taken)")
            try scene.writeFile()
            try PrivilegedTests.run(["chown", "65534", file, scene.files.path])
            let command = scene.command(["up", file]).map { $0.replacing(scene.runtime.path, with: scene.files.path) }
            let user = try PrivilegedTests.runAllowingFailure(
                command.prefix(4) + ["setpriv", "--reuid", "65534", "--clear-groups"] + command.dropFirst(4))
            #expect(user.status == 4 && user.output.contains("run as root"), "\(user)")
            try PrivilegedTests.run(["chown", "0", file, scene.files.path])
            try scene.expectUnchanged()
            #expect(scene.remains.isEmpty)
        }

        @Test("A server that does not answer: an error by the time-out, and nothing is left")
        func unreachable() throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile(port: 9)
            let result = try scene.run("up", file, "--timeout", "2")
            #expect(result.status == 6)
            #expect(result.output.contains("no answer from 192.0.2.1"), "\(result)")
            #expect(try scene.succeed("log", scene.name).contains("error \(scene.name): the tunnel is not up: "))
            #expect(result.output.contains("fix: "))
            try scene.expectUnchanged()
            #expect(scene.remains.isEmpty)
        }

        @Test("Interrupted or killed while it starts: nothing is left", arguments: [SIGINT, SIGTERM, SIGKILL])
        func interrupted(_ signal: Int32) throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile(port: 9)
            let command = try SpawnedProcess(scene.command(["up", file]))
            try command.waitForOutput(containing: "connecting to")
            // The settings are in effect during the wait for the answer.
            try eventually("routes are set") { try scene.way(to: "203.0.113.7") == scene.name }
            command.signal(signal)
            let result = try command.wait(deadline: .seconds(60))
            if signal == SIGKILL {
                try eventually("the service has ended", within: .seconds(60)) { scene.remains.isEmpty }
            } else {
                #expect(result.status == 130)
                #expect(result.output.contains("interrupted; the tunnel was taken down again"), "\(result)")
            }
            try scene.expectUnchanged()
            #expect(scene.remains.isEmpty)
        }

        @Test(
            "After a killed process, each of these restores the network",
            arguments: [["down"], ["cleanup"], ["up"]], ["route-based", "enforced", "everything"])
        func killed(_ mender: [String], _ policy: String) throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile()
            try scene.succeed("up", file, "--leak-policy", policy)
            try scene.ping()
            let process = try #require(scene.processes.first)
            #expect(try scene.status()["processID"] as? Int == Int(process))
            try scene.killProcess()
            #expect(try scene.status()["state"] as? String == (policy == "route-based" ? "dead" : "held"))
            #expect(try scene.succeed("status", scene.name).contains("culvert down \(scene.name)"))
            #expect(try !scene.world.changes(since: scene.before).isEmpty)
            if policy != "route-based" {
                // No packet leaks meanwhile.
                #expect(throws: CommandFailure.self) {
                    try scene.world.host.run("ping", "-n", "-q", "-c", "1", "-W", "1", "203.0.113.7")
                }
            }
            switch mender {
            case ["up"]:
                try scene.succeed("up", file, "--leak-policy", policy)
                try scene.ping()
                try scene.succeed("down", "--all")
            case ["cleanup"]: #expect(try scene.succeed("cleanup").contains("\(scene.name): undone:\n"))
            default: #expect(try scene.succeed("down", scene.name).contains("its process had died; cleaned up"))
            }
            try scene.expectUnchanged()
        }

        @Test("A profile is added, brought up, shown, and taken down by its removal")
        func profile() throws {
            let scene = try CulvertUpScene()
            let file = try scene.writeFile()
            let directory = ["--directory", scene.files.path + "/profiles"]
            func profile(_ arguments: String...) throws -> CommandResult {
                try PrivilegedTests.runAllowingFailure(scene.command(["profile"] + arguments + directory))
            }
            #expect(try profile("add", file).status == 0)
            #expect(try profile("add", file).status == 2)
            #expect(try profile("list").output.contains(scene.name))
            try PrivilegedTests.run(["rm", file])
            let up = try PrivilegedTests.runAllowingFailure(scene.command(["up", scene.name] + directory))
            #expect(up.status == 0, "\(up)")
            try scene.ping()
            let status = try scene.status()
            #expect(status["profile"] as? String == scene.name)
            #expect(status["source"] as? String == "profile \(scene.name)")
            #expect(try !profile("show", scene.name).output.contains(scene.privateKey))
            #expect(try profile("show", scene.name, "--show-secrets").output.contains(scene.privateKey))
            #expect(try profile("remove", scene.name).status == 0)
            try scene.expectUnchanged()
            #expect(scene.remains.isEmpty)
            #expect(try profile("show", scene.name).status == 3)
        }
    }
#endif
