// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import NetworkAddresses
    import Testing
    import TunnelIO

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    /// Tests of a tunnel's part of a host's network, in separate namespaces.
    @Suite("The Linux host's network", .enabled(if: Privileged.isAvailable), .serialized, .timeLimit(.minutes(5)))
    struct LinuxHostTests {
        @Test(
            "Up and down restore the network under each policy",
            arguments: LeakPolicy.allCases, [true, false])
        func wholeLife(_ policy: LeakPolicy, _ local: Bool) throws {
            let world = try LinuxHostWorld()
            let before = try world.snapshot()
            let core = try world.core()
            try world.host.perform {
                try core.prepare(policy)
                let device = try core.apply(LinuxHostWorld.settings(policy, local: local))
                #expect(try device.currentName() == LinuxHostWorld.tunnel)
                // The path to the server has an MTU of 1500 bytes.
                #expect(try device.currentMTU() == 1420)
                #expect(try device.currentLinkState().isUp)
            }
            let addresses = try world.host.run("ip", "address", "show", "dev", LinuxHostWorld.tunnel).output
            #expect(addresses.contains("inet 10.9.0.2/24") && addresses.contains("inet6 fd09::2/64"))
            func way(_ address: String, mark: String? = nil) throws -> String {
                let marked = mark.map { ["mark", $0] } ?? []
                return try run(["ip", "netns", "exec", world.host.name, "ip", "route", "get", address] + marked).output
            }
            let numbers = try #require(core.numbers)
            #expect(numbers.mark == 51_821, "51820 is taken by a rule of others")
            for far in ["8.8.8.8", "2001:db8:7::7", "10.55.1.1", "fd55::1"] {
                #expect(try way(far).contains("dev \(LinuxHostWorld.tunnel)"), "\(far)")
            }
            for far in ["8.8.8.8", "2001:db8:7::7"] {
                #expect(try way(far, mark: "51821").contains("dev eth0"), "\(far)")
            }
            let isExcluded = policy != .everything
            #expect(try way("203.0.113.7").contains("dev eth0") == isExcluded)
            #expect(try way("172.31.2.77").contains("dev eth0") == local)
            try world.host.perform { core.tearDown(leavingBlocked: false) }
            try world.expectUnchanged(since: before)
        }

        @Test("Settings change while the tunnel is up, and all is undone all the same")
        func update() throws {
            let world = try LinuxHostWorld()
            let before = try world.snapshot()
            let core = try world.core()
            try world.host.perform {
                try core.prepare(.routeBased)
                _ = try core.apply(LinuxHostWorld.settings(.routeBased, local: true))
            }
            let first = try world.snapshot()
            try world.host.perform {
                _ = try core.apply(LinuxHostWorld.settings(.enforcedRoutes, local: false, routes: ["10.55.0.0/16"]))
            }
            #expect(try world.host.run("ip", "route", "get", "8.8.8.8").output.contains("eth0"))
            #expect(try world.host.run("ip", "route", "get", "10.55.1.1").output.contains(LinuxHostWorld.tunnel))
            try world.host.perform {
                _ = try core.apply(LinuxHostWorld.settings(.enforcedRoutes, local: true))
            }
            #expect(try world.snapshot() != first, "the policy stays strict")
            try world.host.perform { core.tearDown(leavingBlocked: false) }
            try world.expectUnchanged(since: before)
        }

        @Test("Settings that fail half-way leave the previous ones in effect, or nothing")
        func failure() throws {
            let world = try LinuxHostWorld()
            let before = try world.snapshot()
            let core = try world.core()
            var wrong = try LinuxHostWorld.settings(.enforcedRoutes, local: false)
            // The kernel refuses such an address.
            wrong.addresses.append(try InterfaceAddress("ff02::1/128"))
            try world.host.perform {
                try core.prepare(.enforcedRoutes)
                #expect(throws: TunnelError.self) { try core.apply(wrong) }
            }
            #expect(try world.snapshot().dropLast() == before[...], "but for the journal")
            try world.host.perform {
                _ = try core.apply(LinuxHostWorld.settings(.enforcedRoutes, local: false))
            }
            let good = try world.snapshot()
            try world.host.perform { _ = #expect(throws: TunnelError.self) { try core.apply(wrong) } }
            #expect(try world.snapshot() == good)
            try world.host.perform { core.tearDown(leavingBlocked: false) }
            try world.expectUnchanged(since: before)
        }

        @Test(
            "Blocked: the firewall is all that is left, and stays until the next settings",
            arguments: LeakPolicy.allCases.dropFirst())
        func blocked(_ policy: LeakPolicy) throws {
            let world = try LinuxHostWorld()
            let before = try world.snapshot()
            let core = try world.core()
            let settings = try LinuxHostWorld.settings(policy, local: false)
            func reaches(_ address: String) throws -> Bool {
                try world.host.runAllowingFailure("ping", "-n", "-q", "-c", "1", "-W", "1", address).status == 0
            }
            #expect(try reaches("10.55.1.1"))
            try world.host.perform {
                try core.prepare(policy)
                let device = try core.apply(settings)
                device.close()
                core.tearDown(leavingBlocked: true)
            }
            #expect(try !reaches("10.55.1.1"))
            #expect(try reaches("203.0.113.7") == (policy == .enforcedRoutes), "excluded")
            let blocked = try world.snapshot()
            try world.host.perform { try core.prepare(policy) }
            #expect(try world.snapshot() == blocked)
            try world.host.perform {
                _ = try core.apply(settings)
                core.tearDown(leavingBlocked: false)
            }
            try world.expectUnchanged(since: before)
            #expect(try reaches("10.55.1.1"))
        }

        @Test(
            "A chosen table is not used as a mark, and a strict policy with it is refused before any change"
        )
        func namedTable() throws {
            let world = try LinuxHostWorld()
            let before = try world.snapshot()
            var options = world.options
            options.routeTable = RoutingNumbers.firstTable
            try world.host.perform {
                let core = LinuxPlatformCore(name: LinuxHostWorld.tunnel, options: options, network: try LinuxNetwork())
                for policy in [LeakPolicy.enforcedRoutes, .everything] {
                    #expect(throws: LinuxNetworkError(.leakPolicyNeedsRules)) { try core.prepare(policy) }
                }
                #expect(LinuxPlatform.tunnels(options: options).isEmpty)
                try core.prepare(.routeBased)
                #expect(core.numbers?.mark == RoutingNumbers.firstTable + 1)
                core.tearDown(leavingBlocked: false)
            }
            try world.expectUnchanged(since: before)
        }

        @Test(
            "Two tunnels have separate marks, tables and rules, and may end in either order",
            arguments: [true, false])
        func twoTunnels(_ firstEndsFirst: Bool) throws {
            let world = try LinuxHostWorld()
            let before = try world.snapshot()
            let first = try world.core(owner: .current)
            let second = try world.host.perform {
                LinuxPlatformCore(
                    name: "cvh1", options: world.options, network: try LinuxNetwork())
            }
            var settings = try LinuxHostWorld.settings(
                .enforcedRoutes, local: true, routes: ["10.55.0.0/16", "fd55::/32"])
            try world.host.perform {
                try first.prepare(.routeBased)
                _ = try first.apply(settings)
                try second.prepare(.routeBased)
                settings.addresses = [try InterfaceAddress("10.8.0.2/24")]
                settings.includedRoutes = [try IPPrefix("198.51.100.0/24"), try IPPrefix("fd56::/32")]
                _ = try second.apply(settings)
                #expect(first.numbers != second.numbers)
                #expect(throws: LinuxNetworkError(.tunnelRunning(name: LinuxHostWorld.tunnel, processID: getpid()))) {
                    try LinuxPlatform.cleanUp(name: LinuxHostWorld.tunnel, options: world.options)
                }
                #expect(LinuxPlatform.tunnels(options: world.options) == [LinuxHostWorld.tunnel, "cvh1"])
                for core in firstEndsFirst ? [first, second] : [second, first] { core.tearDown(leavingBlocked: false) }
            }
            try world.expectUnchanged(since: before)
        }
    }
#endif
