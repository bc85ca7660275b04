// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import NetworkAddresses
    import PacketTunnelTesting
    import PacketTunnel
    import Synchronization
    import Testing
    import TunnelIO
    import WireGuardDevice

    @testable import PacketTunnelLinux
    @testable import TunnelServer

    @Suite("A tunnel server's network", .enabled(if: Privileged.isAvailable), .serialized, .timeLimit(.minutes(5)))
    struct TunnelServerTests {
        @Test("The firewall lets a client reach only the internet and its assigned networks")
        func firewall() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            // The server translates to its own address for the internet, because the router has no route to the pool.
            #expect(try scene.pings("203.0.113.7", patience: 9))
            #expect(try scene.pings("2001:db8:7::7", patience: 9))
            #expect(try scene.connects(to: "203.0.113.7", port: 443) == .reached)
            #expect(try scene.connects(to: "2001:db8:7::7", port: 443) == .reached)
            // Port 53 of the assigned name servers, which are in denied networks.
            #expect(try scene.connects(to: "10.55.1.1", port: 53) == .reached)
            #expect(try scene.connects(to: "fd55::1", port: 53) == .reached)
            #expect(try scene.connects(to: "10.55.1.1", port: 80) == .refused)
            #expect(try scene.connects(to: "fd55::1", port: 80) == .refused)
            for address in ["192.168.77.1", "169.254.169.254", "100.64.1.1", "172.31.2.1"] {
                #expect(try scene.connects(to: address, port: 53) == .refused, "\(address)")
                #expect(try !scene.pings(address), "\(address)")
            }
            // Other clients, whether or not they exist.
            #expect(try scene.connects(to: "10.66.0.3", port: 80) == .refused)
            #expect(try scene.connects(to: "fd66::3", port: 80) == .refused)
            // The server itself, at each of its addresses: pings and what was allowed.
            #expect(try scene.pings("10.66.0.1"))
            #expect(try scene.pings("fd66::1"))
            for address in ["10.66.0.1", "192.0.2.2", "fd66::1", "2001:db8:2::2"] {
                #expect(try scene.connects(to: address, port: 22) == .refused, "\(address)")
                #expect(try scene.connects(to: address, port: 8080) == .reached, "\(address)")
            }
            await scene.stop()
        }

        @Test(
            "A source that no client has is dropped, inside and outside the tunnel, and no flow to a client can start"
        )
        func spoofing() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            try scene.client.run("ip", "address", "add", "10.66.0.77/32", "dev", "tun0")
            try scene.client.run("ip", "address", "add", "203.0.113.99/32", "dev", "tun0")
            let before = try scene.world.counted("beginning")
            for source in ["10.66.0.77", "203.0.113.99"] {
                #expect(try !scene.pings("203.0.113.7", source: source))
                #expect(try !scene.pings("10.66.0.1", source: source))
            }
            #expect(try scene.world.counted("beginning") >= before + 4)
            // Send from the router with a client's address.
            let outside = try scene.world.counted("outside")
            try scene.world.router.run("ip", "address", "add", "10.66.0.2/32", "dev", "lo")
            #expect(try !scene.pings("192.0.2.2", from: scene.world.router, source: "10.66.0.2"))
            #expect(try scene.world.counted("outside") > outside)
            try scene.world.router.run("ip", "address", "delete", "10.66.0.2/32", "dev", "lo")
            // The router has a route to the pool, but only answers may pass.
            try scene.world.router.run("ip", "route", "add", "10.66.0.0/24", "via", "192.0.2.2")
            let forwarded = try scene.world.counted("towards")
            #expect(try !scene.pings("10.66.0.2", from: scene.world.router))
            #expect(try scene.world.counted("towards") > forwarded)
            // The address of a removed client has no rights.
            try await scene.network?.remove([IPAddress("10.66.0.2")])
            #expect(try !scene.pings("203.0.113.7"))
            try await scene.network?.allow([IPAddress("10.66.0.2")])
            #expect(try scene.pings("203.0.113.7"))
            await scene.stop()
        }

        @Test("A new subnet must not contain the server's addresses, its next router or the clients' networks")
        func checkedSubnets() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            for (subnet, reason) in [
                ("192.0.2.1/32", "the server's default route leads to 192.0.2.1, which is in it"),
                ("2001:db8:2::1/128", "the server's default route leads to 2001:db8:2::1, which is in it"),
                ("198.51.100.0/24", "the server has the address 198.51.100.1 in it"),
                ("10.66.0.128/25", "it overlaps 10.66.0.0/24, the network of the clients' addresses"),
            ] {
                let subnet = try IPPrefix(subnet)
                await #expect(throws: TunnelServerError.subnet(subnet, reason)) {
                    try await network.check(subnets: [IPPrefix("192.168.50.0/24"), subnet])
                }
            }
            try await network.check(subnets: [IPPrefix("192.168.50.0/24"), IPPrefix("fd50::/64")])
            await scene.stop()
            await #expect(throws: TunnelServerError.notRunning) {
                try await network.check(subnets: [IPPrefix("192.168.50.0/24")])
            }
        }

        @Test("A second server with another journal is refused, and the first keeps its firewall")
        func anotherJournal() async throws {
            let scene = try TunnelServerScene()
            var second = try scene.settings()
            let folder = try TemporaryFolder()
            second.journalFolder = folder.path
            let table = Change.firewall(ServerFirewall(second, forwardedForClients: []).table)
            // The other journal is that of a killed server, which had the same table.
            try scene.world.host.perform {
                let killed = try ChangeLedger(
                    name: second.name, directory: JournalDirectory(path: folder.path), system: LinuxNetwork(),
                    owner: LinuxHostWorld.dead)
                try killed.apply([table])
            }
            try await scene.start(scene.settings())
            let first = try #require(scene.network)
            func rules() throws -> String { try scene.world.host.run("nft", "-a", "list", "ruleset").output }
            let before = try rules()
            let other = try scene.world.host.perform { try ServerNetwork(second) }
            await #expect(throws: TunnelServerError.interfaceTaken(TunnelServerScene.name)) {
                _ = try await other.start(isMultiQueue: false)
            }
            await other.stop()
            #expect(try rules() == before)
            #expect(first.repairs.count == 0)
            #expect(try scene.pings("203.0.113.7", patience: 9))
            // The second one starts once the first has ended.
            await scene.stop()
            _ = try await other.start(isMultiQueue: false)
            #expect(try rules().contains("culvert_\(second.name)"))
            await other.stop()
        }

        @Test("A server with many lanes starts on an administrator's interface with one queue, and logs it once")
        func oneQueue() async throws {
            let scene = try TunnelServerScene()
            let (host, settings) = (scene.world.host, try scene.settings())
            try host.run("ip", "tuntap", "add", "dev", settings.name, "mode", "tun")
            let network = try host.perform { try ServerNetwork(settings) }
            let (tun, _, _) = try await network.start(isMultiQueue: true)
            #expect(throws: TunnelIOError.self) { try tun.cloneQueue() }
            let lines = Mutex<[String]>([])
            var options = WireGuardDevice.Options(dataPath: DataPathOptions(layout: .many(lanes: 8)))
            options.log = { level, text in if level == .error { lines.withLock { $0.append(text) } } }
            let device = try host.perform {
                try WireGuardDevice(tun: tun, network: SystemDatagramNetwork(), options: options)
            }
            try device.start()
            #expect(device.layout == .single || device.layout == .perDirection)
            let logged = lines.withLock { $0 }
            #expect(logged.count == 1 && logged[0].hasPrefix("using 1 instead of 8 lanes"), "\(logged)")
            device.close()
            await network.stop()
        }

        @Test("Flushed rules are loaded again within a second, with all clients")
        func repaired() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            let table = "culvert_\(TunnelServerScene.name)"
            for (count, command) in [
                ["flush", "ruleset"], ["delete", "table", "inet", table], ["flush", "table", "inet", table],
                ["flush", "map", "inet", table, "clients4"],
                ["insert", "rule", "inet", table, "client", "accept"],
                ["add", "element", "inet", table, "clients4", "{ 10.66.0.99 : accept }"],
            ].enumerated() {
                let clock = ContinuousClock()
                let began = clock.now
                try run(["ip", "netns", "exec", scene.world.host.name, "nft"] + command)
                try eventually("\(command) is repaired", pollEvery: .milliseconds(2)) { network.repairs.count > count }
                let duration = clock.now - began
                print("flush: \(command.joined(separator: " ")): repaired after \(duration)")
                // The repair takes a fraction of a second on a machine that is not busy.
                #expect(duration < .seconds(5), "\(command)")
                // After the third loss of the table, forwarding resumes once it has been in effect for a second.
                try eventually("packets are forwarded", within: .seconds(5)) { !network.isHeld }
                #expect(try scene.pings("203.0.113.7", patience: 9), "\(command)")
                #expect(try scene.connects(to: "192.168.77.1", port: 53) == .refused, "\(command)")
                let map = try scene.world.host.run("nft", "list", "map", "inet", table, "clients4").output
                #expect(map.contains("10.66.0.3") && !map.contains("10.66.0.99"))
            }
            await scene.stop()
        }

        @Test(
            "Where the rules cannot be made again nothing is forwarded, until they can",
            .enabled(if: Privileged.isSandbox, "needs scripts/sandbox"))
        func held() async throws {
            let scene = try TunnelServerScene()
            let kernel = try scene.kernelSettings()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            let folder = try TemporaryFolder()
            let nft = try run(["sh", "-c", "command -v nft"]).output.split(separator: "\n").map(String.init)[0]
            try run(["cp", nft, "\(folder.path)/nft"])
            try run(["mount", "--bind", "/bin/false", nft])
            defer { _ = try? run(["umount", nft]) }
            try scene.world.host.run("\(folder.path)/nft", "flush", "ruleset")
            try eventually("nothing is forwarded", within: .seconds(2), pollEvery: .milliseconds(2)) { network.isHeld }
            #expect(try !scene.pings("203.0.113.7"))
            #expect(try !scene.pings("10.66.0.1"))
            // Forwarding has also stopped for other hosts, whose packets no rule blocks any longer.
            let others = ["203.0.113.7", "2001:db8:7::7"]
            for address in others { #expect(try !scene.pings(address, from: scene.neighbour), "\(address)") }
            try run(["umount", nft])
            try eventually("packets are forwarded again") { !network.isHeld }
            #expect(network.repairs.count > 0, "the repair counts although its first attempts failed")
            #expect(try scene.pings("203.0.113.7", patience: 9))
            #expect(try scene.pings("2001:db8:7::7", patience: 9))
            #expect(try scene.connects(to: "192.168.77.1", port: 53) == .refused)
            for address in others { #expect(try !scene.pings(address, from: scene.neighbour), "\(address)") }
            await scene.stop()
            #expect(try scene.kernelSettings() == kernel)
        }

        @Test("IPv6 that another program switches off on the interface is restored, with addresses and routes")
        func switchedOffIPv6() async throws {
            let scene = try TunnelServerScene()
            let log = RecordedLog()
            try await scene.start(
                scene.settings(), logger: Logger(label: "server") { RedactingLogHandler(label: $0, sinks: [log]) })
            let network = try #require(scene.network)
            #expect(try scene.pings("2001:db8:7::7", patience: 9))
            try scene.world.host.run("sysctl", "-qw", "net.ipv6.conf.\(TunnelServerScene.name).disable_ipv6=1")
            try eventually("IPv6 is restored", within: .seconds(20)) {
                network.repairs.last?.contains("\(TunnelServerScene.name)/disable_ipv6") == true
            }
            try eventually("clients use it", within: .seconds(20)) { try scene.pings("2001:db8:7::7") }
            #expect(network.state.problems.isEmpty)
            let problems = log.records.messages.map(\.message).filter { $0.contains("not in effect") }
            #expect(problems.isEmpty, "\(problems)")
            await scene.stop()
        }

        @Test("A renamed interface is reported, and clients are served again once it has its name")
        func renamedInterface() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            #expect(try scene.pings("203.0.113.7", patience: 9))
            let (host, name) = (scene.world.host, TunnelServerScene.name)
            func rename(_ old: String, _ new: String) throws {
                try host.run("ip", "link", "set", old, "down")
                try host.run("ip", "link", "set", old, "name", new)
                try host.run("ip", "link", "set", new, "up")
            }
            try rename(name, "other0")
            try eventually("it is reported", within: .seconds(5)) {
                network.state.problems.contains { $0.what.hasPrefix("interface \(name) is missing") }
            }
            try rename("other0", name)
            try eventually("everything is in effect", within: .seconds(20)) { network.state.isCurrent }
            #expect(try scene.pings("203.0.113.7", patience: 9))
            await scene.stop()
        }

        @Test(
            "A kernel that cannot count flows is a warning, and clients are served without the limit",
            .enabled(if: Privileged.isSandbox, "needs scripts/sandbox"))
        func withoutFlowLimit() async throws {
            let scene = try TunnelServerScene()
            var settings = try scene.settings()
            settings.flowsPerSource = 20
            let nft = try ReplacedProgram("nft", .refuses("ct count"))
            try await scene.start(settings)
            let network = try #require(scene.network)
            #expect(
                network.state.warnings.count == 1 && network.state.warnings.first?.contains("nft_connlimit") == true)
            #expect(network.state.isCurrent && network.state.problems.isEmpty)
            #expect(try scene.pings("203.0.113.7", patience: 9))
            await scene.stop()
            try nft.putBack()
            #expect(network.state.warnings.isEmpty)
        }

        @Test("Where IPv6 is switched off on the host, IPv4 works as ever")
        func withoutIPv6() async throws {
            let scene = try TunnelServerScene()
            try scene.world.host.run(
                "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
            try await scene.start(scene.settings())
            let started = try #require(scene.network)
            #expect(
                try await started.start(isMultiQueue: false).settings.addresses.map(\.description) == ["10.66.0.1/24"])
            #expect(try scene.pings("203.0.113.7", patience: 9))
            #expect(try scene.connects(to: "192.168.77.1", port: 53) == .refused)
            await scene.stop()
        }

        @Test("Segments are clamped to the tunnel, whatever both ends announce")
        func clamped() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let capture = try scene.world.router.start(
                "tcpdump", "-n", "-l", "-c", "1", "-i", "eth0", "tcp[tcpflags] & tcp-syn != 0 and dst port 4444")
            try capture.waitForOutput(containing: "listening on")
            // Give the interface the router's MTU, so that the client requests more than the tunnel carries.
            try scene.client.run("ip", "link", "set", "tun0", "mtu", "1500")
            _ = try scene.connects(to: "203.0.113.7", port: 4444)
            let line = try capture.wait().output
            #expect(line.contains("mss 1360"), "\(line)")
            await scene.stop()
        }

        /// Begins to admit a client. When this returns, the firewall has the client's address.
        private func beginAllowing(
            _ address: IPAddress, _ scene: TunnelServerScene
        ) throws -> (request: Task<Void, any Error>, isAnswered: Monitor<Bool>) {
            let network = try #require(scene.network)
            let isAnswered = Monitor(false)
            let request = Task {
                try await network.allow([address])
                isAnswered.update { isAnswered in
                    isAnswered = true
                    return true
                }
            }
            try eventually("the firewall knows the next client") {
                try scene.world.host.run("nft", "list", "ruleset").output.contains("\(address)")
            }
            return (request, isAnswered)
        }

        /// A regression test: earlier versions made all clients wait.
        @Test("A client waits for the end of connections only if it gets an address that another client had")
        func endsConnectionsMeanwhile() async throws {
            let scene = try TunnelServerScene()
            let ends = Monitor((networks: [IPPrefix](), isOpen: false))
            try await scene.start(try scene.settings()) { networks in
                ends.update { ends in
                    ends.networks += networks
                    return true
                }
                let deadline = LaneClock.now() + 30 * LaneClock.nanosecondsPerSecond
                _ = ends.wait(until: deadline) { $0.isOpen ? true : nil }
                return (0, nil)
            }
            let network = try #require(scene.network)
            let former = try IPAddress("10.66.0.3")
            let began = ContinuousClock.now
            try await network.remove([former])
            try eventually("the connections are being ended") {
                ends.withValue { $0.networks } == [IPPrefix(host: former)]
            }
            try await network.allow([try IPAddress("10.66.0.4")])
            let (next, isAnswered) = try beginAllowing(former, scene)
            try await network.allow([try IPAddress("10.66.0.5")])
            #expect(!isAnswered.withValue { $0 })
            #expect(ContinuousClock.now - began < .seconds(30))
            ends.update { ends in
                ends.isOpen = true
                return true
            }
            try await next.value
            #expect(isAnswered.withValue { $0 })
            await scene.stop()
        }

        @Test(
            "A client that gets an address whose connections were not ended waits for a second attempt, which may fail",
            arguments: [false, true])
        func secondAttempt(fails: Bool) async throws {
            let scene = try TunnelServerScene()
            // The networks of the attempts so far, and the number of attempts that may end.
            let attempts = Monitor((networks: [[IPPrefix]](), open: 0))
            func open(_ count: Int) {
                attempts.update { attempts in
                    attempts.open = count
                    return true
                }
            }
            try await scene.start(try scene.settings()) { (networks) throws(LinuxNetworkError) in
                let number = attempts.withValue { attempts in
                    attempts.networks.append(networks)
                    return attempts.networks.count
                }
                let deadline = LaneClock.now() + 30 * LaneClock.nanosecondsPerSecond
                _ = attempts.wait(until: deadline) { $0.open >= number ? true : nil }
                if number == 1 || number == 3 && fails {
                    throw LinuxNetworkError(.netlink(operation: "end connections"), errno: EBUSY)
                }
                return (0, nil)
            }
            let network = try #require(scene.network)
            let (former, other) = (try IPAddress("10.66.0.3"), try IPAddress("10.66.0.4"))
            func expectAttempt(_ number: Int, of address: IPAddress) throws {
                try eventually("attempt \(number) is made") { attempts.withValue { $0.networks.count } == number }
                #expect(attempts.withValue { $0.networks[number - 1] } == [IPPrefix(host: address)])
            }
            try await network.allow([other])
            try await network.remove([former])
            try expectAttempt(1, of: former)
            // The attempt for the other address begins after the first one has failed.
            try await network.remove([other])
            open(1)
            try expectAttempt(2, of: other)
            let (next, isAnswered) = try beginAllowing(former, scene)
            open(2)
            try expectAttempt(3, of: former)
            #expect(!isAnswered.withValue { $0 })
            open(.max)
            try await next.value
            #expect(isAnswered.withValue { $0 })
            await scene.stop()
        }

        @Test("Ten thousand clients are added, restored after a flush, and removed")
        func manyClients() async throws {
            let scene = try TunnelServerScene()
            var settings = try scene.settings()
            settings.addresses = [try InterfaceAddress("10.66.0.1/16"), try InterfaceAddress("fd66::1/64")]
            try await scene.start(settings)
            let network = try #require(scene.network)
            let ranges = try settings.addresses.map { try AddressRange(server: $0) }
            let clock = ContinuousClock()
            // Admit all clients together, as after a restart of the gateway.
            var leases: [[IPAddress]] = []
            // The first addresses are the server's own.
            for number in 1...10_000 as ClosedRange<UInt128> {
                leases.append(ranges.map { $0.address($0.usable.lowerBound + number) })
            }
            let joined = try await clock.measure {
                try await network.allow(leases.flatMap(\.self))
            }
            let one = try await clock.measure { try await network.allow([IPAddress("10.66.255.7")]) }
            let repairs = network.repairs.count
            try scene.world.host.run("nft", "flush", "ruleset")
            let began = clock.now
            try eventually("the table is there again", pollEvery: .milliseconds(2)) { network.repairs.count > repairs }
            let repaired = clock.now - began
            print(
                "clients: 10,000 let in within \(joined), one more within \(one), all loaded again \(repaired) after a flush"
            )
            // The rules that block everyone are loaded before the clients.
            #expect(repaired < .seconds(10))
            #expect(try scene.pings("203.0.113.7", patience: 9))
            let left = try await clock.measure { try await network.remove(leases.flatMap(\.self)) }
            print("clients: 10,000 put out within \(left)")
            #expect(try !scene.pings("203.0.113.7"))
            await scene.stop()
        }
    }
#endif
