// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import NetworkAddresses
    import PacketTunnel
    import PacketTunnelTesting
    import Testing
    import WireGuardCore
    import WireGuardDevice

    @testable import Gateway
    @testable import PacketTunnelLinux
    @testable import TunnelServer

    @Suite(
        "A server's firewall while nft fails", .enabled(if: Privileged.isAvailable && Privileged.isSandbox),
        .serialized,
        .timeLimit(.minutes(5)))
    struct ServerFaultTests {
        private func deny(_ network: String) throws -> [AccessRule] {
            [AccessRule(.deny, networks: [try IPPrefix(network)], transport: .tcp)]
        }

        /// Returns the words in nft's listing of the server's table. Elements are in no fixed order.
        private func listing(_ host: Namespace, by nft: String = "nft") throws -> [Substring] {
            try host.run(nft, "--stateless", "list", "table", "inet", "culvert_\(ServerRulesScene.name)").output
                .split { " ,\t\n".contains($0) }.sorted()
        }

        /// Clients, rules and a network that are added, changed and removed.
        private func cycle(_ scene: ServerRulesScene) async throws {
            let steps: [() async throws -> Void] = [
                { try await scene.allow("anna", try deny("198.51.100.0/24")) },
                { try await scene.allow("ben", subnets: ["192.168.50.0/24"], try deny("198.51.100.0/24")) },
                { try await scene.allow("anna", try deny("203.0.113.0/24")) },
                { try await scene.remove("ben", subnets: ["192.168.50.0/24"]) },
            ]
            for step in steps {
                do { try await step() } catch is TunnelServerError {
                    #expect(!scene.network.state.isCurrent && !scene.network.state.problems.isEmpty)
                }
                try eventually("the change is applied", within: .seconds(10)) { scene.network.state.isCurrent }
            }
        }

        @Test(
            "Where nft fails at any call, before or after the call takes effect, the kernel has the desired ruleset in the end",
            arguments: [false, true])
        func everyCall(takesEffect: Bool) async throws {
            let scene = try await ServerRulesScene()
            let host = scene.world.host
            // No call fails.
            let counted = try ReplacedProgram("nft", .failsAt(0...0, takesEffect: false))
            try await cycle(scene)
            let wanted = try listing(host, by: counted.original)
            let calls = counted.calls
            try counted.putBack()
            try #require(calls > 1)
            // The calls that repair a failure also fail.
            for (call, length) in (1...calls).flatMap({ call in [0, 1, 2].map { (call, $0) } }) {
                await scene.network.stop()
                _ = try await scene.network.start(isMultiQueue: false)
                let nft = try ReplacedProgram("nft", .failsAt(call...call + length, takesEffect: takesEffect))
                try await cycle(scene)
                try eventually("calls \(call) to \(call + length) are made up for", within: .seconds(10)) {
                    try listing(host, by: nft.original) == wanted && scene.network.state.isCurrent
                }
                #expect(try !scene.hasRoute(to: "192.168.50.0/24"))
                try nft.putBack()
            }
            await scene.stop()
        }

        /// A gateway that serves the device of the first client.
        private struct Served {
            let scene: GatewayTunnelScene
            let runtime: GatewayRuntime
            /// The device of the first client.
            let id: DeviceID
            let anna: GatewayClient
            let ben: GatewayClient

            init() async throws {
                scene = try GatewayTunnelScene()
                anna = try GatewayClient(in: scene.anna, addresses: ["10.66.0.2"])
                ben = try GatewayClient(in: scene.ben, addresses: ["10.66.0.3"])
                id = try scene.source.set(key: anna.key.publicKey, addresses: ["10.66.0.2"])
                try await scene.start()
                runtime = try #require(scene.runtime)
                for client in [anna, ben] { try client.use(scene.source.serverKeys.current.publicKey) }
                #expect(try anna.pings("203.0.113.7", patience: 9))
            }

            /// Denies the first client a network while nft fails. The rule has two networks, and so a set, for which the
            /// gateway needs nft.
            func deny(_ network: String, while failure: ReplacedProgram.Replacement) throws -> ReplacedProgram {
                let nft = try ReplacedProgram("nft", failure)
                let networks = try [network, "192.0.2.128/25"].map { try IPPrefix($0) }
                scene.source.setRules(id, [AccessRule(.deny, networks: networks)])
                return nft
            }

            /// Adds the second client's device, and expects that the gateway serves it.
            func addBen() throws {
                try scene.source.set(key: ben.key.publicKey, addresses: ["10.66.0.3"])
                try scene.settled()
                #expect(try ben.pings("203.0.113.7", patience: 9))
            }
        }

        @Test(
            "A rule that nft fails to add takes effect within five seconds of nft's return, and until then is reported")
        func lostRule() async throws {
            let gateway = try await Served()
            let (scene, runtime, anna) = (gateway.scene, gateway.runtime, gateway.anna)
            let nft = try gateway.deny("203.0.113.0/24", while: .fails)
            try eventually("the gateway is not ready", within: .seconds(2)) { !runtime.readiness.isReady }
            #expect(runtime.readiness.problems.contains { $0.what.hasPrefix("the firewall: ") })
            try nft.putBack()
            try eventually("the gateway is ready", within: .seconds(5)) { runtime.readiness.isReady }
            #expect(try !anna.pings("203.0.113.7"))
            // A change for another device succeeds.
            try gateway.addBen()
            #expect(try !anna.pings("203.0.113.7"))
            try await scene.stop()
        }

        @Test("A firewall whose state stays unknown stops forwarding after five seconds, which is reported")
        func unknownForLong() async throws {
            let gateway = try await Served()
            let (scene, runtime, anna) = (gateway.scene, gateway.runtime, gateway.anna)
            let nft = try gateway.deny("203.0.113.0/24", while: .fails)
            let duration = try eventually("nothing is forwarded", within: .seconds(9)) { scene.figures.network.isHeld }
            #expect(duration > .seconds(3))
            #expect(runtime.readiness.problems.contains { $0.what.contains("nothing is forwarded") })
            #expect(try !anna.pings("10.66.0.1"))
            try nft.putBack()
            try eventually("the gateway is ready", within: .seconds(5)) { runtime.readiness.isReady }
            // The gateway starts the handshake: the sessions ended with the interface.
            #expect(try anna.pings("10.66.0.1", patience: 5) && !anna.pings("203.0.113.7"))
            try await scene.stop()
        }

        @Test("A device is removed, and gets a rule for one network, while nft fails")
        func withoutNFT() async throws {
            let gateway = try await Served()
            let (scene, runtime, anna) = (gateway.scene, gateway.runtime, gateway.anna)
            try gateway.addBen()
            // Comparisons of the table need nft, so that the gateway may report a problem.
            let nft = try ReplacedProgram("nft", .fails)
            scene.source.setRules(gateway.id, [AccessRule(.deny, networks: [try IPPrefix("203.0.113.0/24")])])
            try eventually("the rule is in effect", within: .seconds(2)) { try !anna.pings("203.0.113.7") }
            #expect(try gateway.ben.pings("203.0.113.7", patience: 3))
            scene.source.remove(gateway.id)
            try eventually("the firewall has no element of the device", within: .seconds(2)) {
                let map = try scene.world.host.run(nft.original, "list", "map", "inet", "culvert_gw0", "clients4")
                return !map.output.contains("10.66.0.2 ")
            }
            try nft.putBack()
            try eventually("the gateway is ready", within: .seconds(5)) { runtime.readiness.isReady }
            try await scene.stop()
        }

        @Test("If nft hangs, forwarding stops when its time limit has passed, and resumes after nft's return")
        func hangs() async throws {
            let gateway = try await Served()
            let (scene, runtime, anna) = (gateway.scene, gateway.runtime, gateway.anna)
            let nft = try gateway.deny("203.0.113.0/24", while: .hangs)
            let duration = try eventually("nothing is forwarded", within: .seconds(16)) { scene.figures.network.isHeld }
            #expect(duration > .seconds(5))
            try nft.putBack()
            try eventually("the gateway is ready", within: .seconds(15)) { runtime.readiness.isReady }
            // The gateway starts the handshake: the sessions ended with the interface.
            #expect(try anna.pings("10.66.0.1", patience: 5) && !anna.pings("203.0.113.7"))
            try await scene.stop()
        }

        @Test("If the table is deleted while nft hangs, no packet is forwarded until nft has loaded all rules again")
        func deletedWhileHanging() async throws {
            let gateway = try await Served()
            let (scene, runtime, anna) = (gateway.scene, gateway.runtime, gateway.anna)
            let host = scene.world.host
            let nft = try ReplacedProgram("nft", .hangs)
            _ = try host.run(nft.original, "delete", "table", "inet", "culvert_gw0")
            // The gateway may apply this change before it reads the notice of the deletion.
            scene.source.setRules(gateway.id, [AccessRule(.deny, networks: [try IPPrefix("198.51.77.0/24")])])
            try eventually("nothing is forwarded", within: .seconds(5)) { try !anna.pings("203.0.113.7") }
            // Longer than nft's time limit. A change of the devices must not resume forwarding either.
            let end = ContinuousClock.now + .seconds(25)
            try scene.source.set(key: gateway.ben.key.publicKey, addresses: ["10.66.0.3"])
            while ContinuousClock.now < end {
                let passes = try anna.pings("203.0.113.7")
                try #require(!passes)
            }
            try nft.putBack()
            try eventually("the gateway is ready", within: .seconds(15)) { runtime.readiness.isReady }
            #expect(try anna.pings("203.0.113.7", patience: 9))
            try await scene.stop()
        }

        @Test("If the table is deleted while nft already hangs, forwarding stops long before nft's time limit")
        func deletedDuringHang() async throws {
            let gateway = try await Served()
            let (scene, runtime) = (gateway.scene, gateway.runtime)
            let nft = try gateway.deny("198.51.77.0/24", while: .hangs)
            try eventually("nft runs", within: .seconds(5)) { nft.hasStarted }
            _ = try scene.world.host.run(nft.original, "delete", "table", "inet", "culvert_gw0")
            let duration = try eventually("nothing is forwarded", within: .seconds(3), pollEvery: .milliseconds(2)) {
                scene.figures.network.isHeld
            }
            print("server: forwarding stopped \(duration) after the deletion of the table, while nft hung")
            #expect(try !gateway.anna.pings("203.0.113.7"))
            try nft.putBack()
            try eventually("the gateway is ready", within: .seconds(25)) { runtime.readiness.isReady }
            #expect(try gateway.anna.pings("203.0.113.7", patience: 9))
            try await scene.stop()
        }

        @Test("On a host that forwards by itself, the interface is taken down as soon as the table is deleted")
        func deletedOnForwardingHost() async throws {
            let scene = try TunnelServerScene()
            let host = scene.world.host
            try host.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            #expect(try scene.pings("203.0.113.7", patience: 9))
            let nft = try ReplacedProgram("nft", .hangs)
            _ = try host.run(nft.original, "delete", "table", "inet", "culvert_\(TunnelServerScene.name)")
            let duration = try eventually("the interface is down", within: .seconds(3), pollEvery: .milliseconds(2)) {
                try network.isHeld
                    && host.run("ip", "-o", "link", "show", "up", "dev", TunnelServerScene.name).output.isEmpty
            }
            print("server: the interface was down \(duration) after the deletion of the table, while nft hung")
            #expect(try !scene.pings("10.66.0.1"))
            // The host's own forwarding continues.
            #expect(try scene.pings("203.0.113.7", from: scene.neighbour, patience: 9))
            try nft.putBack()
            try eventually("packets are forwarded again", within: .seconds(25)) { !network.isHeld }
            #expect(network.repairs.count > 0)
            for address in ["203.0.113.7", "2001:db8:7::7"] {
                #expect(try scene.pings(address, patience: 9), "\(address)")
            }
            #expect(try scene.connects(to: "192.168.77.1", port: 53) == .refused)
            await scene.stop()
        }

        @Test("Deleted rules are noticed even if a client has more rules than were deleted")
        func deletedAmongClients() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let network = try #require(scene.network)
            let rules = try (1...20).flatMap { try deny("198.51.77.\($0)/32") }
            try await network.allow([try IPAddress("10.66.0.2")], rules: rules)
            let nft = try ReplacedProgram("nft", .hangs)
            let table = "culvert_\(TunnelServerScene.name)"
            _ = try scene.world.host.run(nft.original, "flush", "chain", "inet", table, "forwarding")
            try eventually("nothing is forwarded", within: .seconds(3), pollEvery: .milliseconds(2)) { network.isHeld }
            try nft.putBack()
            try eventually("everything is in effect", within: .seconds(25)) { network.state.isCurrent }
            #expect(try scene.pings("203.0.113.7", patience: 9))
            #expect(try !scene.pings("203.0.113.7", from: scene.neighbour))
            await scene.stop()
        }

        @Test("Forwarding that another process enables while the firewall is lost is stopped again")
        func enabledWhileHeld() async throws {
            let scene = try TunnelServerScene()
            try await scene.start(scene.settings())
            let (network, host) = (try #require(scene.network), scene.world.host)
            let nft = try ReplacedProgram("nft", .fails)
            _ = try host.run(nft.original, "delete", "table", "inet", "culvert_\(TunnelServerScene.name)")
            func waitUntilOff(_ words: String) throws {
                try eventually(words, within: .seconds(5)) {
                    try host.run("sysctl", "-n", "net.ipv4.ip_forward").output == "0\n"
                }
            }
            try waitUntilOff("the host does not forward")
            try host.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
            try waitUntilOff("the host no longer forwards")
            try nft.putBack()
            try eventually("everything is in effect", within: .seconds(20)) { network.state.isCurrent }
            #expect(try scene.pings("203.0.113.7", patience: 9))
            await scene.stop()
        }

        @Test(
            "Two servers with one folder of journals stop the host's forwarding if both tables are deleted or flushed",
            arguments: [
                ["flush ruleset"],
                [TunnelServerScene.name, "srv1"].map { "flush table inet culvert_\($0)" },
            ])
        func bothDeleted(_ commands: [String]) async throws {
            let scene = try TunnelServerScene()
            let host = scene.world.host
            try await scene.start(scene.settings())
            let second = try await scene.addServer()
            let nft = try ReplacedProgram("nft", .hangs)
            for command in commands { _ = try host.run(nft.original, command) }
            try eventually("the host does not forward", within: .seconds(3)) {
                try host.run("sysctl", "-n", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding").output == "0\n0\n"
            }
            for address in ["203.0.113.7", "2001:db8:7::7"] {
                #expect(try !scene.pings(address, from: scene.neighbour), "\(address)")
            }
            try nft.putBack()
            for client in [scene.client, second.client] {
                try eventually("clients are served again", within: .seconds(40)) {
                    try scene.pings("203.0.113.7", from: client)
                }
            }
            #expect(try !scene.pings("203.0.113.7", from: scene.neighbour))
            await scene.stop()
            try await second.stop()
        }

        @Test("If the interface is missing when the firewall is in effect again, the log does not report forwarding")
        func missingInterface() async throws {
            let scene = try TunnelServerScene()
            let (host, name, log) = (scene.world.host, TunnelServerScene.name, RecordedLog())
            try await scene.start(
                scene.settings(), logger: Logger(label: "server") { RedactingLogHandler(label: $0, sinks: [log]) })
            let network = try #require(scene.network)
            let nft = try ReplacedProgram("nft", .fails)
            _ = try host.run(nft.original, "delete", "table", "inet", "culvert_\(name)")
            try eventually("the interface is down", within: .seconds(5)) {
                try host.run("ip", "-o", "link", "show", "up", "dev", name).output.isEmpty
            }
            try host.run("ip", "link", "set", name, "name", "other0")
            try nft.putBack()
            try eventually("the interface is reported", within: .seconds(20)) {
                network.state.problems.contains { $0.what.hasPrefix("interface \(name) is missing") }
            }
            func messages() -> [String] { log.records.messages.map(\.message) }
            #expect(messages().contains { $0.contains("nothing is forwarded: interface \(name) is missing") })
            #expect(!messages().contains { $0.contains("packets are forwarded") }, "\(messages())")
            try host.run("ip", "link", "set", "other0", "name", name)
            try eventually("everything is in effect", within: .seconds(20)) { network.state.isCurrent }
            #expect(try scene.pings("203.0.113.7", patience: 9))
            await scene.stop()
        }

        @Test("A rule that nft refuses excludes its device only, which is named and has no traffic")
        func refused() async throws {
            let gateway = try await Served()
            let (scene, runtime, id, anna) = (gateway.scene, gateway.runtime, gateway.id, gateway.anna)
            let nft = try gateway.deny("198.51.77.0/24", while: .refuses("198.51.77.0"))
            try eventually("the device is named", within: .seconds(5)) {
                runtime.readiness.exclusions.contains { $0.what.contains("\(id)") && $0.what.contains("10.66.0.2") }
            }
            #expect(try !anna.pings("203.0.113.7"))
            try gateway.addBen()
            #expect(runtime.readiness.isReady)
            try nft.putBack()
            try eventually("the device is in again", within: .seconds(6)) { runtime.readiness.exclusions.isEmpty }
            #expect(try anna.pings("203.0.113.7", patience: 9))
            try await scene.stop()
        }
    }
#endif
