// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Testing

@testable import PacketTunnelLinux

@Suite("Whether two tunnels go together")
struct TunnelClaimTests {
    /// A tunnel's settings, as far as routes depend on them.
    private struct Setup: CustomStringConvertible {
        var policy: LeakPolicy
        var local: Bool
        var included: [IPPrefix]
        var excluded: [IPPrefix]

        var description: String { "\(policy) local=\(local) \(included) without \(excluded)" }

        /// The routes that the policy makes of the included networks.
        var routes: [IPPrefix] {
            get throws { try plan(0).settings.effectiveRoutes.filter { !$0.isIPv6 } }
        }

        /// Whether the network of an IPv4 route is in the main table.
        func isInMain(_ network: IPPrefix) -> Bool { policy == .routeBased && local && network.length > 1 }

        init(_ policy: LeakPolicy, local: Bool, _ included: String, without excluded: String = "") throws {
            (self.policy, self.local) = (policy, local)
            self.included = try included.split(separator: " ").map { try IPPrefix($0) }
            self.excluded = try excluded.split(separator: " ").map { try IPPrefix($0) }
        }

        /// - Parameter order: 0 for the tunnel that started first.
        func plan(_ order: UInt32) throws -> RoutingPlan {
            let priority = 100 - 3 * order
            return RoutingPlan(
                settings: TunnelSettings(
                    remoteAddress: "192.0.2.1", addresses: [try InterfaceAddress("172.30.0.2/32")],
                    includedRoutes: included, excludedRoutes: excluded, allowsLocalNetwork: local, leakPolicy: policy),
                interface: InterfaceReference(name: "cvt\(order)", index: 7 + order),
                numbers: RoutingNumbers(mark: 51_820 + order, priority4: priority, priority6: priority))
        }
    }

    private static func parts(_ steps: [Change]) -> (routes: [Route], rules: [PolicyRule]) {
        var parts: (routes: [Route], rules: [PolicyRule]) = ([], [])
        for step in steps {
            switch step {
            case .route(let route): parts.routes.append(route)
            case .rule(let rule): parts.rules.append(rule)
            default: break
            }
        }
        return parts
    }

    private func claim(_ setup: Setup, _ order: UInt32, attached: [IPPrefix] = []) throws -> TunnelClaim {
        let (routes, rules) = Self.parts(try setup.plan(order).steps())
        return TunnelClaim(
            name: "cvt\(order)", policy: setup.policy, routes: routes, rules: rules, attached: attached)
    }

    /// The kernel's search for the route of a packet without a mark, over the steps of both tunnels.
    private struct Kernel {
        var routes: [Route] = []
        var rules: [PolicyRule] = [PolicyRule(isIPv6: false, priority: 32_766, table: Route.mainTable)]

        /// The number of the interface; `nil` for none of a tunnel's.
        func interface(to address: IPAddress) -> UInt32? {
            for rule in rules.sorted(by: { $0.priority < $1.priority }) {
                let matches = routes.filter { $0.table == rule.table && $0.destination.contains(address) }
                guard let best = matches.max(by: { $0.destination.length < $1.destination.length }),
                    best.kind != .throw, best.destination.length > rule.suppressedPrefixLength.map(Int.init) ?? -1
                else { continue }
                return best.interface
            }
            return nil
        }
    }

    /// Whether the second of two tunnels gets in the way, found by trying addresses in all networks of both.
    private func isConflict(_ first: Setup, _ second: Setup) throws -> Bool {
        let setups = [first, second]
        var kernel = Kernel()
        for (order, setup) in setups.enumerated() {
            let (routes, rules) = Self.parts(try setup.plan(UInt32(order)).steps())
            // The first tunnel keeps a route that both have in one table.
            for route in routes
            where !kernel.routes.contains(where: { $0.table == route.table && $0.destination == route.destination }) {
                kernel.routes.append(route)
            }
            kernel.rules += rules
        }
        let samples = try setups.flatMap { try $0.routes + $0.excluded }.flatMap { network in
            [network.address] + network.subtracting([IPPrefix(host: network.address)]).map(\.address)
        }
        for (order, setup) in setups.enumerated() {
            let own = UInt32(7 + order)
            let theirs = Set(samples.filter { kernel.interface(to: $0) == 15 - own })
            let included = try setup.routes
            func route(to address: IPAddress) -> IPPrefix? {
                let outside = setup.excluded.filter { $0.contains(address) }.map(\.length).max() ?? -1
                return included.filter { $0.contains(address) && $0.length > outside }.max { $0.length < $1.length }
            }
            if setup.policy.blocksAfterFailure, theirs.contains(where: { route(to: $0) != nil }) { return true }
            for network in included {
                // The first tunnel keeps it, and the second one starts with a warning.
                let isShared =
                    try order == 1 && first.routes.contains(network) && setups.allSatisfy { $0.isInMain(network) }
                if isShared { continue }
                let inside = samples.filter { route(to: $0) == network }
                if !inside.isEmpty, theirs.isSuperset(of: inside) { return true }
            }
        }
        return false
    }

