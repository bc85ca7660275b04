// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if os(Linux)
    import Foundation
    import Testing
    import TunnelIO

    @testable import PacketTunnel
    @testable import PacketTunnelLinux

    extension LinuxHostTests {
        @Suite("Policy rules that the kernel refuses", .timeLimit(.minutes(1)))
        struct RuleFailureTests {
            private static let far = "8.8.8.8"

            private func up(_ world: LinuxHostWorld, _ switches: RefusedChanges.Switch) throws -> LinuxPlatformCore {
                let core = try world.core(wrap: { RefusedChanges($0, switches) })
                try world.host.perform {
                    try core.prepare(.enforcedRoutes)
                    _ = try core.apply(LinuxHostWorld.settings(.enforcedRoutes, local: false))
                }
                return core
            }

            private func reconcile(_ core: LinuxPlatformCore, _ world: LinuxHostWorld) throws {
                try world.host.perform { _ = core.reconcile([.routing, .firewall]) }
            }

            private func hasProblem(_ core: LinuxPlatformCore) -> Bool {
                core.problems.list.contains { $0.what.hasPrefix("the order of IPv4 rules: ") }
            }

            private func isInTunnel(_ world: LinuxHostWorld) throws -> Bool {
                try world.host.run("ip", "route", "get", Self.far).output.contains("dev \(LinuxHostWorld.tunnel)")
            }

            /// The preferences of the IPv4 rules in place of the firewall.
            private func prohibitions(_ world: LinuxHostWorld) throws -> [UInt32] {
                try world.host.perform {
                    try RouteSocket().rules(isIPv6: false).map(\.rule).filter(\.isProhibition).map(\.priority)
                }
            }

            private func expectNothingLeaves(_ world: LinuxHostWorld) throws {
                let lines = try world.captured { try world.send(to: Self.far, port: 1000) }
                #expect(!lines.contains { $0.contains(Self.far) }, "\(lines)")
            }

            @Test("Rules that cannot move in front of another program's are a problem, and move at a later check")
            func move() throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let switches = RefusedChanges.Switch()
                let core = try up(world, switches)
                try world.host.run("ip", "rule", "add", "from", "all", "table", "main", "preference", "10")
                switches.refusesRules = true
                for _ in 0..<2 {
                    try reconcile(core, world)
                    #expect(hasProblem(core), "\(core.problems.list)")
                    #expect(try !isInTunnel(world))
                    try expectNothingLeaves(world)
                }
                switches.refusesRules = false
                try reconcile(core, world)
                #expect(core.problems.list.isEmpty, "\(core.problems.list)")
                #expect(try isInTunnel(world))
                try world.host.run("ip", "rule", "delete", "preference", "10")
                try world.host.perform { core.tearDown(leavingBlocked: false) }
                try world.expectUnchanged(since: before)
            }

            @Test("A rule in place of the firewall that cannot move back stays where it is, and moves at a later check")
            func leaveCrowd() throws {
                let world = try LinuxHostWorld()
                let before = try world.snapshot()
                let switches = RefusedChanges.Switch()
                let core = try up(world, switches)
                switches.refusesFirewall = true
                try world.host.run("nft", "delete", "table", "inet", "culvert_\(LinuxHostWorld.tunnel)")
                try world.host.run("ip", "rule", "add", "from", "all", "table", "main", "preference", "0")
                try reconcile(core, world)
                #expect(try prohibitions(world).contains(0))
                try world.host.run("ip", "rule", "delete", "preference", "0", "table", "main")
                switches.refusesRules = true
                try reconcile(core, world)
                #expect(hasProblem(core), "\(core.problems.list)")
                #expect(try prohibitions(world).contains(0))
                try expectNothingLeaves(world)
                switches.refusesRules = false
                try reconcile(core, world)
                #expect(try prohibitions(world).contains { $0 > 0 })
                try expectNothingLeaves(world)
                switches.refusesFirewall = false
                for _ in 0..<2 { try reconcile(core, world) }
                #expect(try prohibitions(world).isEmpty)
                #expect(core.problems.list.isEmpty, "\(core.problems.list)")
                #expect(try isInTunnel(world))
                try world.host.perform { core.tearDown(leavingBlocked: false) }
                try world.expectUnchanged(since: before)
            }
        }
    }

    /// The real network, which refuses new policy rules or the firewall.
    private final class RefusedChanges: NetworkSystem {
        final class Switch {
            var refusesRules = false
            var refusesFirewall = false
        }

        private let network: any NetworkSystem
        private let switches: Switch

        init(_ network: any NetworkSystem, _ switches: Switch) {
            self.network = network
            self.switches = switches
        }

        func previousStates(for changes: [Change]) throws(LinuxNetworkError) -> [PreviousState?] {
            try network.previousStates(for: changes)
        }

        func missing(of changes: [Change]) throws(LinuxNetworkError) -> [Change] {
            try network.missing(of: changes)
        }

        func make(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
            switch change {
            case .rule where switches.refusesRules:
                throw LinuxNetworkError(.netlink(operation: "make a rule"), errno: ENOMEM)
            case .firewall where switches.refusesFirewall: throw LinuxNetworkError(.programMissing(name: "nft"))
            default: try network.make(change, previous)
            }
        }

        func undo(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
            try network.undo(change, previous)
        }
    }
#endif
