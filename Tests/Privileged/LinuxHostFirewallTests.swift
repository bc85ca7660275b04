// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import PacketTunnel
    import Testing
    import TunnelIO

    @testable import PacketTunnelLinux

    extension LinuxHostTests {
        @Suite("A firewall table in the kernel", .timeLimit(.minutes(1)))
        struct FirewallTests {
            private static let name = LeakGuard.tableName(LinuxHostWorld.tunnel)
            /// The same table, which nft loads, and as messages.
            private static let tables: [FirewallTable] = {
                let rules = [UInt32(0xc633_6401), 0xc633_6402].map { address -> [FirewallChain.Statement] in
                    [.destination(.v4(address)), .drop]
                }
                let chains = [FirewallChain(name: "own", hook: .postrouting, priority: .mangle, rules: rules)]
                let messages = FirewallTable(name: name, chains: chains)
                return [FirewallTable(name: name, body: messages.body), messages]
            }()

            private func listing(_ world: LinuxHostWorld) throws -> String {
                try world.host.run("nft", "list", "table", "inet", Self.name).output
            }

            @Test("The listing of a table that messages loaded equals that of a table that nft loaded")
            func equal() throws {
                let world = try LinuxHostWorld()
                try world.host.perform {
                    let addresses = try ["10.9.0.2/24", "fd09::2/64"].map { try InterfaceAddress($0) }
                    let guardian = LeakGuard(
                        name: "a_name_of_15_by", policy: .routeBased, mark: 51_820,
                        settings: TunnelSettings(
                            remoteAddress: "192.0.2.1", addresses: addresses, includedRoutes: [.allIPv4]),
                        routesByMark: true)
                    let table = try #require(guardian.table)
                    func listed() throws -> String {
                        try world.host.run("nft", "list", "table", "inet", table.name).output
                    }
                    try SystemProgram.required("nft").check(table.options, input: table.script)
                    let wanted = try listed()
                    let socket = try #require(try FirewallSocket())
                    try FirewallSocket.load(table.name, try #require(table.chains), by: socket)
                    #expect(try listed() == wanted)
                    #expect(wanted.contains("fd09::2") && wanted.contains("ct mark set 0x0000ca6c"))
                }
            }

            @Test("A loaded table is in effect until a rule is lost", arguments: tables, [true, false])
            func inEffect(_ table: FirewallTable, _ exists: Bool) throws {
                let change = Change.firewall(table)
                let world = try LinuxHostWorld()
                // Loading replaces a table that another process has made.
                if exists {
                    try world.host.run("nft", "add table inet \(Self.name)")
                    try world.host.run("nft", "add chain inet \(Self.name) theirs")
                }
                try world.host.perform {
                    let network = try LinuxNetwork()
                    try network.make(change, .nothing)
                    for _ in 0..<2 { #expect(try network.missing(of: [change]).isEmpty) }
                    #expect(try !network.lacksRules(Self.name))
                    #expect(try !listing(world).contains("theirs"))
                    try world.host.run("nft", "flush chain inet \(Self.name) own")
                    #expect(try network.lacksRules(Self.name))
                    #expect(try network.missing(of: [change]) == [change])
                }
            }

            @Test("A rule that was replaced before the first comparison is a change", arguments: tables)
            func replacedEarly(_ table: FirewallTable) throws {
                let rule = "add rule inet \(Self.name) own ip daddr 198.51.100.3 drop"
                let listing = try loadedAgain(table) { _ in "flush chain inet \(Self.name) own; \(rule); \(rule)" }
                #expect(!listing.contains("198.51.100.3"))
            }

            @Test("A table that another process replaces by one with as many rules counts as lost", arguments: tables)
            func replacedTable(_ table: FirewallTable) throws {
                let listing = try loadedAgain(table) { "delete table inet \(Self.name); \($0)" }
                #expect(listing.contains("198.51.100.1"))
            }

            @Test(
                "A table that was changed in place before the first comparison counts as changed",
                arguments: tables,
                ["add table inet \(name) { flags dormant; }", "add chain inet \(name) own { policy drop; }"])
            func changedInPlace(_ table: FirewallTable, _ command: String) throws {
                // The rules are the same, but a dormant table has no effect.
                let listing = try loadedAgain(table, lacksRules: command.contains("dormant")) { _ in command }
                #expect(!listing.contains("dormant") && !listing.contains("policy drop"))
            }

            @Test(
                "An interface that was brought up on a host without nft drops spoofed packets, and leaves no trace",
                .enabled(if: Privileged.isSandbox, "needs scripts/sandbox"))
            func withoutProgram() throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                try world.router.run("ip", "route", "add", "10.9.0.2", "via", "192.0.2.2")
                func isAnswered() throws -> Bool {
                    try world.captured {
                        _ = try world.router.runAllowingFailure(
                            "ping", "-n", "-q", "-c", "1", "-W", "1", "10.9.0.2")
                    }.contains { $0.contains("echo reply") }
                }
                let nft = try ReplacedProgram("nft", .missing)
                defer { try? nft.putBack() }
                let core = try world.core()
                try world.host.perform {
                    #expect(SystemProgram("nft") == nil)
                    try core.prepare(.routeBased)
                    _ = try core.apply(
                        LinuxHostWorld.settings(.routeBased, local: true, routes: ["0.0.0.0/0", "::/0"]))
                }
                #expect(try !isAnswered())
                try world.host.run(nft.original, "delete", "table", "inet", Self.name)
                #expect(try isAnswered(), "so it is the table that drops")
                try world.host.perform {
                    _ = core.reconcile([.firewall])
                    #expect(core.problems.list.isEmpty && core.repairs.count == 1)
                }
                #expect(try !isAnswered())
                try world.host.perform { core.tearDown(leavingBlocked: false) }
                try nft.putBack()
                try world.expectUnchanged(since: before)
            }

            @Test("The leak policy of a tunnel is read from its table in the kernel", arguments: LeakPolicy.allCases)
            func policy(_ policy: LeakPolicy) throws {
                let world = try LinuxHostWorld()
                try world.host.perform {
                    let firewall = try #require(try FirewallSocket())
                    #expect(try LeakGuard.policy(of: LinuxHostWorld.tunnel, in: firewall) == .routeBased)
                    let guardian = LeakGuard(
                        name: LinuxHostWorld.tunnel, policy: policy, mark: 51_820,
                        settings: try LinuxHostWorld.settings(policy, local: true),
                        tunnelled: [try IPPrefix("10.55.0.0/16")], localNetworks: [try IPPrefix("172.31.2.0/24")],
                        routesByMark: true)
                    try LinuxNetwork().make(.firewall(try #require(guardian.table)), .nothing)
                    #expect(try LeakGuard.policy(of: LinuxHostWorld.tunnel, in: firewall) == policy)
                }
            }

            @Test(
                "Without nft and without a journal, the remains of a tunnel are found by the mark in its table, and removed",
                .enabled(if: Privileged.isSandbox, "needs scripts/sandbox"))
            func remainsWithoutProgram() throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let nft = try ReplacedProgram("nft", .missing)
                defer { try? nft.putBack() }
                let core = try world.core()
                try world.host.perform {
                    try core.prepare(.routeBased)
                    _ = try core.apply(
                        LinuxHostWorld.settings(.routeBased, local: true, routes: ["0.0.0.0/0", "::/0"]))
                    // The kernel does this when a process is killed.
                    core.device?.close()
                }
                try FileManager.default.removeItem(atPath: "\(world.folder)/\(LinuxHostWorld.tunnel).journal")
                let error = try #require(throws: LinuxNetworkError.self) { try world.cleanUp() }
                guard case .journalLost(let undone, let unknown) = error.code else { throw error }
                #expect(undone.contains("firewall table \(Self.name)"), "\(undone)")
                #expect(unknown == ["\(RoutingPlan.sourceValidation), which is 1 now"])
                try nft.putBack()
                try world.host.run("sysctl", "-qw", "net.ipv4.conf.all.src_valid_mark=0")
                try world.expectUnchanged(since: before)
            }

            /// Loads a table, has nft change it, expects that the change is found, and loads the table again.
            /// - Parameters:
            ///   - lacksRules: Whether rules have no effect after the change.
            ///   - command: Makes nft's command from the listing of the table.
            /// - Returns: The listing at the end.
            private func loadedAgain(
                _ table: FirewallTable, lacksRules: Bool = true, after command: (_ listing: String) -> String
            ) throws -> String {
                let change = Change.firewall(table)
                let world = try LinuxHostWorld()
                return try world.host.perform {
                    let network = try LinuxNetwork()
                    try network.make(change, .nothing)
                    try world.host.run("nft", command(try listing(world)))
                    #expect(try network.lacksRules(Self.name) == lacksRules)
                    #expect(try network.missing(of: [change]) == [change])
                    try network.make(change, .nothing)
                    for _ in 0..<2 { #expect(try network.missing(of: [change]).isEmpty) }
                    #expect(try !network.lacksRules(Self.name))
                    return try listing(world)
                }
            }
        }
    }
#endif