    @Test("The comparison of two tunnels finds the conflicts that a search of the kernel's tables finds")
    func pairs() throws {
        var setups: [Setup] = []
        for (policy, local) in [
            (LeakPolicy.routeBased, true), (.routeBased, false), (.enforcedRoutes, true), (.everything, true),
        ] {
            for (included, excluded) in [
                ("0.0.0.0/0", ""), ("0.0.0.0/1 128.0.0.0/1", ""), ("10.0.0.0/8", ""), ("10.55.0.0/16", ""),
                ("20.0.0.0/8", ""), ("0.0.0.0/0", "10.0.0.0/8"), ("10.0.0.0/8", "10.55.0.0/16"),
                ("0.0.0.0/0 10.55.0.0/16", ""),
            ] {
                setups.append(try Setup(policy, local: local, included, without: excluded))
            }
        }
        var counts: [Bool: Int] = [:]
        for first in setups {
            for second in setups {
                let found = try claim(second, 1).conflict(with: claim(first, 0))
                let expected = try isConflict(first, second)
                counts[expected, default: 0] += 1
                #expect((found != nil) == expected, "\(first); then \(second): \(String(describing: found))")
            }
        }
        // Both happen.
        #expect(counts[true, default: 0] > 100 && counts[false, default: 0] > 100, "\(counts)")
    }

    @Test("A conflict names the route of the tunnel that runs, or the policy that holds packets back")
    func reasons() throws {
        let all = try Setup(.routeBased, local: true, "0.0.0.0/0")
        #expect(try claim(all, 1).conflict(with: claim(all, 0)) == .taken(lost: .allIPv4, isOfOther: true))
        let enforced = try Setup(.enforcedRoutes, local: true, "0.0.0.0/0")
        let network = try IPPrefix("10.55.0.0/16")
        let specific = try Setup(.enforcedRoutes, local: true, "10.55.0.0/16")
        #expect(
            try claim(specific, 1).conflict(with: claim(enforced, 0)) == .heldBack(network, isPolicyOfOther: true))
        let inMain = try Setup(.routeBased, local: true, "10.55.0.0/16")
        #expect(try claim(inMain, 1).conflict(with: claim(enforced, 0)) == .taken(lost: network, isOfOther: false))
        let everything = try Setup(.everything, local: true, "20.0.0.0/8")
        #expect(
            try claim(everything, 1).conflict(with: claim(inMain, 0)) == .taken(lost: network, isOfOther: true))
        #expect(try claim(all, 1).conflict(with: claim(specific, 0)) == .taken(lost: network, isOfOther: true))
        #expect(try claim(inMain, 1).conflict(with: claim(inMain, 0)) == nil, "the first keeps it")
    }

    @Test("A network of the other interface's address counts like a route, unless the tunnel leaves it out as local")
    func attached() throws {
        let network = try IPPrefix("10.77.0.0/24")
        let none = try claim(Setup(.routeBased, local: true, "10.77.0.0/24"), 0, attached: [network])
        let enforced = try Setup(.enforcedRoutes, local: false, "0.0.0.0/0")
        #expect(try claim(enforced, 1).conflict(with: none) == .taken(lost: network, isOfOther: true))
        var local = try Setup(.enforcedRoutes, local: true, "0.0.0.0/0")
        local.excluded = [network]
        #expect(try claim(local, 1).conflict(with: none) == nil)
    }

    @Test("Twenty thousand routes of each tunnel are not compared pair by pair", .timeLimit(.minutes(1)))
    func many() throws {
        func routes(_ first: UInt32, _ interface: UInt32) -> [Route] {
            (0..<20_000).compactMap { number in
                IPPrefix(IPAddress.v4(first + number * 256), length: 24).map { Route(to: $0, interface: interface) }
            }
        }
        let first = TunnelClaim(
            name: "a", policy: .routeBased, routes: routes(0x0a00_0000, 7), rules: [], attached: [])
        let second = TunnelClaim(
            name: "b", policy: .routeBased, routes: routes(0x1400_0000, 8) + [Route(to: .allIPv4, interface: 8)],
            rules: [], attached: [])
        #expect(second.conflict(with: first) == nil)
    }
}
