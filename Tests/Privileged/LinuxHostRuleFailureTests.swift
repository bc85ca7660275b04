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
        }
    }

    /// The real network, which can be made to refuse new policy rules.
    private final class RefusedChanges: NetworkSystem {
        final class Switch {
            var refusesRules = false
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
            if case .rule = change, switches.refusesRules {
                throw LinuxNetworkError(.netlink(operation: "make a rule"), errno: ENOMEM)
            }
            try network.make(change, previous)
        }

        func undo(_ change: Change, _ previous: PreviousState) throws(LinuxNetworkError) {
            try network.undo(change, previous)
        }
    }
#endif
