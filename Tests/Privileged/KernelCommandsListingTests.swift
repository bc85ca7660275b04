// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import NetworkAddresses
    import Testing
    import TunnelSystem

    @testable import PacketTunnelLinux
    @testable import TunnelServer

    @Suite(
        "The firewall's messages to the kernel", .enabled(if: Privileged.isAvailable), .serialized,
        .timeLimit(.minutes(2)))
    struct KernelCommandsListingTests {
        private let host: Namespace
        private let firewall: ServerFirewall

        init() throws {
            host = try Namespace()
            var settings = ServerNetworkSettings(
                name: "srv0", mtu: 1400,
                addresses: [try InterfaceAddress("10.66.0.1/24"), try InterfaceAddress("fd66::1/64")])
            // The limit needs a module that the kernel may not have.
            settings.flowsPerSource = 0
            firewall = ServerFirewall(settings, forwardedForClients: [])
        }

        private func nft(_ script: String) throws {
            _ = try host.perform { try SystemProgram.required("nft").check(["-j", "-f", "-"], input: script) }
        }

        private func change(_ commands: [String]) throws {
            let messages = try #require(KernelCommands(commands, hostSets: firewall.hostSets))
            try host.perform { try LinuxNetwork().changeFirewall(messages.requests) }
        }

        private var listing: String {
            get throws { try host.run("nft", "list", "table", "inet", firewall.tableName).output }
        }

        /// Rules with each kind of match that needs no anonymous set.
        private static func rules() throws -> [AccessRule] {
            var rules: [AccessRule] = []
            for text in [
                "10.0.0.0/8", "203.0.113.64/27", "203.0.113.7", "2001:db8::/32", "2001:db8:80::/41", "2001:db8::7",
            ] {
                rules.append(AccessRule(.deny, networks: [try IPPrefix(text)]))
            }
            for text in ["0.0.0.0/0", "::/0"] {
                rules.append(AccessRule(.allow, networks: [try IPPrefix(text)], transport: .udp, ports: [53...53]))
            }
            for transport in AccessRule.Transport.allCases { rules.append(AccessRule(.allow, transport: transport)) }
            for transport in [AccessRule.Transport.any, .tcp] {
                rules.append(AccessRule(.deny, transport: transport, ports: [1000...2000]))
            }
            return rules
        }

        @Test("Chains and elements that messages made are listed by nft like those that it loads itself")
        func equal() throws {
            let addresses = try ["10.66.0.2", "fd66::2"].map { IPPrefix(host: try IPAddress($0)) }
            let both = try Self.rules().flatMap { rule in
                var other = rule
                other.direction = .in
                return [rule, other]
            }
            var clients = ServerClients()
            let added = firewall.commands(
                for: clients.change(
                    Dictionary(
                        uniqueKeysWithValues: addresses.map { ($0, ClientAccess(rules: both, prefixes: addresses)) }),
                    firewall))
            try nft(firewall.table.script)
            let empty = try listing
            try nft(NFT.script(added))
            let wanted = try listing
            try nft(firewall.table.script)
            try change(added)
            #expect(try listing == wanted && wanted != empty)
            let removed = firewall.commands(
                for: clients.change(Dictionary(uniqueKeysWithValues: addresses.map { ($0, nil) }), firewall))
            try change(removed)
            #expect(try listing == empty)
        }

        @Test("The kernel applies either all messages of a change or none")
        func atomic() throws {
            try nft(firewall.table.script)
            let before = try listing
            let commands = firewall.commands
            let absent = [(prefix: IPPrefix(host: try IPAddress("10.66.0.9")), chain: ServerFirewall.standardChain)]
            let wrong = [commands.chain("rules-new").line, commands.elements("delete", "clients4", absent)]
            #expect(throws: LinuxNetworkError.self) { try change(wrong) }
            #expect(try listing == before)
        }
    }
#endif
