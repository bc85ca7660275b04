// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing

    extension CulvertUpTests {
        /// The table of packets outside the tunnel in docs/culvert.md. Each cell is an expectation here.
        @Suite("Packets outside the tunnel, event by event", .timeLimit(.minutes(5)))
        struct LeakTableTests {
            /// The packets that bypass the tunnel.
            enum Clear: String {
                /// No packets.
                case nothing
                /// Packets of a program that binds to another interface.
                case bound
                /// All packets.
                case all
            }

            /// The cells of a policy's column.
            struct Column {
                var policy: String
                /// While the tunnel's settings are in effect, whether the server answers or not.
                var running: Clear
                /// After its process ended without undoing anything, and after a failed start.
                var without: Clear
                /// While on-link routes to both halves of the address space exist.
                var hostile: Clear

                static let routeBased = Column(policy: "route-based", running: .bound, without: .all, hostile: .all)
                static let enforced = Column(
                    policy: "enforced", running: .nothing, without: .nothing, hostile: .nothing)
                static let everything = Column(
                    policy: "everything", running: .nothing, without: .nothing, hostile: .nothing)
            }

            private static let far = ["8.8.8.8", "2001:db8:7::7"]
            /// A distant host of each family, for route lookups.
            private static let farHosts = ["203.0.113.7", "2001:db8:7::7"]

            /// Returns the packets that bypass the tunnel now.
            private func clear(_ scene: CulvertUpScene) throws -> Clear {
                let lines = try scene.world.captured {
                    for address in Self.far {
                        try scene.world.send(to: address, port: 1000)
                        try scene.world.send(to: address, port: 2000, interface: "eth0")
                    }
                }
                func left(_ port: Int) -> Bool {
                    lines.contains { line in
                        Self.far.contains { line.contains("> \($0).\(port):") }
                            // On the link, the link address of the destination is requested first.
                            || Self.far.contains { line.contains("who-has \($0) ") || line.contains("who has \($0),") }
                    }
                }
                return left(1000) ? .all : left(2000) ? .bound : .nothing
            }

            private func expect(
                _ clear: Clear, _ event: String, _ scene: CulvertUpScene,
                sourceLocation: SourceLocation = #_sourceLocation
            ) throws {
                let found: Clear
                do {
                    found = try self.clear(scene)
                } catch {
                    let rules = try scene.world.host.run("nft", "list", "ruleset").output
                    throw CommandFailure(description: "\(event): \(error)\n\(rules)")
                }
                #expect(found == clear, "\(event)", sourceLocation: sourceLocation)
            }

            @Test(
                "Started, running, attacked, undone, cut off, killed and started again",
                arguments: [Column.routeBased, .enforced, .everything])
            func events(_ column: Column) throws {
                let scene = try CulvertUpScene()
                let host = scene.world.host
                try expect(.all, "without a tunnel", scene)
                // Test a start that fails.
                let file = try scene.writeFile(port: 9)
                let arguments = ["up", file, "--leak-policy", column.policy, "--timeout", "6"]
                let command = try SpawnedProcess(scene.command(arguments))
                try eventually("routes are set") {
                    try Self.farHosts.allSatisfy { try scene.way(to: $0) == scene.name }
                }
                try expect(column.running, "starting", scene)
                let failed = try command.wait(deadline: .seconds(60))
                #expect(failed.status == 6, "\(failed)")
                #expect(
                    failed.output.contains("the leak policy holds until 'culvert down") == (column.without == .nothing))
                try expect(column.without, "after a start that failed", scene)
                if column.without == .nothing { try scene.succeed("down", scene.name) }
                try scene.expectUnchanged()

                try scene.writeFile()
                try scene.succeed("up", file, "--leak-policy", column.policy)
                try scene.ping()
                try expect(column.running, "running", scene)

                try hostileRoutes(add: true, host)
                try expect(column.hostile, "with routes of a hostile DHCP server and router", scene)
                try hostileRoutes(add: false, host)

                try undo(scene, column)
                try newLinks(scene, column)

                try host.run("ip", "link", "set", "eth0", "down")
                try host.run("ip", "link", "set", "eth0", "up")
                // Add the route by the interface's name, as DHCP clients do. The kernel would look for a gateway
                // without an interface in the tunnel's table.
                try host.run("ip", "route", "add", "default", "via", "192.0.2.1", "dev", "eth0")
                try host.run("ip", "-6", "address", "add", "2001:db8:2::2/64", "dev", "eth0", "nodad")
                try host.run("ip", "-6", "route", "add", "default", "via", "2001:db8:2::1", "dev", "eth0")
                try eventually("the tunnel is back", within: .seconds(30)) { (try? scene.ping()) != nil }
                try expect(column.running, "with the link back", scene)

                try scene.world.router.run("ip", "link", "set", scene.server.name, "down")
                try expect(column.running, "with a server that is dead", scene)

                try scene.killProcess()
                try expect(column.without, "killed", scene)
                try scene.writeFile(port: 9)
                let again = try SpawnedProcess(scene.command(arguments))
                try eventually("routes are set again") {
                    try Self.farHosts.allSatisfy { try scene.way(to: $0) == scene.name }
                }
                try expect(column.running, "starting again, the server away", scene)
                #expect(try again.wait(deadline: .seconds(60)).status == 6)
                try expect(column.without, "started again, the server away", scene)
                if column.without == .nothing {
                    #expect(try scene.status()["state"] as? String == "held")
                    #expect(try scene.status()["heldPolicy"] as? String == column.policy)
                    try scene.succeed("down", scene.name)
                }
                try expect(.all, "down", scene)
                #expect(scene.remains.isEmpty, "\(scene.remains)")
            }

            /// Adds or removes on-link routes to all addresses, like those of a DHCP server's option 121 and of a
            /// router's advertisement.
            private func hostileRoutes(add: Bool, _ host: Namespace) throws {
                let verb = add ? "add" : "del"
                for route in ["0.0.0.0/1", "128.0.0.0/1"] { try host.run("ip", "route", verb, route, "dev", "eth0") }
                try host.run("ip", "-6", "route", verb, "2000::/3", "dev", "eth0")
            }

            /// Makes another process undo the tunnel's changes, which must be restored within a second.
            private func undo(_ scene: CulvertUpScene, _ column: Column) throws {
                let host = scene.world.host
                let table = "culvert_\(scene.name)"
                for command in [
                    ["nft", "flush", "ruleset"], ["nft", "delete", "table", "inet", table],
                    ["nft", "flush", "table", "inet", table],
                    // Delete a part of the firewall.
                    ["nft", "delete", "chain", "inet", table, column.running == .nothing ? "leaving" : "answers"],
                    ["ip", "rule", "flush"], ["ip", "-6", "rule", "flush"], ["ip", "route", "flush", "table", "51821"],
                    ["ip", "address", "flush", "dev", scene.name],
                ] {
                    let before = try scene.status()["repairs"] as? Int ?? 0
                    let began = ContinuousClock.now
                    try PrivilegedTests.run(["ip", "netns", "exec", host.name] + command)
                    if command.contains("rule") {
                        // This also deletes rules of the kernel, so add those again.
                        let family = command.contains("-6") ? "-6" : "-4"
                        try host.run("ip", family, "rule", "add", "from", "all", "table", "main", "priority", "32766")
                        if family == "-4" {
                            // Another program's rule that matches the tunnel's mark.
                            try host.run(
                                "ip", "rule", "add", "to", "198.18.0.0/15", "table", "51820", "priority", "900")
                        }
                    }
                    try eventually("\(command) is made good", within: .seconds(10)) {
                        try scene.status()["repairs"] as? Int ?? 0 > before
                    }
                    let took = ContinuousClock.now - began
                    #expect(took < .seconds(1), "\(command) took \(took)")
                    try scene.ping()
                    try scene.ping("2001:db8:7::7")
                }
                try expect(column.running, "after others undid it", scene)
                let status = try scene.succeed("status", scene.name)
                #expect(status.contains("made again:"), "\(status)")
                let log = try scene.succeed("log", scene.name)
                #expect(log.contains("firewall table \(table) (by 'nft', process "), "\(log)")
            }

            /// Adds links. Their private networks count as local; no other packet may be sent through them.
            private func newLinks(_ scene: CulvertUpScene, _ column: Column) throws {
                let host = scene.world.host
                try host.run("ip", "link", "add", "br0", "type", "bridge")
                try host.run("ip", "address", "add", "172.30.9.1/24", "dev", "br0")
                try host.run("ip", "address", "add", "198.51.100.1/24", "dev", "br0")
                try host.run("ip", "link", "set", "br0", "up")
                if column.running == .nothing {
                    let table = "culvert_\(scene.name)"
                    try eventually("the new network is let through") {
                        try host.run("nft", "list", "set", "inet", table, "local4").output.contains("172.30.9.0/24")
                    }
                    #expect(try !host.run("nft", "list", "table", "inet", table).output.contains("198.51.100"))
                    try eventually("it is named") {
                        try scene.succeed("log", scene.name).contains("172.30.9.0/24 is a local network now")
                    }
                }
                try expect(column.running, "with a new link", scene)
                try host.run("ip", "link", "del", "br0")
            }

            @Test("A policy that a guard holds while a weaker tunnel runs is adopted immediately, and outlives it")
            func heldLater() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                try scene.succeed("up", file)
                try scene.ping()
                try expect(.bound, "with the tunnel's own policy", scene)
                let said = try scene.succeed("guard", file, "--leak-policy", "everything")
                #expect(said.contains("takes the leak policy 'everything' over"), "\(said)")
                let began = ContinuousClock.now
                try eventually("the tunnel has it", within: .seconds(5)) {
                    try scene.world.host.run("nft", "list", "table", "inet", "culvert_\(scene.name)").output
                        .contains("chain leaving")
                }
                #expect(ContinuousClock.now - began < .seconds(1))
                try eventually("it is said") {
                    try scene.succeed("log", scene.name).contains("since it is held for this tunnel")
                }
                try scene.ping()
                try expect(.nothing, "held", scene)
                try scene.killProcess()
                try expect(.nothing, "killed", scene)
                #expect(try scene.status()["state"] as? String == "held")
                // No process can load the firewall again, and the status reports this.
                try scene.world.host.run("nft", "delete", "table", "inet", "culvert_\(scene.name)")
                #expect(try scene.status()["state"] as? String == "dead")
                #expect(try scene.succeed("status", scene.name).contains("another program has deleted its firewall"))
                try scene.succeed("guard", file, "--leak-policy", "everything")
                try expect(.nothing, "loaded again", scene)
                try scene.succeed("guard", scene.name, "--release")
                try expect(.all, "released", scene)
                try scene.expectUnchanged()
            }

            @Test("A policy that cannot be loaded is not said to hold")
            func notHeld() throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                // Another interface has the tunnel's name.
                try scene.world.host.run("ip", "link", "add", scene.name, "type", "bridge")
                let refused = try scene.run("guard", file, "--leak-policy", "everything")
                #expect(refused.status == 1 && refused.output.contains("one of another kind"), "\(refused)")
                try scene.world.host.run("ip", "link", "del", scene.name)
                try expect(.all, "refused", scene)
                #expect(scene.remains.isEmpty, "\(scene.remains)")
                // A start that cannot take over a killed process's firewall does not release it.
                try scene.succeed("up", file, "--leak-policy", "everything")
                try scene.killProcess()
                try scene.world.host.run("ip", "link", "add", scene.name, "type", "bridge")
                let failed = try scene.run("up", file, "--leak-policy", "everything")
                #expect(failed.status != 0 && failed.output.contains("one of another kind"), "\(failed)")
                try expect(.nothing, "killed, and not to be started again", scene)
                try scene.world.host.run("ip", "link", "del", scene.name)
                try scene.succeed("down", scene.name)
                try expect(.all, "down", scene)
            }

            @Test(
                "A policy that is held from boot on lasts through the tunnel's life",
                arguments: ["enforced", "everything"])
            func held(_ policy: String) throws {
                let scene = try CulvertUpScene()
                let file = try scene.writeFile()
                let useless = try scene.run("guard", file)
                #expect(useless.status == 2 && useless.output.contains("blocks nothing"), "\(useless)")
                try scene.succeed("guard", file, "--leak-policy", policy)
                try expect(.nothing, "before the tunnel", scene)
                #expect(try scene.succeed("status", scene.name).contains("\(policy), without the tunnel"))
                // The tunnel uses at least this policy.
                try scene.succeed("up", file)
                try scene.ping()
                try expect(.nothing, "with the tunnel", scene)
                try scene.succeed("down", scene.name)
                try expect(.nothing, "down", scene)
                try scene.succeed("up", file)
                try scene.killProcess()
                try expect(.nothing, "killed", scene)
                try scene.succeed("cleanup")
                try expect(.nothing, "cleaned up", scene)
                try scene.succeed("guard", scene.name, "--release")
                try expect(.all, "released", scene)
                try scene.expectUnchanged()
                #expect(scene.remains.isEmpty, "\(scene.remains)")
            }
        }
    }
#endif
