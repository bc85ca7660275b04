// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    /// The steps of docs/gateway.md with the real programs.
    @Suite(
        "A gateway and its programs", .serialized,
        .enabled(if: Privileged.isAvailable && PrivateEtc.isPossible, "needs root and a mount namespace"),
        .timeLimit(.minutes(5)))
    struct GatewayProgramTests {
        @Test("Init, run, invite, enrol, up; rules, a restart, a revoked device; down restores everything")
        func wholeLife() async throws {
            let scene = try GatewayProgramScene()
            let anna = scene.network.anna
            try anna.run("ip", "route", "add", "default", "via", "198.51.100.1")
            try scene.run()
            // The user is the folder's owner, with only CAP_NET_ADMIN and CAP_NET_BIND_SERVICE.
            #expect(try scene.status("Uid") == "4711\t4711\t4711\t4711")
            #expect(try scene.status("CapEff") == "0000000000001400")
            #expect(try scene.threadsThatTakeSignals().isEmpty)
            try scene.enrolOffice(of: "anna", in: anna)
            #expect(try scene.attempt("enroll", "\(scene.files.path)/anna.invitation", in: anna).status != 0)

            let up = try scene.culvert("up", "office", in: anna)
            #expect(up.contains("office: connected after"), "\(up)")
            #expect(try CulvertUpScene.resolvConfNow.contains("nameserver 203.0.113.53\n"))
            for address in [GatewayProgramScene.inner, "fd66::1", GatewayProgramScene.server, "2001:db8:7::7"] {
                #expect(try scene.pings(address, from: anna, patience: 9), "\(address)")
            }
            // Behind NAT the server sees the gateway's address. Outside the tunnel it would see another one.
            #expect(try scene.seenSource(of: anna) == GatewayProgramScene.host)
            let device = try shownDevice(scene)

            // Rules take effect immediately.
            let server = GatewayProgramScene.server
            let blocked = try await scene.network.cutOff(anna) {
                try scene.culvert("gateway", "rule", "add", "deny", "--user", "anna", "--to", "203.0.113.0/24")
            }
            #expect(blocked < .seconds(1))
            #expect(try !scene.pings(server, from: anna))
            #expect(try scene.pings(GatewayProgramScene.inner, from: anna, patience: 9))
            try scene.culvert("gateway", "rule", "add", "allow", "--user", "anna", "--to", "\(server)/32", "--first")
            #expect(try scene.pings(server, from: anna, patience: 9))

            // The restarted gateway is another process and does not have the session.
            try scene.stop()
            #expect(try !scene.pings(server, from: anna))
            try scene.run()
            try eventually("the session is back", within: .seconds(90)) { try scene.pings(server, from: anna) }
            #expect(try scene.culvert("gateway", "rule", "list", "--user", "anna").contains("203.0.113.7/32"))

            let revoked = try await scene.network.cutOff(anna) {
                try scene.culvert("gateway", "peer", "revoke", device)
            }
            #expect(revoked < .seconds(1))
            #expect(try !scene.pings(GatewayProgramScene.inner, from: anna))
            print(
                "gateway: with the programs, the last datagram passed \(blocked) after a rule, \(revoked) after the device was revoked"
            )

            #expect(try scene.culvert("down", "office", in: anna).contains("down"))
            #expect(try anna.runAllowingFailure("ip", "link", "show", "dev", "office").status != 0)
            #expect(try anna.run("ip", "route", "get", server).output.contains("dev eth0"))
            #expect(try CulvertUpScene.resolvConfNow == CulvertUpScene.resolvConf)
            let audit = try scene.culvert("gateway", "audit")
            for action in ["deviceEnrolled", "invitationMisused", "rulesChanged", "deviceRemoved"] {
                #expect(audit.contains(action), "\(action) is missing in:\n\(audit)")
            }
            try scene.stop()
            try scene.network.world.expectUnchanged(since: scene.before)
        }

        /// The device's ID, which both ends show.
        private func shownDevice(_ scene: GatewayProgramScene) throws -> String {
            let text = try scene.culvert("status", "office", "--json", in: scene.network.anna)
            let document = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: [[String: Any]]]
            let tunnel = try #require(document?["tunnels"]?.first)
            #expect(tunnel["state"] as? String == "connected")
            let device = try #require(tunnel["device"] as? [String: Any])
            #expect(device["user"] as? String == "anna")
            let id = try #require(device["id"] as? String)
            #expect(try scene.culvert("gateway", "peer", "list").contains(id))
            return id
        }

        @Test("Twenty commands in parallel add twenty rules, and remove them all")
        func parallelRules() throws {
            let scene = try GatewayProgramScene()
            try scene.run()
            try scene.culvert("gateway", "user", "add", "anna")
            /// Runs a command for each of the words in parallel, all of which must succeed.
            func inParallel(_ words: String, _ command: String) throws -> String {
                try scene.network.world.host.run(
                    "bash", "-c",
                    """
                    for word in \(words); do \(CulvertUpScene.program) gateway rule \(command) --user anna & done
                    failures=0
                    for job in $(jobs -p); do wait "$job" || failures=$((failures + 1)); done
                    echo "failures: $failures"
                    """
                ).output
            }
            func rules() throws -> [[String: Any]] {
                let text = try scene.culvert("gateway", "rule", "list", "--user", "anna", "--json")
                let document = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: [[String: Any]]]
                return try #require(document?["rules"])
            }
            let numbers = (1...20).map { "\($0)" }
            let added = try inParallel(numbers.joined(separator: " "), "add deny --to 203.0.113.$word/32")
            #expect(added.contains("failures: 0") && added.components(separatedBy: "was added").count == 21, "\(added)")
            let networks = try rules().compactMap { ($0["networks"] as? [String])?.first }
            #expect(Set(networks) == Set(numbers.map { "203.0.113.\($0)/32" }) && networks.count == 20)
            let removed = try inParallel(
                try rules().compactMap { $0["id"] as? String }.joined(separator: " "), "remove $word")
            #expect(removed.contains("failures: 0"), "\(removed)")
            #expect(try rules().isEmpty)
            try scene.stop()
        }

        @Test("A second gateway on a folder is refused before it changes the host")
        func second() throws {
            let scene = try GatewayProgramScene()
            try scene.run()
            let during = try scene.network.world.snapshot()
            let again = try scene.attempt("gateway", "run")
            #expect(again.status == 5, "\(again)")
            #expect(again.output.contains("another gateway uses the folder \(GatewayProgramScene.directory)"))
            try scene.network.world.expectUnchanged(since: during)
            try scene.culvert("gateway", "status")
            try scene.stop()
            // The folder can be used again.
            try scene.run()
            try scene.stop()
        }

        @Test("A gateway waits for a moment if another process has the lock of its folder, as a killed gateway has")
        func lockedForAMoment() throws {
            let scene = try GatewayProgramScene()
            let directory = GatewayProgramScene.directory
            let holder = try SpawnedProcess(["flock", "--no-fork", directory, "sleep", "100"])
            defer { holder.kill() }
            try eventually("the folder is locked", pollEvery: .milliseconds(2)) {
                try PrivilegedTests.runAllowingFailure(["flock", "--nonblock", directory, "true"]).status == 1
            }
            try scene.run {
                try eventually("the gateway has opened its folder", pollEvery: .milliseconds(2)) {
                    try scene.hasOpened(directory)
                }
                holder.kill()
            }
            try scene.stop()
        }

        @Test("A gateway whose WireGuard port is taken ends with status 1, and leaves the host unchanged")
        func takenPort() throws {
            let scene = try GatewayProgramScene()
            do {
                let holder = try TestSocket.datagrams(in: scene.network.world.host, at: "0.0.0.0", port: 51_820)
                let result = try scene.attempt("gateway", "run")
                #expect(result.status == 1 && result.output.contains("51820"), "\(result)")
                withExtendedLifetime(holder) {}
            }
            try scene.network.world.expectUnchanged(since: scene.before)
            // The port is free again.
            try scene.run()
            try scene.stop()
        }

        @Test("A gateway without root loads its rules again after a flush")
        func repairs() throws {
            let scene = try GatewayProgramScene()
            try scene.run()
            for kind in ["CapEff", "CapPrm", "CapAmb"] {
                #expect(try scene.status(kind) == "0000000000001400", "\(kind)")
            }
            let host = scene.network.world.host
            try host.run("nft", "flush", "ruleset")
            try eventually("the rules are loaded again") {
                try host.run("nft", "list", "tables").output.contains("table inet culvert_")
            }
            try scene.stop()
        }

        @Test("A backup asks for its passphrase at the terminal, twice, and shows none of it; a restore asks once")
        func typedPassphrase() throws {
            let scene = try GatewayProgramScene()
            try scene.run()
            try scene.culvert("gateway", "user", "add", "anna")
            let (file, passphrase) = (scene.files.path + "/backup", "a passphrase that is typed")
            func backUp(_ words: (first: String, second: String)) throws -> (CommandResult, String) {
                let terminal = try PseudoTerminal()
                let process = try scene.start("gateway", "backup", file, on: terminal)
                try terminal.answer("passphrase (not shown): ", words.first)
                try terminal.answer("the same again: ", words.second)
                return (try process.wait(deadline: .seconds(60)), terminal.output)
            }
            let (refused, _) = try backUp((passphrase, "another one that is typed"))
            #expect(refused.status == 2 && refused.output.contains("nothing was written"), "\(refused)")
            #expect(!FileManager.default.fileExists(atPath: file))
            let (made, shown) = try backUp((passphrase, passphrase))
            #expect(made.status == 0 && made.output.contains("the backup is in \(file)"), "\(made)")
            #expect(!shown.contains("that is typed"))
            #expect(try scene.culvert("gateway", "audit").contains("backupMade"))
            // Press Ctrl-C, and end the input in the middle of a line.
            for end in ["\u{3}", "\u{4}"] {
                let terminal = try PseudoTerminal()
                let process = try scene.start("gateway", "backup", file + "2", on: terminal)
                try terminal.answer("passphrase (not shown): ", "half a passphrase", end: end)
                let result = try process.wait(deadline: .seconds(60))
                #expect(result.status == 130 && result.output.contains("was not typed to its end"), "\(result)")
            }
            // Without a terminal the command cannot ask.
            let alone = try PrivilegedTests.runAllowingFailure(
                ["setsid", "--wait", CulvertUpScene.program, "gateway", "backup", file + "2"])
            #expect(alone.status == 2 && alone.output.contains("--passphrase-file"), "\(alone)")
            try scene.stop()

            let terminal = try PseudoTerminal()
            let restored = scene.files.path + "/restored"
            let process = try scene.start("gateway", "restore", file, "--directory", restored, on: terminal)
            try terminal.answer("passphrase (not shown): ", passphrase)
            let result = try process.wait(deadline: .seconds(60))
            #expect(result.status == 0 && result.output.contains("the gateway is in \(restored)"), "\(result)")
            #expect(
                FileManager.default.contents(atPath: restored + "/server.key")
                    == FileManager.default.contents(atPath: GatewayProgramScene.directory + "/server.key"))
        }

        @Test(
            "With 1,024 descriptors, 1,500 idle connections from one address keep neither nft nor an administrator out")
        func idleConnections() throws {
            let scene = try GatewayProgramScene()
            try scene.run(descriptors: 1024)
            let anna = scene.network.anna
            try anna.run("ip", "route", "add", "default", "via", "198.51.100.1")
            try scene.enrolOffice(of: "anna", in: anna)
            let idle = try anna.start(
                "bash", "-c",
                """
                ulimit -n 4096
                for i in {1..1500}; do exec {fd}<>/dev/tcp/\(GatewayProgramScene.host)/8443; done 2> /dev/null
                echo connected
                exec sleep 60
                """)
            defer { idle.kill() }
            try idle.waitForOutput(containing: "connected")
            try scene.culvert("gateway", "rule", "add", "deny", "--user", "anna", "--to", "203.0.113.0/24")
            let host = scene.network.world.host
            try eventually("the rule is in the firewall", within: .seconds(5)) {
                try host.run("nft", "list", "ruleset").output.contains("203.0.113.0/24")
            }
            #expect(try scene.get("/ready") == #"{"status":"ok"}"#)
            #expect(!scene.log.contains("not in effect") && !scene.log.contains("nothing is forwarded"))
            try scene.stop()
        }

        @Test("Prometheus's promtool accepts the metrics, and they count what exists")
        func metrics() throws {
            let scene = try GatewayProgramScene()
            try scene.run()
            try scene.culvert("gateway", "user", "add", "anna")
            try scene.culvert(
                "gateway", "peer", "add", "phone", "--user", "anna", "--export", "\(scene.files.path)/phone.conf")
            try eventually("the device is a peer") { try scene.metrics().contains("\nculvert_gateway_peers 1\n") }
            let text = try scene.metrics()
            let places = ["/usr/local/lib/culvert-tests/promtool", "/usr/local/bin/promtool", "/usr/bin/promtool"]
            let promtool = try #require(places.first { FileManager.default.isExecutableFile(atPath: $0) })
            let file = try scene.files.write(text, to: "metrics")
            let checked = try PrivilegedTests.runAllowingFailure(["sh", "-c", "\(promtool) check metrics < \(file)"])
            #expect(checked.status == 0 && checked.output.isEmpty, "\(checked)\n\(text)")
            for line in [
                "culvert_gateway_queue_depth{queue=\"packets\"} 0",
                "culvert_gateway_queue_depth{queue=\"handshake_messages\"} 0",
                "culvert_gateway_drops_total{cause=\"disallowed_source\"} 0",
                "culvert_gateway_drops_total{cause=\"no_peer\"}", "culvert_gateway_peers_online 0",
                "# TYPE culvert_gateway_handshakes_total counter",
            ] {
                #expect(text.contains(line), "\(line) is missing in:\n\(text)")
            }
            try scene.stop()
        }
    }
#endif
