// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The clients in a server's firewall: the chains for each client address and for each network behind a client.
struct ServerClients: Sendable {
    /// The chains of an address.
    struct Chains: Hashable, Sendable {
        /// The chain for flows that the client begins.
        var from: String
        /// The chain for flows towards the client.
        var towards: String
    }

    private(set) var entries: [IPPrefix: Chains] = [:]
    /// The chains for lists of rules, each with the number of uses by entries.
    private var made: [String: (chain: RuleChain, uses: Int)] = [:]
    /// The chain of each list in use.
    private var names: [[AccessRule]: String] = [:]

    /// The effect of a change on the firewall.
    struct Change {
        /// Chains that are needed from now on.
        var newChains: [RuleChain] = []
        /// The removed entries with their former chains.
        var removed: [IPPrefix: Chains] = [:]
        /// The added entries with their chains.
        var added: [IPPrefix: Chains] = [:]
        /// The chains that no entry uses.
        var unusedChains: [RuleChain] = []
    }

    var isEmpty: Bool { entries.isEmpty }

    /// The networks behind clients.
    func subnets(_ firewall: ServerFirewall) -> [IPPrefix] { entries.keys.filter { !firewall.isClient($0) } }

    /// The chains for lists of rules.
    var chains: [RuleChain] { made.values.map(\.chain).sorted { $0.name < $1.name } }

    /// Records the new rules of clients, and returns the effect on the firewall.
    /// - Parameter changes: the rules of each address or network; `nil` if it has no client.
    mutating func change(_ changes: [IPPrefix: [AccessRule]?], _ firewall: ServerFirewall) -> Change {
        var change = Change()
        for (prefix, rules) in changes {
            let old = entries[prefix]
            let new = rules.map { rules in
                Chains(
                    from: use(rules, .out, firewall, &change),
                    towards: use(rules, .in, firewall, &change))
            }
            if let old {
                release(old.from)
                release(old.towards)
            }
            guard old != new else { continue }
            entries[prefix] = new
            change.removed[prefix] = old
            change.added[prefix] = new
        }
        let unused = made.values.filter { $0.uses == 0 }.map(\.chain)
        guard !unused.isEmpty else { return change }
        for chain in unused { made[chain.name] = nil }
        names = names.filter { made[$0.value] != nil }
        // A chain that is no longer needed after the change is not created.
        let new = Set(change.newChains.map(\.name))
        change.newChains.removeAll { made[$0.name] == nil }
        change.unusedChains = unused.filter { !new.contains($0.name) }
        return change
    }

    private mutating func use(
        _ rules: [AccessRule], _ direction: AccessRule.Direction, _ firewall: ServerFirewall, _ change: inout Change
    ) -> String {
        let list = rules.filter { $0.direction == direction }.compactMap(\.effective)
        let isTowards = direction == .in
        guard !list.isEmpty else { return isTowards ? ServerFirewall.towardsChain : ServerFirewall.standardChain }
        if let name = names[list] {
            made[name]?.uses += 1
            return name
        }
        var chain = isTowards ? firewall.chain(towards: list) : firewall.chain(from: list)
        // Chains with different rules need different names, even if the rules have the same hash.
        while let other = made[chain.name]?.chain, other.rules != chain.rules { chain = chain.renamed }
        names[list] = chain.name
        if made[chain.name] == nil {
            made[chain.name] = (chain, 0)
            change.newChains.append(chain)
        }
        made[chain.name]?.uses += 1
        return chain.name
    }

    private mutating func release(_ name: String) {
        made[name]?.uses -= 1
    }
}
