// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import PacketTunnelTesting
import Testing

@testable import PacketTunnelLinux

@Suite("How packets are routed into a tunnel")
struct RoutingPlanTests {
    private static let numbers = RoutingNumbers(mark: 51_820, priority4: 100, priority6: 200)

    private static func prefixes(_ text: String) throws -> [IPPrefix] {
        try text.split(separator: " ").map { try IPPrefix(String($0)) }
    }

    private func plan(
        _ included: String, without excluded: String = "", local: Bool, server: String = "192.0.2.1",
        policy: LeakPolicy = .routeBased
    ) throws -> RoutingPlan {
        RoutingPlan(
            settings: TunnelSettings(
                remoteAddress: server, addresses: [try InterfaceAddress("10.9.0.2/24")],
                includedRoutes: try Self.prefixes(included), excludedRoutes: try Self.prefixes(excluded),
                allowsLocalNetwork: local, leakPolicy: policy),
            interface: LinuxSamples.interface, numbers: Self.numbers)
    }

    private func text(_ steps: [Change]) -> [String] {
        steps.map { step in
            switch step {
            case .route(let route):
                "\(route.kind == .unicast ? "" : "\(route.kind) ")\(route.destination) in \(route.table)"
            case .rule(let rule): "\(rule)"
            case .setting(let path, let value): "\(path.split(separator: "/").last ?? "")=\(value)"
            default: "?"
            }
        }
    }

