// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Logging
    import PacketTunnelTesting
    import Testing
    import TunnelIO

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    extension CulvertUpTests {
        /// Policy rules that another program inserts before the tunnel's rules, or deletes repeatedly.
        @Suite("Policy rules of other programs", .timeLimit(.minutes(5)))
        struct RuleOrderTests {
            private static let far = "8.8.8.8"
            private static let far6 = "2001:db8:7::7"

            private func setRule(_ scene: CulvertUpScene, _ command: String, preference: Int = 10) throws {
                for family in ["-4", "-6"] {
                    try scene.world.host.run(
                        "ip", family, "rule", command, "from", "all", "table", "main", "preference", "\(preference)")
                }
            }

            @Test(
                "The tunnel's rules move in front of another program's rule within a second, even if nft fails",
                arguments: ["enforced", "everything"])
            func ruleInFront(_ policy: String) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", policy)
                try scene.ping()
                try setRule(scene, "add")
                // One second is promised. Each poll starts several programs.
                try eventually("the tunnel's rules are in front", within: .seconds(3)) {
                    try scene.way(to: Self.far) == scene.name && scene.way(to: Self.far6) == scene.name
                }
                try scene.ping()
                #expect(try scene.problems().isEmpty)
                let log = try scene.succeed("log", scene.name)
                #expect(
                    log.contains("rule with preference 10 for table 254 was in front of the tunnel's rules"), "\(log)")
                // Insert a rule before the tunnel's again, now without a firewall.
                let nft = try ReplacedProgram("nft", .fails, of: scene.processes.first)
                try setRule(scene, "add", preference: 4)
                try scene.world.host.run(nft.original, "delete", "table", "inet", "culvert_\(scene.name)")
                try eventually("the tunnel's rules are in front, and hold back", within: .seconds(3)) {
                    let rules = try scene.world.host.run("ip", "rule").output
                    return try rules.contains("prohibit") && scene.way(to: Self.far) == scene.name
                        && scene.way(to: Self.far6) == scene.name
                }
                try scene.expectNothingLeaves(to: Self.far)
                try nft.putBack()
                try eventually("the firewall is back", within: .seconds(5)) {
                    try scene.hasTable() && scene.problems().isEmpty
                }
                try scene.ping()
                try scene.succeed("down", scene.name)
                for preference in [4, 10] { try setRule(scene, "delete", preference: preference) }
                try scene.expectUnchanged()
            }

            @Test("If a rule leaves no room in front, status names it, and nothing leaves even without a firewall")
            func noRoom() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "everything")
                try scene.ping()
                try setRule(scene, "add", preference: 1)
                try eventually("status names the rule", within: .seconds(5)) {
                    let problems = try scene.problems()
                    return problems.contains { $0.contains("IPv4 rule with preference 1 ") }
                        && problems.contains { $0.contains("ip -6 rule delete preference 1'") }
                }
                let nft = try ReplacedProgram("nft", .fails, of: scene.processes.first)
                try scene.world.host.run(nft.original, "delete", "table", "inet", "culvert_\(scene.name)")
                try eventually("packets are refused", within: .seconds(3)) {
                    try ["-4", "-6"].allSatisfy { family in
                        try scene.world.host.run("ip", family, "rule").output.split(separator: "\n")
                            .contains { $0.hasPrefix("0:") && $0.contains("prohibit") }
                    }
                }
                try scene.expectNothingLeaves(to: Self.far)
                try setRule(scene, "delete", preference: 1)
                try nft.putBack()
                try eventually("all is in effect", within: .seconds(5)) {
                    try scene.hasTable() && scene.problems().isEmpty && scene.way(to: Self.far) == scene.name
                }
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("If a rule has preference 0, status names it with its table, and the firewall holds back packets")
            func firstPreference() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "everything")
                try scene.ping()
                try setRule(scene, "add", preference: 0)
                try eventually("status names the rule", within: .seconds(5)) {
                    let problems = try scene.problems()
                    return problems.contains { $0.contains("IPv4 rule with preference 0 ") }
                        && problems.contains { $0.contains("ip -6 rule delete preference 0 table 254'") }
                }
                #expect(try !scene.succeed("log", scene.name).contains("which have moved"))
                try scene.expectNothingLeaves(to: Self.far)
                for family in ["-4", "-6"] {
                    try scene.world.host.run("ip", family, "rule", "delete", "preference", "0", "table", "254")
                }
                try eventually("the problem is solved", within: .seconds(5)) { try scene.problems().isEmpty }
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            @Test("Where only routes decide, a rule in front by which packets leave outside the tunnel is a problem")
            func routeBased() throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "route-based")
                try scene.ping()
                // An exception for some packets is not a problem.
                try scene.world.host.run(
                    "ip", "rule", "add", "to", "203.0.113.0/24", "table", "main", "preference", "9")
                try setRule(scene, "add")
                try eventually("status names the rule", within: .seconds(5)) {
                    try scene.problems().contains {
                        $0.contains("IPv4 rule with preference 10 ")
                            && $0.contains("'ip rule delete preference 10'")
                    }
                }
                #expect(try !scene.problems().contains { $0.contains("preference 9") })
                try setRule(scene, "delete")
                try eventually("the problem is solved", within: .seconds(5)) { try scene.problems().isEmpty }
                try scene.world.host.run("ip", "rule", "delete", "preference", "9")
                try scene.ping()
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }

            /// The rules that replace the firewall, as the kernel lists them.
            private func prohibitions(_ scene: CulvertUpScene) throws -> [PolicyRule] {
                try scene.world.host.perform {
                    let netlink = try RouteSocket()
                    return try [false, true].flatMap { try netlink.rules(isIPv6: $0) }.map(\.rule)
                        .filter(\.isProhibition)
                }
            }

            @Test(
                "Rules in place of the firewall that are deleted each time are back within milliseconds",
                arguments: [ReplacedProgram.Replacement.fails, .hangs])
            func deletedEachTime(_ replacement: ReplacedProgram.Replacement) throws {
                let scene = try CulvertUpScene()
                try scene.succeed("up", try scene.writeFile(), "--leak-policy", "enforced")
                try scene.ping()
                let nft = try ReplacedProgram("nft", replacement, of: scene.processes.first)
                try scene.world.host.run(nft.original, "delete", "table", "inet", "culvert_\(scene.name)")
                try eventually("rules hold back", within: .seconds(1)) { try prohibitions(scene).count == 2 }
                let count = 30
                // The time that the test itself needs on this machine.
                let own = try ContinuousClock().measure { for _ in 0..<count * 3 { _ = try prohibitions(scene) } }
                let began = ContinuousClock.now
                for _ in 0..<count {
                    let rules = try prohibitions(scene)
                    try scene.world.host.perform {
                        let netlink = try RouteSocket()
                        for rule in rules { try netlink.remove(rule) }
                    }
                    try eventually("the rules are back", within: .seconds(1), pollEvery: .milliseconds(1)) {
                        try prohibitions(scene).count == 2
                    }
                }
                // Checks alone, every quarter of a second, would take twice as long.
                let time = ContinuousClock.now - began
                #expect(time < .milliseconds(125 * count) + own * 2, "\(time), and the test alone \(own)")
                print("\(replacement): \(count) deletions of the rules were undone within \(time)")
                try scene.expectNothingLeaves(to: Self.far)
                try nft.putBack()
                try eventually("the firewall is back", within: .seconds(15)) { try scene.hasTable() }
                try scene.succeed("down", scene.name)
                try scene.expectUnchanged()
            }
        }
    }

    extension LinuxHostTests {
        @Suite("Deleted rules", .timeLimit(.minutes(1)))
        struct DeletedRulesTests {
            /// The rules of the tunnel, by its table.
            private func rules(_ world: LinuxHostWorld, _ mark: UInt32) throws -> [PolicyRule] {
                try world.host.perform {
                    let netlink = try RouteSocket()
                    return try [false, true].flatMap { try netlink.rules(isIPv6: $0) }.map(\.rule)
                        .filter { $0.table == mark && $0.isInverted }
                }
            }

            private func delete(_ rules: [PolicyRule], _ world: LinuxHostWorld) throws {
                try world.host.perform {
                    let netlink = try RouteSocket()
                    for rule in rules { try netlink.remove(rule) }
                }
            }

            @Test("A running platform restores its rules each time; one that is torn down or dropped restores none")
            func endsWithItsHost() async throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let settings = try LinuxHostWorld.settings(.enforcedRoutes, local: true)
                for isTornDown in [true, false] {
                    var platform: LinuxPlatform? = try world.host.perform {
                        try LinuxPlatform(
                            name: LinuxHostWorld.tunnel, options: world.options,
                            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                            owner: LinuxHostWorld.dead, wrap: { $0 })
                    }
                    try await platform?.prepare(.enforcedRoutes)
                    let device = try await platform?.apply(settings)
                    let mark = try #require(platform?.socketMark)
                    let count = 20
                    // The time that the test itself needs on this machine.
                    let own = try ContinuousClock().measure { for _ in 0..<count * 3 { _ = try rules(world, mark) } }
                    let began = ContinuousClock.now
                    for _ in 0..<count {
                        let present = try rules(world, mark)
                        #expect(present.count == 2)
                        try delete(present, world)
                        try eventually("the rules are back", within: .seconds(1), pollEvery: .milliseconds(1)) {
                            try rules(world, mark).count == 2
                        }
                    }
                    let time = ContinuousClock.now - began
                    #expect(time < .milliseconds(125 * count) + own * 2, "\(time), and the test alone \(own)")
                    if isTornDown { await platform?.tearDown(leavingBlocked: false) }
                    platform = nil
                    if isTornDown {
                        #expect(try rules(world, mark).isEmpty)
                        try world.expectUnchanged(since: before)
                        continue
                    }
                    try delete(rules(world, mark), world)
                    let isRestored = try await waitUntil(timeout: .milliseconds(500), pollEvery: .milliseconds(5)) {
                        try !rules(world, mark).isEmpty
                    }
                    #expect(!isRestored)
                    device?.close()
                    _ = try world.cleanUp()
                    try world.expectUnchanged(since: before)
                }
            }
        }
    }
#endif
