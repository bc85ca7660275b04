// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing

    @testable import PacketTunnelLinux
    @testable import TunnelServer

    @Suite(
        "Rules of a tunnel server's clients", .enabled(if: Privileged.isAvailable), .serialized, .timeLimit(.minutes(5))
    )
    struct ServerRulesTests {
        private func rule(
            _ action: AccessRule.Action, _ networks: [String] = [], _ transport: AccessRule.Transport = .any,
            _ ports: ClosedRange<UInt16>...
        ) throws -> AccessRule {
            AccessRule(action, networks: try networks.map { try IPPrefix($0) }, transport: transport, ports: ports)
        }

        @Test("A client's rules are evaluated in order, before the common policy, and apply to that client alone")
        func ordered() async throws {
            let scene = try await ServerRulesScene()
            try await scene.allow(
                "anna",
                [
                    rule(.allow, ["203.0.113.0/24"], .tcp, 443...443), rule(.deny, ["203.0.113.0/24"], .tcp),
                    rule(.allow, ["192.168.77.1/32"], .tcp, 80...90), rule(.deny, ["2001:db8:7::/64"], .icmp),
                    rule(.allow, ["10.66.0.1/32"], .tcp, 22...22), rule(.deny, ["10.55.1.1/32"], .any, 53...53),
                ])
            try await scene.allow("ben")
            let (anna, ben) = (scene.anna, scene.ben)
            #expect(try scene.pings("203.0.113.7", from: anna, patience: 9))
            #expect(try scene.pings("203.0.113.7", from: ben, patience: 9))
            func outcomes(_ address: String, _ port: Int) throws -> [TunnelServerScene.Outcome] {
                try [anna, ben].map { try scene.connects(from: $0, to: address, port: port) }
            }
            #expect(try outcomes("203.0.113.7", 443) == [.reached, .reached])
            #expect(try outcomes("203.0.113.7", 80) == [.refused, .reached])
            // A rule can allow one client something that the common policy denies.
            #expect(try outcomes("192.168.77.1", 80) == [.reached, .refused])
            #expect(try outcomes("192.168.77.1", 91) == [.refused, .refused])
            #expect(try outcomes("10.66.0.1", 22) == [.reached, .refused])
            #expect(try outcomes("10.66.0.1", 8080) == [.reached, .reached])
            // A rule can also deny something that the common policy allows.
            #expect(try outcomes("10.55.1.1", 53) == [.refused, .reached])
            #expect(try !scene.pings("2001:db8:7::7", from: anna))
            #expect(try scene.pings("2001:db8:7::7", from: ben, patience: 9))
            #expect(try scene.connects(from: anna, to: "2001:db8:7::7", port: 443) == .reached)
            await scene.stop()
        }

        @Test("No flow to a client can start except by its rules, from another client or elsewhere")
        func towards() async throws {
            let scene = try await ServerRulesScene()
            let (anna, ben, router, host) = (scene.anna, scene.ben, scene.world.router, scene.world.host)
            try router.run("ip", "route", "add", "10.66.0.0/24", "via", "192.0.2.2")
            try await scene.allow("anna")
            try await scene.allow("ben")
            #expect(try scene.pings("203.0.113.7", from: ben, patience: 9))
            #expect(try scene.connects(from: anna, to: "10.66.0.3", port: 8080) == .refused)
            #expect(try scene.connects(from: router, to: "10.66.0.3", port: 22) == .silent)
            // Flows that the server starts are answered.
            #expect(try scene.pings("10.66.0.3", from: host, patience: 9))
            try await scene.allow(
                "ben",
                [
                    rule(.deny, ["192.0.2.1/32"], .tcp, 23...23), rule(.allow, ["10.66.0.2/32"], .tcp, 8080...8080),
                    rule(.allow, ["192.0.2.0/24"], .tcp, 22...23), rule(.allow, ["fd66::2/128"], .icmp), rule(.deny),
                ].towardsClient)
            #expect(try scene.connects(from: anna, to: "10.66.0.3", port: 8080) == .reached)
            #expect(try scene.connects(from: anna, to: "10.66.0.3", port: 8081) == .refused)
            #expect(try scene.pings("fd66::3", from: anna, patience: 9))
            #expect(try !scene.pings("10.66.0.3", from: anna))
            #expect(try scene.connects(from: router, to: "10.66.0.3", port: 22) == .reached)
            #expect(try scene.connects(from: router, to: "10.66.0.3", port: 23) == .silent)
            #expect(try scene.pings("10.66.0.3", from: host, patience: 9))
            // This does not permit the opposite direction.
            #expect(try scene.connects(from: ben, to: "10.66.0.2", port: 8080) == .refused)
            #expect(try !scene.pings("fd66::2", from: ben))
            // The rules of both clients apply: the first client may not start the flow.
            try await scene.allow("anna", [rule(.deny, ["10.66.0.0/24"], .tcp)])
            #expect(try scene.connects(from: anna, to: "10.66.0.3", port: 8080) == .refused)
            // A rule that allows one client does not override the rules of the other.
            try await scene.allow("anna", [rule(.allow)])
            #expect(try scene.connects(from: anna, to: "10.66.0.3", port: 8080) == .reached)
            #expect(try scene.connects(from: anna, to: "10.66.0.3", port: 8081) == .refused)
            await scene.stop()
        }

        @Test("A network behind a client goes in and out as the client does, and its routes go with it")
        func subnet() async throws {
            let scene = try await ServerRulesScene()
            let (anna, ben, router) = (scene.anna, scene.ben, scene.world.router)
            let site = ServerRulesScene.site
            try await scene.allow("anna")
            try await scene.allow("ben")
            #expect(try !scene.hasRoute(to: "192.168.50.0/24"))
            #expect(try !scene.pings("203.0.113.7", from: ben, source: site))
            try await scene.allow(
                "ben", subnets: ["192.168.50.0/24"],
                [rule(.allow, ["10.66.0.2/32"], .tcp, 445...445)].towardsClient)
            #expect(try scene.hasRoute(to: "192.168.50.0/24"))
            // The packets have the server's address as source, because the router has no route back.
            #expect(try scene.pings("203.0.113.7", from: ben, source: site, patience: 9))
            #expect(try scene.connects(from: anna, to: site, port: 445) == .reached)
            #expect(try scene.connects(from: anna, to: site, port: 446) == .refused)
            // A packet with a source address in that network that arrives on another interface is dropped.
            try router.run("ip", "address", "add", "192.168.50.9/32", "dev", "lo")
            #expect(try !scene.pings("192.0.2.2", from: router, source: "192.168.50.9"))
            // Try networks that cannot be behind a client.
            for text in ["0.0.0.0/0", "10.66.0.0/25", "192.0.2.0/24", "192.168.50.128/25", "192.168.0.0/16"] {
                let prefix = try IPPrefix(text)
                await #expect(throws: TunnelServerError.self, "\(text)") {
                    try await scene.network.allow([], subnets: [prefix])
                }
            }
            // Routes that another process deletes are restored.
            try scene.world.host.run("ip", "route", "delete", "192.168.50.0/24")
            try eventually("the route is there again", pollEvery: .milliseconds(5)) {
                try scene.hasRoute(to: "192.168.50.0/24")
            }
            #expect(try scene.connects(from: anna, to: site, port: 445) == .reached)
            try await scene.remove("ben", subnets: ["192.168.50.0/24"])
            #expect(try !scene.hasRoute(to: "192.168.50.0/24"))
            #expect(try !scene.pings("203.0.113.7", from: ben, source: site))
            await scene.stop()
        }

        @Test("New rules end the flows that they forbid, in either direction, and other flows continue")
        func endsFlows() async throws {
            let scene = try await ServerRulesScene()
            let (anna, router) = (scene.anna, scene.world.router)
            try await scene.allow("anna")
            #expect(try scene.pings("203.0.113.7", from: anna, patience: 9))
            func flow(_ port: Int) throws -> HeldFlow {
                try HeldFlow(from: anna, to: router, at: "203.0.113.7", port: port)
            }
            let flows = try (7001...7005).map(flow)
            // A sender to the client that receives no answers.
            let sender = try TestSocket.datagrams(in: router, at: "203.0.113.7", port: 7100)
            let receiver = try TestSocket.datagrams(in: anna, at: "10.66.0.2")
            receiver.send([1], to: try SocketAddress("203.0.113.7", 7100))
            let client = try #require(sender.receive()).source
            sender.send([2], to: client)
            #expect(receiver.receive()?.bytes == [2])

            let clock = ContinuousClock()
            let took = try await clock.measure {
                try await scene.allow(
                    "anna",
                    [
                        rule(.deny, ["203.0.113.7/32"], .tcp, 7001...7002),
                        rule(.allow, ["203.0.113.7/32"], .tcp, 7003...7003),
                        rule(.deny, ["203.0.113.7/32"], .udp, 7100...7100),
                    ])
            }
            print("rules: one client's changed within \(took)")
            sender.send([3], to: client)
            // The next packet in each direction is the first to which the new rules apply.
            #expect(flows[0].ends(writingAt: true))
            #expect(flows[1].ends(writingAt: false))
            #expect(flows[2].carries(fromNear: false) && flows[2].carries(fromNear: true))
            #expect(flows[3].carries(fromNear: true) && flows[3].carries(fromNear: false))
            #expect(receiver.receive(within: .milliseconds(300)) == nil)
            // Refused flows continue once they are allowed again.
            try await scene.allow("anna")
            #expect(flows[3].carries(fromNear: false) && flows[4].carries(fromNear: false))
            sender.send([4], to: client)
            #expect(receiver.receive()?.bytes == [4])
            // A removed client has no flows in either direction.
            try await scene.remove("anna")
            #expect(!flows[2].carries(fromNear: true, within: .milliseconds(300)))
            #expect(!flows[4].carries(fromNear: false, within: .milliseconds(300)))
            await scene.stop()
        }

        @Test("Flows between clients end when either side's rules forbid them")
        func endsFlowsBetweenClients() async throws {
            let scene = try await ServerRulesScene()
            let open = [try rule(.allow, ["10.66.0.0/24"])].towardsClient
            try await scene.allow("anna", open)
            try await scene.allow("ben", open)
            let flows = try (7001...7003).map {
                try HeldFlow(from: scene.anna, to: scene.ben, at: "10.66.0.3", port: $0)
            }
            try await scene.allow(
                "ben", [rule(.deny, [], .tcp, 7001...7001), rule(.allow, ["10.66.0.2/32"])].towardsClient)
            #expect(flows[0].ends(writingAt: false))
            #expect(flows[1].carries(fromNear: false) && flows[1].carries(fromNear: true))
            try await scene.allow("anna", [rule(.deny, ["10.66.0.3/32"], .tcp, 7002...7002)])
            #expect(flows[1].ends(writingAt: false))
            #expect(flows[2].carries(fromNear: false) && flows[2].carries(fromNear: true))
            // No host can start a flow to anna now, but her answers still pass.
            #expect(try scene.connects(from: scene.ben, to: "10.66.0.2", port: 80) == .refused)
            await scene.stop()
        }

        @Test("Chains that another process flushes, changes or deletes are restored immediately, with all clients")
        func repaired() async throws {
            let scene = try await ServerRulesScene()
            let (network, host) = (scene.network, scene.world.host)
            try await scene.allow("anna", [rule(.deny, ["203.0.113.7/32"])])
            try await scene.allow(
                "ben", subnets: ["192.168.50.0/24"], [rule(.allow, ["10.66.0.2/32"])].towardsClient)
            let table = "culvert_\(ServerRulesScene.name)"
            let listing = try host.run("nft", "list", "table", "inet", table).output
            let chain = try #require(
                listing.split(separator: "\n").first {
                    $0.contains("10.66.0.2 : goto rules-") || $0.contains("10.66.0.2 : goto")
                })
            let name = try #require(chain.split(separator: " ").first { $0.hasPrefix("rules-") })
                .trimmingCharacters(in: CharacterSet(charactersIn: ",}"))
            for (count, command) in [
                ["flush", "chain", "inet", table, name], ["insert", "rule", "inet", table, name, "return"],
                ["flush", "ruleset"], ["add", "chain", "inet", table, "rules-mine"],
                ["delete", "element", "inet", table, "clientsNets4", "{ 192.168.50.0/24 }"],
                ["flush", "set", "inet", table, "behind4"],
                ["add", "element", "inet", table, "allowed4", "{ 192.168.77.0/24 }"],
            ].enumerated() {
                let clock = ContinuousClock()
                let began = clock.now
                try PrivilegedTests.run(["ip", "netns", "exec", host.name, "nft"] + command)
                try eventually("\(command) is repaired", pollEvery: .milliseconds(2)) { network.repairs.count > count }
                print("rules: \(command.joined(separator: " ")): repaired after \(clock.now - began)")
                #expect(try !scene.pings("203.0.113.7", from: scene.anna), "\(command)")
                #expect(try scene.pings("203.0.113.7", from: scene.ben, patience: 9), "\(command)")
                #expect(
                    try scene.pings("203.0.113.7", from: scene.ben, source: ServerRulesScene.site, patience: 9),
                    "\(command)")
                #expect(try scene.connects(from: scene.ben, to: "192.168.77.1", port: 80) == .refused, "\(command)")
                #expect(try scene.connects(from: scene.anna, to: "10.66.0.3", port: 80) == .reached, "\(command)")
            }
            // The server's own changes do not count as repairs.
            let repairs = network.repairs.count
            try await scene.allow("anna", [rule(.deny, ["203.0.113.8/32"])])
            #expect(try scene.pings("203.0.113.7", from: scene.anna, patience: 9))
            #expect(network.repairs.count == repairs)
            await scene.stop()
        }

        @Test("A new chain of rules that another process changes immediately gets its rules again")
        func changedImmediately() async throws {
            let scene = try await ServerRulesScene()
            let (host, table) = (scene.world.host, "culvert_\(ServerRulesScene.name)")
            try await scene.allow("anna", [rule(.deny, ["203.0.113.7/32"])])
            let listing = try host.run("nft", "--terse", "list", "table", "inet", table).output
            let chain = try #require(listing.split(separator: "\n").first { $0.hasPrefix("\tchain rules-") })
            let name = try #require(chain.split(separator: " ").dropFirst().first)
            try await scene.allow("anna")
            try await scene.allow("anna", [rule(.deny, ["203.0.113.7/32"])])
            // Replace a rule, so that the chain keeps its number of rules.
            try host.run("nft", "flush chain inet \(table) \(name); add rule inet \(table) \(name) return")
            try eventually("the chain has its rule") {
                try host.run("nft", "list", "chain", "inet", table, "\(name)").output.contains("203.0.113.7")
            }
            #expect(try !scene.pings("203.0.113.7", from: scene.anna))
            await scene.stop()
        }

        @Test("The connections of an address end when another client gets it with the same rules")
        func handedOn() async throws {
            let scene = try await ServerRulesScene()
            for name in ["anna", "ben"] { try await scene.allow(name) }
            for client in [scene.anna, scene.ben] { #expect(try scene.pings("203.0.113.7", from: client, patience: 9)) }
            let host = scene.world.host
            for address in ["10.66.0.2", "10.66.0.3"] { #expect(try !host.connections(of: address).isEmpty) }
            _ = try await scene.network.apply([:], released: [try IPPrefix("10.66.0.2")])
            #expect(try host.connections(of: "10.66.0.2").isEmpty)
            #expect(try !host.connections(of: "10.66.0.3").isEmpty)
            #expect(try scene.pings("203.0.113.7", from: scene.anna, patience: 9))
            await scene.stop()
        }

        @Test("Among ten thousand clients with a thousand lists of rules, a change takes effect within five seconds")
        func manyClients() async throws {
            let scene = try await ServerRulesScene { settings in
                settings.addresses = [.tenThousand]
            }
            let network = scene.network
            try await scene.allow("anna")
            let clock = ContinuousClock()
            func change(_ port: UInt16) async throws -> Duration {
                let rules = [try rule(.deny, ["203.0.113.7/32"], .tcp, port...port)]
                return try await clock.measure { try await scene.allow("anna", rules) }
            }
            var few: [Duration] = []
            for port in 1...9 as ClosedRange<UInt16> { few.append(try await change(port)) }
            let lists = try (0..<1000).map { number in
                [try rule(.deny, ["198.18.\(number / 250).\(number % 250)/32"])]
            }
            let joined = try await clock.measure {
                let clients = (0..<10_000 as Range<UInt32>).map { number in
                    let rules = lists[Int(number) % lists.count]
                    return (IPPrefix(host: .v4(0x0a42_1000 + number)), ClientAccess?.some(ClientAccess(rules: rules)))
                }
                let refused = try await network.apply(Dictionary(uniqueKeysWithValues: clients))
                #expect(refused.isEmpty)
            }
            var many: [Duration] = []
            for port in 11...19 as ClosedRange<UInt16> { many.append(try await change(port)) }
            few.sort()
            many.sort()
            print(
                "rules: 10,000 clients with 1,000 lists let in within \(joined); one change took \(few[4]) before "
                    + "(median of 9), \(many[4]) after (\(many[0]) to \(many[8]))")
            #expect(try scene.pings("203.0.113.7", from: scene.anna, patience: 9))
            #expect(many[4] < .seconds(5))
            await scene.stop()
        }
    }

    extension InterfaceAddress {
        /// An address range for many clients.
        fileprivate static var tenThousand: InterfaceAddress {
            InterfaceAddress(.v4(10, 66, 0, 1), prefixLength: 16) ?? InterfaceAddress(host: .v4(10, 66, 0, 1))
        }
    }
#endif