    @Test("Everything, as wg-quick does it")
    func everything() throws {
        #expect(
            text(try plan("0.0.0.0/0 ::/0", local: true).steps()) == [
                "src_valid_mark=1", "0.0.0.0/0 in 51820",
                "IPv4 rule 100: table 254 suppress_prefixlength 0", "IPv4 rule 101: not mark 51820 table 51820",
                "::/0 in 51820",
                "IPv6 rule 200: table 254 suppress_prefixlength 0", "IPv6 rule 201: not mark 51820 table 51820",
            ])
    }

    @Test("For all packets with the local network, the tunnel's table is searched first")
    func everythingLocal() throws {
        #expect(
            text(try plan("0.0.0.0/0 10.0.0.0/8", without: "10.1.0.0/16", local: false).steps()) == [
                "src_valid_mark=1", "throw 10.1.0.0/16 in 51820", "0.0.0.0/0 in 51820", "10.0.0.0/8 in 51820",
                "IPv4 rule 101: not mark 51820 table 51820",
            ])
    }

    @Test("Under a strict policy the local network is an exception in the tunnel's table")
    func everythingStrict() throws {
        var plan = try plan("10.0.0.0/8", without: "10.1.0.0/16", local: true, policy: .enforcedRoutes)
        plan.localNetworks = try Self.prefixes("10.2.0.0/16 10.1.0.0/16 192.168.7.0/24")
        #expect(
            text(plan.steps()) == [
                "src_valid_mark=1", "throw 10.1.0.0/16 in 51820", "throw 10.2.0.0/16 in 51820",
                "10.0.0.0/8 in 51820", "IPv4 rule 101: not mark 51820 table 51820",
            ])
    }

    @Test("Routes for some networks are in the main table, without rules, mark or setting")
    func specific() throws {
        #expect(
            text(try plan("10.50.0.0/16 10.9.0.0/24 fd00::/8", local: true).steps()) == [
                "10.50.0.0/16 in 254", "fd00::/8 in 254",
            ])
    }

    @Test("In the main table, excluded networks and the server are left out of included networks")
    func specificWithout() throws {
        #expect(
            text(
                try plan("10.0.0.0/30 172.16.0.0/16", without: "10.0.0.1", local: true, server: "10.0.0.2").steps())
                == ["10.0.0.0/32 in 254", "10.0.0.3/32 in 254", "172.16.0.0/16 in 254"])
    }

    @Test("A network with a server is in the tunnel's own table, after more specific routes of the main table")
    func serverInside() throws {
        var plan = try plan("200.0.0.0/5 10.50.0.0/16 fd00::/8", without: "203.0.113.0/25", local: true, server: "name")
        plan.settings.serverAddresses = [.v4(203, 0, 113, 7), .v4(192, 0, 2, 1)]
        #expect(
            text(plan.steps()) == [
                "src_valid_mark=1", "throw 203.0.113.0/25 in 51820", "200.0.0.0/5 in 51820",
                "IPv4 rule 100: table 254 suppress_prefixlength 5", "IPv4 rule 101: not mark 51820 table 51820",
                "10.50.0.0/16 in 254", "fd00::/8 in 254",
            ])
        #expect(plan.usesOwnTable(isIPv6: false) && !plan.usesOwnTable(isIPv6: true))
        // In addition to the default route, which has its own rule.
        plan.settings.includedRoutes = try Self.prefixes("0.0.0.0/0 200.0.0.0/5 203.0.0.0/8 10.50.0.0/16")
        #expect(
            text(plan.steps()) == [
                "src_valid_mark=1", "throw 203.0.113.0/25 in 51820", "0.0.0.0/0 in 51820", "200.0.0.0/5 in 51820",
                "203.0.0.0/8 in 51820",
                "IPv4 rule 100: table 254 suppress_prefixlength 0", "IPv4 rule 101: not mark 51820 table 51820",
                "10.50.0.0/16 in 254",
            ])
    }

    @Test(
        "Allowed networks are exceptions to every route, to more specific ones as well", arguments: LeakPolicy.allCases)
    func allowed(_ policy: LeakPolicy) throws {
        for local in [true, false] {
            var plan = try plan("0.0.0.0/0 10.1.0.0/16", local: local, policy: policy)
            plan.settings.allowedNetworks = try Self.prefixes("10.0.0.0/8")
            let steps = text(plan.steps())
            #expect(steps.contains("throw 10.0.0.0/8 in 51820"))
            #expect(!steps.contains { $0.hasPrefix("10.1.0.0/16") }, "\(steps)")
            #expect(!plan.tunnelled.contains { $0.contains(IPAddress.v4(0x0a01_0203)) })
        }
    }

    @Test("Everything in two halves is everything")
    func halves() throws {
        let steps = text(try plan("0.0.0.0/1 128.0.0.0/1", local: true).steps())
        #expect(steps.contains("0.0.0.0/1 in 51820"))
        #expect(steps.contains("IPv4 rule 101: not mark 51820 table 51820"))
    }

    @Test("The policy for everything routes both families, whatever the routes are")
    func strict() throws {
        let plan = try plan("10.50.0.0/16", local: false, policy: .everything)
        #expect(plan.usesOwnTable(isIPv6: false) && plan.usesOwnTable(isIPv6: true))
        var without = plan
        without.carriesIPv6 = false
        #expect(without.usesOwnTable(isIPv6: true))
    }

    @Test("A table that was named has all routes, and nothing asks for it", arguments: [true, false])
    func namedTable(_ local: Bool) throws {
        var plan = try plan(
            "0.0.0.0/0 10.9.0.0/24 10.50.0.0/16 ::/0", without: "10.50.1.0/24 10.50.0.0/16 fd00::/8", local: local)
        plan.namedTable = 1234
        plan.localNetworks = try Self.prefixes("192.168.7.0/24")
        #expect(
            text(plan.steps()) == [
                "throw 10.50.1.0/24 in 1234", "throw 10.50.0.0/16 in 1234", "throw fd00::/8 in 1234",
                "0.0.0.0/0 in 1234", "10.9.0.0/24 in 1234", "::/0 in 1234",
            ])
        #expect(!plan.usesOwnTable(isIPv6: false) && !plan.usesOwnTable(isIPv6: true))
        plan.carriesIPv6 = false
        #expect(text(plan.steps()).last == "unreachable ::/0 in 1234")
    }

    @Test(
        "Packets that the tunnel's interface cannot carry are refused, and do not bypass it",
        arguments: LeakPolicy.allCases
    )
    func withoutIPv6(_ policy: LeakPolicy) throws {
        for included in ["0.0.0.0/0 ::/0", "10.50.0.0/16 fd00::/8"] {
            var plan = try plan(included, local: true, policy: policy)
            let tunnelled = plan.tunnelled
            plan.carriesIPv6 = false
            #expect(plan.tunnelled == tunnelled, "the firewall holds back the same")
            let routes = text(plan.steps()).filter { $0.contains("::") }
            #expect(!routes.isEmpty && routes.allSatisfy { $0.hasPrefix("unreachable ") }, "\(routes)")
        }
    }

    @Test(
        "Naming the main table equals no name: exceptions, server and default route are handled as usual")
    func mainTableByName() throws {
        #expect(LinuxHostOptions(routeTable: Route.mainTable).namedTable == nil)
        #expect(LinuxHostOptions(routeTable: 253).namedTable == 253)
        #expect(LinuxHostOptions().namedTable == nil)
    }

    @Test("Without included networks the host stays unchanged", arguments: [true, false])
    func nothing(_ local: Bool) throws {
        #expect(try plan("", local: local).steps().isEmpty)
    }

    @Test("The plan agrees with the settings for every address")
    func agreesWithSettings() throws {
        var random = SeededGenerator(seed: 4711)
        func prefix() throws -> IPPrefix {
            // Few bits, so that prefixes meet.
            let length = Int.random(in: 0...6, using: &random) + 26
            let address = IPAddress.v4(UInt32.random(in: 0x0a00_0000...0x0a00_003f, using: &random))
            return try #require(IPPrefix(address, length: length))
        }
        for _ in 0..<300 {
            let settings = TunnelSettings(
                remoteAddress: "server", addresses: [],
                includedRoutes: try (0..<Int.random(in: 0...4, using: &random)).map { _ in try prefix() },
                excludedRoutes: try (0..<Int.random(in: 0...4, using: &random)).map { _ in try prefix() })
            let plan = RoutingPlan(settings: settings, interface: LinuxSamples.interface, numbers: Self.numbers)
            for offset in UInt32(0)..<72 {
                let address = IPAddress.v4(0x0a00_0000 + offset)
                let isTunnelled = plan.tunnelled.contains { $0.contains(address) }
                #expect(
                    isTunnelled == (settings.trafficClass(of: address) == .included), "\(address) of \(settings)")
            }
        }
    }

    @Test("A requested mark is refused if another tunnel or table has it; rules may match it")
    func markTaken() throws {
        let rule = PolicyRule(isIPv6: false, priority: 1, table: 7, mark: 9)
        func problem(_ mark: UInt32, makesTable: Bool = true) -> LinuxNetworkError.Code? {
            do throws(LinuxNetworkError) {
                try RoutingNumbers.check(mark, others: [5], rules: [rule], tables: [6], makesTable: makesTable)
                return nil
            } catch {
                return error.code
            }
        }
        #expect(problem(5) == .markTaken(5, user: "another tunnel"))
        #expect(problem(6) == .markTaken(6, user: "the routing table of that number"))
        #expect(problem(7) == .markTaken(7, user: "a policy rule that asks the routing table of that number"))
        #expect([253, 254, 255].allSatisfy { problem($0) != nil })
        #expect(problem(9) == nil && problem(51_820) == nil)
        // With a table of the user's own, his rules have the mark, and only another tunnel's packets are in the way.
        #expect([6, 7, 9, 254].allSatisfy { problem($0, makesTable: false) == nil })
        #expect(problem(5, makesTable: false) != nil)
    }

    @Test("The first number that is not a table or a mark is chosen")
    func freeTable() throws {
        let rules = [
            PolicyRule(isIPv6: false, priority: 1, table: 51_821),
            PolicyRule(isIPv6: true, priority: 1, table: 254, mark: 51_822),
        ]
        #expect(try RoutingNumbers.freeTable(rules: [], tables: [254]) == 51_820)
        #expect(try RoutingNumbers.freeTable(rules: rules, tables: [51_820, 51_824]) == 51_823)
        let all = Set<UInt32>(51_820...60_000)
        #expect(throws: LinuxNetworkError(.noFreeTable(from: 51_820))) {
            try RoutingNumbers.freeTable(rules: [], tables: all)
        }
    }

    @Test("Three priorities are found in front of every rule but the first")
    func freePriority() throws {
        func rule(_ priority: UInt32) -> PolicyRule { PolicyRule(isIPv6: false, priority: priority, table: 254) }
        #expect(try RoutingNumbers.freePriority(before: [rule(0), rule(32_766), rule(32_767)]) == 32_763)
        #expect(try RoutingNumbers.freePriority(before: [rule(0), rule(5210), rule(32_766)]) == 5207)
        #expect(throws: LinuxNetworkError(.noFreeRulePriority)) {
            try RoutingNumbers.freePriority(before: [rule(0), rule(3)])
        }
    }
}

