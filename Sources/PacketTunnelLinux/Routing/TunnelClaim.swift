// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel

/// The packets that a tunnel takes by its routes and rules, for a comparison with another tunnel.
///
/// Two tunnels are compatible if each packet takes the more specific route of both tunnels, as in one routing table,
/// and no leak policy blocks it. This depends on the order of the rules and on the policies of both; the rules of the
/// tunnel that started last come first.
struct TunnelClaim {
    /// The tunnel.
    let name: String
    let policy: LeakPolicy
    private var claims: [Claim] = []
    /// The networks that the tunnel's own table excludes.
    private var exceptions: [IPPrefix] = []
    /// For each family, the rule by which the main table is searched before the tunnel's own table.
    private var mainRules: [Bool: PolicyRule] = [:]

    private struct Claim: Hashable {
        var network: IPPrefix
        /// The priority of the rule for the route's table; `nil` if the route is in the main table.
        var priority: UInt32?
    }

    /// - Parameters:
    ///   - attached: The networks of the addresses of the tunnel's interface.
    init(name: String, policy: LeakPolicy, routes: [Route], rules: [PolicyRule], attached: [IPPrefix]) {
        (self.name, self.policy) = (name, policy)
        for rule in rules where rule.table == Route.mainTable { mainRules[rule.isIPv6] = rule }
        let own = Dictionary(
            rules.filter { $0.isInverted && $0.table == $0.mark }.map { ($0.isIPv6, $0) },
            uniquingKeysWith: { first, _ in first })
        var claims: Set<Claim> = []
        for route in routes {
            let isOwn = own[route.destination.isIPv6]?.table == route.table
            // A table without a rule of the tunnel is used by the user's own rules.
            guard isOwn || route.table == Route.mainTable else { continue }
            if route.kind == .throw {
                exceptions.append(route.destination)
            } else {
                let priority = isOwn ? own[route.destination.isIPv6]?.priority : nil
                claims.insert(Claim(network: route.destination, priority: priority))
            }
        }
        for network in attached where network.length < network.address.bitWidth {
            claims.insert(Claim(network: network, priority: nil))
        }
        self.claims = claims.sorted { $0.network.description < $1.network.description }
    }

    // MARK: - Comparison

    /// A conflict between two tunnels.
    enum Conflict: Equatable {
        /// The other tunnel gets all packets for the route `lost` of one tunnel.
        case taken(lost: IPPrefix, isOfOther: Bool)
        /// The leak policy of a tunnel blocks packets that the other one carries.
        case heldBack(IPPrefix, isPolicyOfOther: Bool)
    }

    /// Returns the first conflict with another tunnel; `nil` if the two are compatible.
    func conflict(with other: TunnelClaim) -> Conflict? {
        // If routes are equal, the error names that of the running tunnel.
        if let reason = other.loss(to: self) { return reason.conflict(isOfOther: true) }
        return loss(to: other)?.conflict(isOfOther: false)
    }

    private enum Loss {
        case taken(IPPrefix)
        case heldBack(IPPrefix)

        func conflict(isOfOther: Bool) -> Conflict {
            switch self {
            case .taken(let lost): .taken(lost: lost, isOfOther: isOfOther)
            case .heldBack(let network): .heldBack(network, isPolicyOfOther: isOfOther)
            }
        }
    }

    /// Returns the first of this tunnel's routes that gets no packets because of the other tunnel, or whose policy
    /// blocks packets of the other tunnel.
    private func loss(to other: TunnelClaim) -> Loss? {
        var lost: [Claim: [IPPrefix]] = [:]
        Self.forEachOverlap(claims, other.claims) { mine, theirs in
            guard other.precedes(theirs, mine, of: self) else { return }
            let network = mine.network.length > theirs.network.length ? mine.network : theirs.network
            let packets = other.carried(by: theirs, in: network).flatMap { carried(by: mine, in: $0) }
            lost[mine, default: []] += packets
        }
        guard !lost.isEmpty else { return nil }
        // Exclude the more specific routes of this tunnel, which are compared separately.
        var inner: [Claim: [IPPrefix]] = [:]
        Self.forEachOverlap(claims, claims) { outer, claim in
            if outer.network.length < claim.network.length { inner[outer, default: []].append(claim.network) }
        }
        for claim in claims {
            guard let lost = lost[claim] else { continue }
            let inner = inner[claim, default: []]
            guard let network = lost.lazy.flatMap({ $0.subtracting(inner) }).first else { continue }
            let rest = carried(by: claim, in: claim.network).flatMap { $0.subtracting(inner + lost) }
            if rest.isEmpty { return .taken(claim.network) }
            if policy.blocksAfterFailure { return .heldBack(network) }
        }
        return nil
    }

    /// Returns the part of a network whose packets take a route.
    private func carried(by claim: Claim, in network: IPPrefix) -> [IPPrefix] {
        guard claim.priority != nil else { return [network] }
        return network.subtracting(exceptions.filter { claim.network.contains($0) })
    }

    /// Whether the kernel finds a route of this tunnel before one of the other tunnel.
    private func precedes(_ mine: Claim, _ theirs: Claim, of other: TunnelClaim) -> Bool {
        let (first, second) = (stage(of: mine, beside: other), stage(of: theirs, beside: other))
        return first < second || first == second && mine.network.length > theirs.network.length
    }

    /// Returns the priority of the first rule by which the kernel finds a route.
    private func stage(of claim: Claim, beside other: TunnelClaim) -> UInt32 {
        if let priority = claim.priority { return priority }
        let isIPv6 = claim.network.isIPv6
        let rules = [mainRules[isIPv6], other.mainRules[isIPv6]].compactMap { rule -> UInt32? in
            guard let rule, let suppressed = rule.suppressedPrefixLength, claim.network.length > suppressed else {
                return nil
            }
            return rule.priority
        }
        return rules.min() ?? .max
    }

    /// Calls `body` with each pair of routes that overlap. The time grows with the number of routes, not with the
    /// number of pairs.
    private static func forEachOverlap(_ first: [Claim], _ second: [Claim], _ body: (Claim, Claim) -> Void) {
        let (firstByNetwork, secondByNetwork) = (byNetwork(first), byNetwork(second))
        let (firstLengths, secondLengths) = (Set(first.map(\.network.length)), Set(second.map(\.network.length)))
        func forEachParent(
            of network: IPPrefix, _ claims: [IPPrefix: [Claim]], _ lengths: Set<Int>, _ body: (Claim) -> Void
        ) {
            for length in lengths {
                guard let parent = IPPrefix(network.address, length: length) else { continue }
                claims[parent]?.forEach(body)
            }
        }
        for claim in second {
            let lengths = firstLengths.filter { $0 <= claim.network.length }
            forEachParent(of: claim.network, firstByNetwork, lengths) { body($0, claim) }
        }
        for claim in first {
            let lengths = secondLengths.filter { $0 < claim.network.length }
            forEachParent(of: claim.network, secondByNetwork, lengths) { body(claim, $0) }
        }
    }

    private static func byNetwork(_ claims: [Claim]) -> [IPPrefix: [Claim]] {
        Dictionary(grouping: claims, by: \.network)
    }
}
