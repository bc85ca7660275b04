// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    extension LinuxHostWorld {
        /// Makes the kernel drop packets unless they arrive on the interface with the route to their source.
        func setStrictReversePath() throws {
            for interface in ["all", "default", "eth0"] {
                try host.run("sysctl", "-qw", "net.ipv4.conf.\(interface).rp_filter=1")
            }
        }

        /// Expects that the host answers the ARP requests of each of the router's addresses.
        func expectAnswersARP() throws {
            for (source, target) in [("192.0.2.1", "192.0.2.2"), ("172.31.2.1", "172.31.2.2")] {
                try router.run("ip", "neighbour", "flush", "dev", "eth0")
                // Whether the host answers the ping itself depends on the policy.
                _ = try router.runAllowingFailure(
                    "ping", "-n", "-q", "-c", "1", "-W", "0.1", "-I", source, target)
                try eventually("\(source) knows the Ethernet address of \(target)", within: .seconds(5)) {
                    try router.run("ip", "neighbour", "show", target, "dev", "eth0").output.contains("lladdr")
                }
            }
        }
    }

    extension LinuxHostTests {
        /// Hosts whose kernel drops packets unless they arrive on the interface with the route to their source.
        @Suite("Strict reverse path filters", .timeLimit(.minutes(5)))
        struct ReversePathTests {
            @Test(
                "With rp_filter=1 the host answers the ARP requests of its neighbours, and nothing leaves outside the tunnel",
                arguments: [(LeakPolicy.routeBased, false), (.enforcedRoutes, true), (.everything, false)])
            func neighbours(_ policy: LeakPolicy, _ local: Bool) throws {
                let world = try LinuxHostWorld()
                try world.setStrictReversePath()
                let before = try world.snapshot()
                try world.expectAnswersARP()
                let core = try world.core()
                let lines = try world.captured {
                    try world.host.perform {
                        try core.prepare(policy)
                        _ = try core.apply(LinuxHostWorld.settings(policy, local: local))
                    }
                    try world.expectAnswersARP()
                    try world.tryEverything(policy == .routeBased ? .routed : .all)
                }
                #expect(
                    lines.allSatisfy { line in !["8.8.8.8", "10.55.1.1"].contains { line.contains($0) } }, "\(lines)")
                // Planning again changes nothing.
                #expect(try world.host.perform { core.reconcile([.routing]) == nil })
                #expect(core.repairs.count == 0)
                try world.expectAnswersARP()
                try world.host.perform { core.tearDown(leavingBlocked: false) }
                try world.expectUnchanged(since: before)
            }

            @Test(
                "If the kernel refuses the table that marks answers, the tunnel runs without it, but not behind a strict filter",
                arguments: [EOPNOTSUPP, ENOENT, EPERM])
            func refusedTable(_ number: Int32) throws {
                let world = try LinuxHostWorld()
                try world.setStrictReversePath()
                let before = try world.snapshot()
                let switches = BrokenFirewall.Switch()
                switches.error = LinuxNetworkError(.netlink(operation: "load the firewall table"), errno: number)
                switches.isBroken = true
                let core = try world.core(wrap: { BrokenFirewall($0, switches) })
                let everything = try LinuxHostWorld.settings(.routeBased, local: true, routes: ["0.0.0.0/0", "::/0"])
                let error = try #require(throws: TunnelError.self) {
                    try world.host.perform {
                        try core.prepare(.routeBased)
                        _ = try core.apply(everything)
                    }
                }
                let reason = "rp_filter is 1 (strict) on eth0, and the kernel refuses the firewall table"
                #expect(error.message.contains(reason), "\(error)")
                #expect(error.fix.hasSuffix("or run 'sysctl -w net.ipv4.conf.eth0.rp_filter=2'"))
                #expect(try !world.host.perform { LinuxPlatform.hasInterface(LinuxHostWorld.tunnel) })
                // If the server can be excluded from the routes, no mark is needed.
                var part = try LinuxHostWorld.settings(
                    .routeBased, local: true, routes: ["203.0.113.0/24"], without: [])
                part.remoteAddress = "203.0.113.7:51820"
                part.serverAddresses = [try IPAddress("203.0.113.7")]
                try world.host.perform {
                    try core.prepare(.routeBased)
                    _ = try core.apply(part)
                    #expect(!core.plan.contains { $0.isRule || $0.isFirewall })
                }
                try world.host.run("sysctl", "-qw", "net.ipv4.conf.eth0.rp_filter=2")
                try world.host.perform {
                    _ = try core.apply(everything)
                    #expect(core.plan.contains { $0.isRule } && !core.plan.contains { $0.isFirewall })
                    // Planning again does not ask the kernel again.
                    #expect(core.reconcile([.routing, .firewall]) == nil)
                    #expect(core.problems.list.isEmpty, "\(core.problems.list)")
                    // The next settings do.
                    switches.isBroken = false
                    _ = try core.apply(everything)
                    #expect(core.plan.contains { $0.isFirewall })
                    core.tearDown(leavingBlocked: false)
                }
                try world.host.run("sysctl", "-qw", "net.ipv4.conf.eth0.rp_filter=1")
                try world.expectUnchanged(since: before)
            }

            @Test("A filter stays strict where the tunnel's table leaves the neighbours of its interface out")
            func unneeded() throws {
                let world = try LinuxHostWorld()
                try world.setStrictReversePath()
                let filters = try world.host.run("sh", "-c", "cat /proc/sys/net/ipv4/conf/eth0/rp_filter").output
                let core = try world.core()
                for (policy, routes) in [(LeakPolicy.routeBased, ["0.0.0.0/0"]), (.enforcedRoutes, ["10.55.0.0/16"])] {
                    try world.host.perform {
                        try core.prepare(policy)
                        _ = try core.apply(LinuxHostWorld.settings(policy, local: true, routes: routes))
                    }
                    let now = try world.host.run("sh", "-c", "cat /proc/sys/net/ipv4/conf/eth0/rp_filter").output
                    #expect(now == filters)
                    try world.expectAnswersARP()
                    try world.host.perform { core.tearDown(leavingBlocked: false) }
                }
            }
        }
    }
#endif
