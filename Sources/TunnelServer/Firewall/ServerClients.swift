// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The clients in a server's firewall: the chains for each client address and for each network behind a client.
struct ServerClients: Sendable {
    /// The firewall's state for an address or network.
    struct Entry: Hashable, Sendable {
        /// The chain for flows that the client begins.
        var from: String
        /// The chain for flows towards the client.
        var towards: String
        /// All addresses and networks of the client, or none if it has only this one.
        var prefixes: [IPPrefix]
    }

    private(set) var entries: [IPPrefix: Entry] = [:]
    /// The chains for lists of rules, each with the number of uses by entries, and with the contents that lead to it.
    private var made: [String: (chain: RuleChain, uses: Int, contents: [Content])] = [:]
    /// The content of a chain: the rules, and the network with a limit of flows.
    private struct Content: Hashable {
        var rules: [AccessRule]
        var network: IPPrefix?
    }

    /// The chain of each content in use.
    private var names: [Content: String] = [:]

    /// The effect of a change on the firewall.
    struct Change {
        /// Chains that are needed from now on.
        var newChains: [RuleChain] = []
        /// The removed entries, with their former values.
        var removed: [IPPrefix: Entry] = [:]
        /// The added entries.
        var added: [IPPrefix: Entry] = [:]
        /// The chains that no entry uses.
        var unusedChains: [RuleChain] = []
    }

    var isEmpty: Bool { entries.isEmpty }

    /// The networks behind clients.
    func subnets(_ firewall: ServerFirewall) -> [IPPrefix] { entries.keys.filter { !firewall.isClient($0) } }

    /// The chains for lists of rules.
    var chains: [RuleChain] { made.values.map(\.chain).sorted { $0.name < $1.name } }

    /// Records the new rules of clients, and returns the effect on the firewall.
    /// - Parameter changes: the access of each address or network; `nil` if it has no client.
    mutating func change(_ changes: [IPPrefix: ClientAccess?], _ firewall: ServerFirewall) -> Change {
        var change = Change()
        // There may be thousands of chains, and a change releases few.
        var released: Set<String> = []
        for (prefix, access) in changes {
            let old = entries[prefix]
            let new = access.map { access in
                Entry(
                    from: use(access.rules, .out, of: prefix, firewall, &change),
                    towards: use(access.rules, .in, of: prefix, firewall, &change), prefixes: access.prefixes)
            }
            if let old {
                for name in [old.from, old.towards] {
                    made[name]?.uses -= 1
                    released.insert(name)
                }
            }
            guard old != new else { continue }
            entries[prefix] = new
            change.removed[prefix] = old
            change.added[prefix] = new
        }
        let unused = released.compactMap { made[$0] }.filter { $0.uses == 0 }
        guard !unused.isEmpty else { return change }
        for (chain, _, contents) in unused {
            made[chain.name] = nil
            for content in contents { names[content] = nil }
        }
        // A chain that is no longer needed after the change is not created.
        let new = Set(change.newChains.map(\.name))
        change.newChains.removeAll { made[$0.name] == nil }
        change.unusedChains = unused.map(\.chain).filter { !new.contains($0.name) }
        return change
    }

    private mutating func use(
        _ rules: [AccessRule], _ direction: AccessRule.Direction, of prefix: IPPrefix, _ firewall: ServerFirewall,
        _ change: inout Change
    ) -> String {
        let list = rules.filter { $0.direction == direction }.compactMap(\.effective)
        let isTowards = direction == .in
        let hasOwnLimit = !isTowards && firewall.limitsFlows && !firewall.isClient(prefix)
        guard !list.isEmpty || hasOwnLimit else {
            return isTowards ? ServerFirewall.towardsChain : ServerFirewall.standardChain
        }
        let content = Content(rules: list, network: hasOwnLimit ? prefix : nil)
        if let name = names[content] {
            made[name]?.uses += 1
            return name
        }
        var chain =
            isTowards ? firewall.chain(towards: list) : firewall.chain(from: list, network: content.network)
        // Chains with different rules need different names, even if the rules have the same hash.
        while let other = made[chain.name]?.chain, other.rules != chain.rules { chain = chain.renamed }
        names[content] = chain.name
        if made[chain.name] == nil {
            made[chain.name] = (chain, 0, [])
            change.newChains.append(chain)
        }
        made[chain.name]?.uses += 1
        made[chain.name]?.contents.append(content)
        return chain.name
    }
}
