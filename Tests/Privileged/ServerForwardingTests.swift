// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import NetworkAddresses
    import PacketTunnel
    import PacketTunnelTesting
    import Testing
    import TunnelIO

    @testable import PacketTunnelLinux
    @testable import TunnelServer

    @Suite(
        "The forwarding of a server's host", .enabled(if: Privileged.isAvailable), .serialized, .timeLimit(.minutes(5)))
    struct ServerForwardingTests {
        @Test("Forwarding applies to clients only, and everything is restored at the end")
        func forwardsNothingElse() async throws {
            let scene = try TunnelServerScene()
            #expect(try !scene.pings("203.0.113.7", from: scene.neighbour))
            let (before, kernel) = (try scene.world.snapshot(), try scene.kernelSettings())
            try await scene.start(scene.settings())
            #expect(try scene.pings("203.0.113.7", patience: 9))
            for address in ["203.0.113.7", "2001:db8:7::7"] {
                #expect(try !scene.pings(address, from: scene.neighbour), "\(address)")
            }
            await scene.stop()
            try scene.world.expectUnchanged(since: before)
            #expect(try scene.kernelSettings() == kernel)
            // On a host that forwarded before, forwarding continues.
            try scene.world.host.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
            try await scene.start(scene.settings())
            #expect(try scene.pings("203.0.113.7", from: scene.neighbour, patience: 9))
            #expect(try scene.pings("2001:db8:7::7", from: scene.neighbour, patience: 9))
            await scene.stop()
            #expect(try scene.pings("203.0.113.7", from: scene.neighbour, patience: 9))
        }

        @Test(
            "Two servers forward for their clients only, until the last one ends, with one folder of journals or two",
            arguments: [true, false])
        func twoServers(sharesFolder: Bool) async throws {
            let scene = try TunnelServerScene()
            let kernel = try scene.kernelSettings()
            let folder = try TemporaryFolder()
            try await scene.start(scene.settings())
            let second = try await scene.addServer(journalFolder: sharesFolder ? nil : folder.path)
            // A client of each server, and a machine that is not a client.
            func expectForwarding(_ first: Bool, _ other: Bool, _ comment: Comment) throws {
                if first { #expect(try scene.pings("203.0.113.7", patience: 9), comment) }
                #expect(try scene.pings("203.0.113.7", from: second.client, patience: other ? 9 : 1) == other, comment)
                for address in ["203.0.113.7", "2001:db8:7::7"] {
                    #expect(try !scene.pings(address, from: scene.neighbour), comment)
                }
            }
            try expectForwarding(true, true, "both run")
            await scene.stop()
            try expectForwarding(false, true, "the first has ended")
            try await second.stop()
            try expectForwarding(false, false, "both have ended")
            #expect(try scene.kernelSettings() == kernel)
        }

        @Test("A server without an interface that forwards reports it, and its end")
        func cannotForward() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            let links = ["eth0", "eth1"]
            func set(_ value: Int) throws {
                for link in links {
                    try scene.world.host.run("sysctl", "-qw", "net.ipv4.conf.\(link).forwarding=\(value)")
                }
            }
            try set(0)
            try eventually("the problem is reported", within: .seconds(20)) {
                network.state.problems.contains { $0.what.contains("forwarding of IPv4") }
            }
            try set(1)
            try eventually("the problem is solved", within: .seconds(20)) { network.state.problems.isEmpty }
            await scene.stop()
        }

        @Test("A host that forwards one family already continues to, and the other is forwarded for clients only")
        func forwardsOneFamily() async throws {
            let scene = try TunnelServerScene()
            for (is4, is6) in [(1, 0), (0, 1)] {
                try scene.world.host.run(
                    "sysctl", "-qw", "net.ipv4.ip_forward=\(is4)", "net.ipv6.conf.all.forwarding=\(is6)")
                let (forwarded, other) = is4 == 1 ? ("203.0.113.7", "2001:db8:7::7") : ("2001:db8:7::7", "203.0.113.7")
                #expect(try scene.pings(forwarded, from: scene.neighbour, patience: 9))
                let kernel = try scene.kernelSettings()
                try await scene.start(scene.settings())
                for address in [forwarded, other] { #expect(try scene.pings(address, patience: 9), "\(address)") }
                #expect(try scene.pings(forwarded, from: scene.neighbour, patience: 9), "\(forwarded)")
                #expect(try !scene.pings(other, from: scene.neighbour), "\(other)")
                await scene.stop()
                #expect(try scene.kernelSettings() == kernel)
                #expect(try scene.pings(forwarded, from: scene.neighbour, patience: 9), "\(forwarded)")
            }
        }

        @Test(
            "While a process deletes the table ten times a second, nearly no ping of another machine passes")
        func deletedRepeatedly() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            #expect(try scene.pings("203.0.113.7", patience: 9))
            let attacker = try scene.world.host.start(
                "bash", "-c",
                "while :; do nft delete table inet culvert_\(TunnelServerScene.name) 2> /dev/null; sleep 0.1; done")
            defer { attacker.kill() }
            let pings = try scene.neighbour.runAllowingFailure(
                "ping", "-n", "-q", "-i", "0.1", "-c", "100", "-W", "1", "203.0.113.7")
            // In ten seconds, forwarding resumes at most six times. Packets may pass until the server has read the kernel's
            // notice of the next deletion, which takes longer on a busy machine.
            let passed = pings.output.firstMatch(of: /100 packets transmitted, (\d+) received/).flatMap { Int($0.1) }
            #expect(try #require(passed) <= 12, "\(pings.output)")
            print("server: during repeated deletions of the table, \(passed ?? 0) pings of another machine passed")
            try eventually("the problem is reported", within: .seconds(5), pollEvery: .milliseconds(2)) {
                network.state.problems.contains { $0.what.contains("nothing is forwarded until it ") }
            }
            attacker.kill()
            let outage = try eventually("clients are served again", within: .seconds(90)) {
                try scene.pings("203.0.113.7")
            }
            print("server: clients were served again \(outage) after the last of the repeated deletions")
            try eventually("the problem is solved", within: .seconds(5)) { network.state.isCurrent }
            #expect(try !scene.pings("203.0.113.7", from: scene.neighbour))
            await scene.stop()
        }

        @Test("A table that another process replaces by an equal one is loaded again, and clients are served")
        func equalTable() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            let (host, table) = (scene.world.host, "culvert_\(TunnelServerScene.name)")
            let listing = try host.run("nft", "list", "table", "inet", table).output
            let folder = try TemporaryFolder()
            defer { withExtendedLifetime(folder) {} }
            try host.run("nft", "-f", folder.write("delete table inet \(table)\n\(listing)", to: "equal"))
            try eventually("the table is loaded again", within: .seconds(5)) { network.repairs.count > 0 }
            try eventually("everything is in effect", within: .seconds(5)) { network.state.isCurrent }
            #expect(try scene.pings("203.0.113.7", patience: 9))
            #expect(try !scene.pings("203.0.113.7", from: scene.neighbour))
            await scene.stop()
        }

        @Test("Forwarding stops at the deletion of the table even while another process has the lock of the journals")
        func lockedJournals() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            let (host, table) = (scene.world.host, "culvert_\(TunnelServerScene.name)")
            let folder = scene.world.folder
            let holder = try SpawnedProcess(["flock", "--no-fork", folder, "sleep", "100"])
            defer { holder.kill() }
            try eventually("the folder is locked", pollEvery: .milliseconds(2)) {
                try runAllowingFailure(["flock", "--nonblock", folder, "true"]).status == 1
            }
            // The route to the network needs an entry in the journal.
            let behind = try IPPrefix("192.168.50.0/24")
            let change = Task { try await network.allow([], subnets: [behind]) }
            try eventually("the firewall has the network", within: .seconds(5)) {
                try host.run("nft", "list", "set", "inet", table, "behind4").output.contains("192.168.50.0")
            }
            try host.run("nft", "delete", "table", "inet", table)
            try eventually("nothing is forwarded", within: .seconds(5), pollEvery: .milliseconds(2)) { network.isHeld }
            holder.kill()
            _ = await change.result
            try eventually("packets are forwarded again", within: .seconds(20)) { !network.isHeld }
            #expect(try scene.pings("203.0.113.7", patience: 9))
            await scene.stop()
        }

        @Test("Other tables that change at a high rate neither stop forwarding nor hide the loss of the server's table")
        func otherTables() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            let (host, table) = (scene.world.host, "culvert_\(TunnelServerScene.name)")
            let changes = (1...1000).map { "add table inet other\($0 % 5)\ndelete table inet other\($0 % 5)\n" }
            let folder = try TemporaryFolder()
            defer { withExtendedLifetime(folder) {} }
            let script = try folder.write(changes.joined(), to: "changes")
            let other = try host.start("bash", "-c", "while read -r line; do nft \"$line\"; done < \(script)")
            defer { other.kill() }
            #expect(try scene.pings("203.0.113.7", patience: 9))
            #expect(!network.isHeld && network.repairs.count == 0)
            try host.run("nft", "delete", "table", "inet", table)
            try eventually("the table is loaded again", within: .seconds(5)) { network.repairs.count > 0 }
            try eventually("clients are served", within: .seconds(5)) { try scene.pings("203.0.113.7") }
            #expect(try !scene.pings("203.0.113.7", from: scene.neighbour))
            await scene.stop()
        }

        /// Makes a bridge in the server's namespace, as the start of a container does.
        private func makeBridge(_ scene: TunnelServerScene) throws {
            try scene.world.host.run("ip", "link", "add", "docker9", "type", "bridge")
            try scene.world.host.run("ip", "address", "add", "172.17.0.1/16", "dev", "docker9")
            try scene.world.host.run("ip", "link", "set", "docker9", "up")
        }

        private func forwarding(_ scene: TunnelServerScene) throws -> [String] {
            try scene.world.host.run(
                "cat", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding",
                "/proc/sys/net/ipv6/conf/eth0/accept_ra"
            ).output.split(separator: "\n").map(String.init)
        }

        @Test("A container's network that began after the server keeps its forwarding, and the log names it")
        func containers() async throws {
            let scene = try TunnelServerScene()
            #expect(try forwarding(scene) == ["0", "0", "1"])
            let log = RecordedLog()
            try await scene.start(
                scene.settings(), logger: Logger(label: "server") { RedactingLogHandler(label: $0, sinks: [log]) })
            try makeBridge(scene)
            await scene.stop()
            // Without the value 2 the host would lose its own IPv6 address.
            #expect(try forwarding(scene) == ["1", "1", "2"])
            let warnings = log.records.messages.map(\.message).filter { $0.contains("stays 1") }
            #expect(warnings.count == 2, "\(warnings)")
            #expect(
                warnings.allSatisfy { $0.contains("docker9") && $0.contains("\"Containers on the gateway\"") },
                "\(warnings)")
            // The next server finds a host that forwards, and does not block its packets.
            try await scene.start(scene.settings())
            #expect(try scene.pings("203.0.113.7", from: scene.neighbour, patience: 9))
            await scene.stop()
            #expect(try forwarding(scene) == ["1", "1", "2"])
        }

        @Test(
            "A killed server's forwarding is undone at the next start, unless a container's network began since",
            arguments: [false, true])
        func killedWithContainers(hasContainers: Bool) async throws {
            let scene = try TunnelServerScene()
            try scene.world.host.perform {
                let killed = try ChangeLedger(
                    name: TunnelServerScene.name, directory: JournalDirectory(path: scene.world.folder),
                    system: LinuxNetwork(), owner: LinuxHostWorld.dead)
                try killed.apply(HostForwarding.paths.map { .setting(path: $0, value: "1") })
            }
            if hasContainers { try makeBridge(scene) }
            try await scene.start(scene.settings())
            #expect(
                try scene.pings("203.0.113.7", from: scene.neighbour, patience: hasContainers ? 9 : 1) == hasContainers)
            await scene.stop()
            #expect(try forwarding(scene).prefix(2) == (hasContainers ? ["1", "1"] : ["0", "0"]))
        }

        @Test(
            "A killed server's forwarding is undone even if its journal was deleted, unless a container needs it",
            arguments: [false, true])
        func killedWithoutJournal(hasContainers: Bool) async throws {
            let scene = try TunnelServerScene()
            let settings = try scene.settings()
            try scene.world.host.perform {
                let network = try LinuxNetwork()
                let killed = try ChangeLedger(
                    name: TunnelServerScene.name, directory: JournalDirectory(path: settings.journalFolder),
                    system: network, owner: LinuxHostWorld.dead)
                let marks = try HostForwarding.forServers(settings, network, others: [])
                try killed.apply(
                    [.firewall(ServerFirewall(settings, forwardedForClients: marks).table)]
                        + HostForwarding.paths.map { .setting(path: $0, value: "1") })
            }
            try FileManager.default.removeItem(atPath: settings.journalFolder)
            if hasContainers { try makeBridge(scene) }
            try await scene.start(settings)
            #expect(
                try scene.pings("203.0.113.7", from: scene.neighbour, patience: hasContainers ? 9 : 1) == hasContainers)
            await scene.stop()
            #expect(try forwarding(scene).prefix(2) == (hasContainers ? ["1", "1"] : ["0", "0"]))
        }

        @Test(
            "The last of two servers undoes forwarding, unless a container's network began after the first",
            arguments: [false, true])
        func twoServersWithContainers(hasContainers: Bool) async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            if hasContainers { try makeBridge(scene) }
            var settings = try scene.settings()
            settings.name = "srv1"
            settings.addresses = [try InterfaceAddress("10.67.0.1/24"), try InterfaceAddress("fd67::1/64")]
            let wanted = settings
            let second = try scene.world.host.perform { try ServerNetwork(wanted) }
            _ = try await second.start(isMultiQueue: false)
            await scene.stop()
            #expect(try forwarding(scene).prefix(2) == ["1", "1"])
            await second.stop()
            #expect(try forwarding(scene) == (hasContainers ? ["1", "1", "2"] : ["0", "0", "1"]))
        }
    }
#endif