@Suite("Networks without excluded ones")
struct NetworkPrefixTests {
    @Test(
        "The rest of a network is as few networks as can be",
        arguments: [
            ("10.0.0.0/8", "", "10.0.0.0/8"), ("10.0.0.0/8", "10.0.0.0/8", ""), ("10.0.0.0/8", "0.0.0.0/0", ""),
            ("10.0.0.0/30", "10.0.0.1", "10.0.0.0/32 10.0.0.2/31"), ("10.0.0.0/8", "11.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.0/8", "::/0", "10.0.0.0/8"), ("fd00::/126", "fd00::3", "fd00::/127 fd00::2/128"),
            ("10.0.0.0/31", "10.0.0.0 10.0.0.1", ""),
        ])
    func subtracting(_ whole: String, _ others: String, _ rest: String) throws {
        let others = try others.split(separator: " ").map { try IPPrefix(String($0)) }
        let result = try IPPrefix(whole).subtracting(others)
        #expect(result.map(\.description).joined(separator: " ") == rest)
    }

    @Test("One address out of everything leaves one network for each of its bits")
    func oneOfAll() throws {
        #expect(IPPrefix.allIPv4.subtracting([try IPPrefix("1.2.3.4")]).count == 32)
        #expect(IPPrefix.allIPv6.subtracting([try IPPrefix("2001:db8::1")]).count == 128)
    }
}
