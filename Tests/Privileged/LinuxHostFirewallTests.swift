// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Testing

    @testable import PacketTunnelLinux

    extension LinuxHostTests {
        @Suite("A firewall table in the kernel", .timeLimit(.minutes(1)))
        struct FirewallTests {
            private static let table = FirewallTable(
                name: LeakGuard.tableName(LinuxHostWorld.tunnel),
                body: """
                      chain own {
                        type filter hook output priority filter; policy accept;
                        ip daddr 198.51.100.1 drop
                        ip daddr 198.51.100.2 drop
                      }

                    """)
            private static let change = Change.firewall(table)

            private func listing(_ world: LinuxHostWorld) throws -> String {
                try world.host.run("nft", "list", "table", "inet", Self.table.name).output
            }

            @Test("A loaded table is in effect until a rule is lost", arguments: [true, false])
            func inEffect(_ exists: Bool) throws {
                let world = try LinuxHostWorld()
                // Loading replaces a table that another process has made.
                if exists {
                    try world.host.run("nft", "add table inet \(Self.table.name)")
                    try world.host.run("nft", "add chain inet \(Self.table.name) theirs")
                }
                try world.host.perform {
                    let network = try LinuxNetwork()
                    try network.make(Self.change, .nothing)
                    for _ in 0..<2 { #expect(try network.missing(of: [Self.change]).isEmpty) }
                    #expect(try !network.lacksRules(Self.table.name))
                    #expect(try !listing(world).contains("theirs"))
                    try world.host.run("nft", "flush chain inet \(Self.table.name) own")
                    #expect(try network.lacksRules(Self.table.name))
                    #expect(try network.missing(of: [Self.change]) == [Self.change])
                }
            }

            @Test("A rule that was replaced before the first comparison is a change")
            func replacedEarly() throws {
                let world = try LinuxHostWorld()
                try world.host.perform {
                    let network = try LinuxNetwork()
                    try network.make(Self.change, .nothing)
                    let rule = "add rule inet \(Self.table.name) own ip daddr 198.51.100.3 drop"
                    try world.host.run("nft", "flush chain inet \(Self.table.name) own; \(rule); \(rule)")
                    #expect(try !network.lacksRules(Self.table.name), "the number of rules is the same")
                    #expect(try network.missing(of: [Self.change]) == [Self.change])
                    try network.make(Self.change, .nothing)
                    #expect(try network.missing(of: [Self.change]).isEmpty)
                    #expect(try !listing(world).contains("198.51.100.3"))
                }
            }

            @Test("A table that another process replaces by one with as many rules counts as lost")
            func replacedTable() throws {
                let world = try LinuxHostWorld()
                try world.host.perform {
                    let network = try LinuxNetwork()
                    try network.make(Self.change, .nothing)
                    let listing = try listing(world)
                    try world.host.run("nft", "delete table inet \(Self.table.name); \(listing)")
                    #expect(try network.lacksRules(Self.table.name))
                    try network.make(Self.change, .nothing)
                    #expect(try !network.lacksRules(Self.table.name))
                }
            }

            @Test(
                "A table that was changed in place before the first comparison counts as changed",
                arguments: [
                    "add table inet \(table.name) { flags dormant; }",
                    "add chain inet \(table.name) own { policy drop; }",
                ])
            func changedInPlace(_ command: String) throws {
                let world = try LinuxHostWorld()
                try world.host.perform {
                    let network = try LinuxNetwork()
                    try network.make(Self.change, .nothing)
                    try world.host.run("nft", command)
                    // The number of rules is the same, but a dormant table has no effect.
                    #expect(try network.lacksRules(Self.table.name) == command.contains("dormant"))
                    #expect(try network.missing(of: [Self.change]) == [Self.change])
                    try network.make(Self.change, .nothing)
                    for _ in 0..<2 { #expect(try network.missing(of: [Self.change]).isEmpty) }
                    let listing = try listing(world)
                    #expect(!listing.contains("dormant") && !listing.contains("policy drop"))
                }
            }
        }
    }
#endif
