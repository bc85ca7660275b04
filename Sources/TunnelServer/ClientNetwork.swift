// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import NetworkAddresses
import PacketTunnelLinux

/// The clients of a server: those that are desired, and the firewall and routes that are applied for them.
///
/// A round that fails is repeated from the desired state. For one thread at a time.
final class ClientNetwork {
    /// The interfaces that lead to clients.
    struct Interfaces {
        var first: InterfaceReference
        /// The further tunnels, by their names.
        var others: [String: InterfaceReference] = [:]
    }

    /// The table's contents as nft lists them.
    struct Listed {
        /// The sets that do not change.
        var sets = TableContents()
        /// The chains for lists of rules, each with its lines.
        var chains: [String: [UInt8]] = [:]
    }

    private let firewall: ServerFirewall
    private let system: any ClientSystem
    private let interfaces: Interfaces
    private let logger: Logger

    private var desired: [IPPrefix: ClientAccess] = [:]
    private var rules = Reconciler<IPPrefix, ClientAccess>()
    private var routes = Reconciler<IPPrefix, Route>()
    /// The clients that the firewall has, while that is known.
    private var clients = ServerClients()
    private(set) var listed = Listed()
    /// The chains that were created since nft listed the table. Their lines are read with the next listing of the
    /// table, since nft needs 0.2 s to list one chain among 10,000 clients.
    private var unlisted: [RuleChain] = []
    /// The firewall's generation at which the unlisted chains have their rules for certain; `nil` if another process may have changed
    /// them.
    private var unlistedGeneration: UInt32?
    /// The firewall's generation at which the table is as this process left it; `nil` if another process may have changed
    /// it since it was compared.
    private var comparedGeneration: UInt32?
    /// Networks that may be behind a client, and those that may not, each with the reason.
    private var admitted: Set<IPPrefix> = []
    private var inadmissible: [IPPrefix: String] = [:]
    /// The keys of `desired` that changed since the last complete round.
    private var touched: Set<IPPrefix> = []

    /// For a table that was loaded without clients.
    init(_ firewall: ServerFirewall, _ system: any ClientSystem, _ interfaces: Interfaces, logger: Logger) {
        (self.firewall, self.system, self.interfaces, self.logger) = (firewall, system, interfaces, logger)
    }

    // MARK: - Desired

    /// - Parameters:
    ///   - changes: The access of each address, or network behind a client; `nil` removes it.
    ///   - isComplete: Whether all other clients are removed.
    func setDesired(_ changes: [IPPrefix: ClientAccess?], isComplete: Bool = false) {
        if isComplete {
            for prefix in desired.keys where changes[prefix] == nil { setDesired(nil, for: prefix) }
        }
        for (prefix, access) in changes { setDesired(access, for: prefix) }
    }

    private func setDesired(_ access: ClientAccess?, for prefix: IPPrefix) {
        // Clients keep addresses of a family that the host has switched off.
        guard desired[prefix] != access, carries(prefix) || prefix.length < prefix.address.bitWidth else { return }
        desired[prefix] = access
        touched.insert(prefix)
        guard access == nil else { return }
        admitted.remove(prefix)
        inadmissible[prefix] = nil
    }

    /// All desired addresses, and networks behind clients.
    var allDesired: [IPPrefix] { Array(desired.keys) }

    func isDesired(_ prefix: IPPrefix) -> Bool { desired[prefix] != nil }

    /// The clients that a change removes.
    func removed(by changes: [IPPrefix: ClientAccess?], isComplete: Bool) -> [IPPrefix] {
        let unnamed = isComplete ? desired.keys.filter { changes[$0] == nil } : []
        return unnamed + changes.filter { $0.value == nil && desired[$0.key] != nil }.map(\.key)
    }

    // MARK: - Applied

    /// Whether everything is applied, except for clients that are refused.
    var isCurrent: Bool { touched.isEmpty && rules.isCurrent && routes.isCurrent }

    /// Whether the firewall's state is known.
    var isFirewallKnown: Bool { rules.isKnown }

    /// The number of addresses and networks that the firewall has, and of chains for them.
    var counts: (clients: Int, chains: Int) { (clients.entries.count, clients.chains.count) }

    /// The routes that are applied.
    var appliedRoutes: [Route] { routes.present.map { Array($0.values) } ?? [] }

    /// The clients that are excluded, each with the reason. Nothing is forwarded for them.
    var refusals: [IPPrefix: TunnelServerError] {
        var refusals: [IPPrefix: TunnelServerError] = [:]
        for (prefix, reason) in inadmissible { refusals[prefix] = .subnet(prefix, reason) }
        for (prefix, reason) in routes.refused { refusals[prefix] = .refused(prefix, reason) }
        for (prefix, reason) in rules.refused { refusals[prefix] = .refused(prefix, reason) }
        return refusals
    }

    /// The elements that the firewall's sets and maps must have.
    var contents: TableContents { firewall.contents(clients, fixed: listed.sets) }

    /// Makes the next round load the table again, since another process has changed it.
    func invalidateFirewall() {
        rules.invalidate()
        comparedGeneration = nil
    }

    /// The firewall's present generation; `nil` if it is not known.
    var generation: UInt32? { try? system.generation() }

    /// Whether only this process has changed any table since the table was compared. Then it needs no comparison, for which nft
    /// needs 0.2 s among 10,000 clients.
    var isUntouched: Bool { comparedGeneration != nil && generation == comparedGeneration }

    /// Records that the table was as desired.
    /// - Parameter generation: The firewall's generation before the comparison.
    func recordCompared(since generation: UInt32?) {
        comparedGeneration = generation == self.generation ? generation : nil
    }

    /// Makes the next round compare the routes, since the kernel removed them when their interface was taken down.
    func invalidateRoutes() { routes.invalidate() }

    /// Stores nft's listing of the table that was just loaded without clients.
    func listTable() throws(LinuxNetworkError) {
        (listed, unlisted, comparedGeneration) = (Listed(), [], nil)
        listed.sets = try system.contents(lines: 0).only(firewall.fixedSets)
    }

    /// Whether the chains have their rules. Lists new chains, but not if a known one differs: the caller then loads the table again.
    /// - Parameter present: The lines of each chain, as nft has just listed them.
    /// - Throws: if nft fails other than by a refusal. The new chains are then listed by the next call.
    func hasChains(_ present: [String: [UInt8]]) throws(LinuxNetworkError) -> Bool {
        guard listed.chains.allSatisfy({ present[$0.key] == $0.value }) else { return false }
        do throws(LinuxNetworkError) { try listNewChains(present) } catch {
            guard error.isRefusal || error.errno == EBUSY else { throw error }
            return false
        }
        return present == listed.chains
    }

    /// Stores the lines of the chains that are new since the table was listed.
    ///
    /// If another process may have changed one of them since, their rules are loaded again. The stored lines then
    /// differ from `present` if a chain was changed.
    /// - Parameter present: The lines of each chain, as nft has just listed them.
    func listNewChains(_ present: [String: [UInt8]]) throws(LinuxNetworkError) {
        guard !unlisted.isEmpty else { return }
        var lines = present
        if unlistedGeneration == nil || (try? system.generation()) != unlistedGeneration {
            comparedGeneration = nil
            try system.load(firewall.commands(for: ServerClients.Change(newChains: unlisted)))
            lines = try system.lines(of: unlisted)
        }
        for chain in unlisted { listed.chains[chain.name] = lines[chain.name] }
        unlisted = []
    }

    // MARK: - A round

    /// Applies the desired clients: removes routes, changes the firewall, and adds routes, so that the firewall knows a client before
    /// packets are routed to it.
    ///
    /// A failure of routes does not stop the firewall.
    /// - Parameters:
    ///   - retryingRefused: Whether excluded clients are tried again.
    ///   - hasLinks: Whether the interfaces are up, so that there can be routes.
    ///   - bringUp: Called once the firewall is applied, before routes are added. It returns whether the interfaces are up; if
    ///     not, the routes are left to a later round.
    /// - Throws: `LinuxNetworkError` of the first failure. If the firewall failed, ``isFirewallKnown`` is `false`.
    func reconcile(
        retryingRefused: Bool, hasLinks: Bool = true, bringUp: () throws(LinuxNetworkError) -> Bool = { true }
    ) throws(LinuxNetworkError) {
        if retryingRefused { touched.formUnion(refusals.keys) }
        var failure: LinuxNetworkError?
        do throws(LinuxNetworkError) { try admit() } catch { failure = error }
        // The other addresses of a client depend on the networks behind it.
        for prefix in touched where !firewall.isClient(prefix) {
            touched.formUnion(desired[prefix]?.prefixes.filter { desired[$0] != nil } ?? [])
        }
        for prefix in touched {
            rules.setDesired(isAdmissible(prefix) ? access(prefix) : nil, for: prefix)
            if routes.desired[prefix] != route(prefix) { routes.setDesired(nil, for: prefix) }
        }
        if hasLinks {
            do throws(LinuxNetworkError) { try reconcileRoutes(retryingRefused: false) } catch {
                failure = failure ?? error
            }
        }
        touched.formUnion(rules.refused.keys)
        try reconcileRules(retryingRefused: retryingRefused)
        touched.formUnion(rules.refused.keys)
        guard try bringUp() else {
            if let failure { throw failure }
            return
        }
        for prefix in touched { routes.setDesired(rules.refused[prefix] == nil ? route(prefix) : nil, for: prefix) }
        try reconcileRoutes(retryingRefused: retryingRefused)
        if let failure { throw failure }
        touched = []
    }

    // MARK: - Networks behind clients

    /// Whether the tunnel has addresses of this family.
    private func carries(_ prefix: IPPrefix) -> Bool {
        firewall.settings.addresses.contains { $0.isIPv6 == prefix.isIPv6 }
    }

    /// The access of an address or network, without networks of the client that are not admitted.
    private func access(_ prefix: IPPrefix) -> ClientAccess? {
        guard var access = desired[prefix] else { return nil }
        if !access.prefixes.allSatisfy(isAdmissible) { access.prefixes.removeAll { !isAdmissible($0) } }
        return access
    }

    private func isAdmissible(_ prefix: IPPrefix) -> Bool { firewall.isClient(prefix) || admitted.contains(prefix) }

    /// Decides which of the new networks may be behind a client. A network that was admitted stays so.
    private func admit() throws(LinuxNetworkError) {
        let asked = touched.filter { desired[$0] != nil && !isAdmissible($0) }
        guard !asked.isEmpty else { return }
        let own = try system.ownAddresses()
        for prefix in asked.sorted(by: { $0.length < $1.length }) {
            inadmissible[prefix] = problem(of: prefix, own)
            if inadmissible[prefix] == nil { admitted.insert(prefix) }
        }
    }

    private func problem(of prefix: IPPrefix, _ own: [IPAddress]) -> String? {
        if let problem = hostProblem(of: prefix, own) {
            problem
        } else if let other = admitted.first(where: { $0.overlaps(prefix) }) {
            "it overlaps \(other), which is behind another client"
        } else {
            nil
        }
    }

    /// The reason that no client can have a network, which does not depend on the other clients.
    /// - Parameter own: The host's addresses.
    func hostProblem(of prefix: IPPrefix, _ own: [IPAddress]) -> String? {
        if prefix.length == 0 || !carries(prefix) {
            "the network is a default route, or of a family that the tunnel does not have"
        } else if let other = firewall.settings.networks.first(where: { $0.overlaps(prefix) }) {
            "it overlaps \(other), the network of the clients' addresses"
        } else if let address = own.first(where: prefix.contains) {
            "the server has the address \(address) in it"
        } else {
            nil
        }
    }

    // MARK: - The firewall

    private func reconcileRules(retryingRefused: Bool) throws(LinuxNetworkError) {
        let wasKnown = isFirewallKnown
        do throws(LinuxNetworkError) {
            try updateRules(retryingRefused: retryingRefused)
        } catch {
            // After a refusal, another process has changed the maps, or nft failed once: try again. After other errors,
            // such as a program that cannot be started, another attempt would fail too.
            guard wasKnown, error.isRefusal else { throw error }
            logger.warning("cannot change the firewall's clients, applying all of them again: \(error)")
            try updateRules(retryingRefused: true)
        }
    }

    private func updateRules(retryingRefused: Bool) throws(LinuxNetworkError) {
        try rules.update(retryingRefused: retryingRefused) { (update) throws(LinuxNetworkError) in
            if update.isComplete {
                try system.loadTable()
                clients = ServerClients()
                try listTable()
            }
            return try apply(update.changes)
        }
    }

    /// Changes the firewall's clients in one transaction.
    /// - Returns: The clients that the kernel refuses, which have no access now, each with the reason.
    private func apply(_ changes: [IPPrefix: ClientAccess?]) throws(LinuxNetworkError) -> [IPPrefix: String] {
        var (updated, refused) = (clients, [IPPrefix: String]())
        var change = updated.change(changes, firewall)
        do throws(LinuxNetworkError) {
            try load(change)
        } catch {
            guard error.isRefusal else { throw error }
            refused = try refusals(among: changes)
            guard !refused.isEmpty else { throw error }
            updated = clients
            change = updated.change(changes.merging(refused.mapValues { _ -> ClientAccess? in nil }) { $1 }, firewall)
            try load(change)
        }
        clients = updated
        return refused
    }

    private func load(_ change: ServerClients.Change) throws(LinuxNetworkError) {
        let commands = firewall.commands(for: change)
        guard !commands.isEmpty else { return }
        let before = generation
        let isCertain = unlisted.isEmpty || unlistedGeneration == before
        let isCompared = comparedGeneration != nil && comparedGeneration == before
        comparedGeneration = nil
        try system.load(commands)
        let after = generation
        for chain in change.unusedChains { listed.chains[chain.name] = nil }
        let unused = Set(change.unusedChains.map(\.name))
        unlisted.removeAll { unused.contains($0.name) }
        unlisted += change.newChains
        // This change is one transaction.
        let isOnlyChange = before.map { $0 &+ 1 } == after
        unlistedGeneration = isCertain && isOnlyChange ? after : nil
        comparedGeneration = isCompared && isOnlyChange ? after : nil
    }

    /// Replaces the elements of the sets and maps, which another process has changed.
    func restoreElements() throws(LinuxNetworkError) {
        comparedGeneration = nil
        try system.load(firewall.replace(clients))
    }

    // MARK: - Values that the kernel refuses

    /// Finds the clients whose rules, or whose address or network, the kernel refuses. Changes nothing.
    /// - Throws: An error that no client causes.
    private func refusals(among changes: [IPPrefix: ClientAccess?]) throws(LinuxNetworkError) -> [IPPrefix: String] {
        let removed = changes.filter { $0.value == nil }
        // If nft fails here, no client is the cause.
        try system.check(firewall.probe)
        if let reason = try refusal(of: removed, isOnlyChains: false) { throw reason }
        var groups: [[AccessRule]: [IPPrefix]] = [:]
        for (prefix, access) in changes { if let access { groups[access.rules, default: []].append(prefix) } }
        var refused: [IPPrefix: String] = [:]
        // Clients with the same rules share a chain.
        for (rules, reason) in try refusedItems(
            among: Array(groups.keys),
            { (tried) throws(LinuxNetworkError) in
                var some: [IPPrefix: ClientAccess?] = [:]
                for rules in tried {
                    if let prefix = groups[rules]?.first {
                        some.updateValue(ClientAccess(rules: rules), forKey: prefix)
                    }
                }
                return try refusal(of: some, isOnlyChains: true)
            })
        {
            for prefix in groups.removeValue(forKey: rules) ?? [] { refused[prefix] = "\(reason)" }
        }
        let rest = groups.values.flatMap(\.self).sorted {
            ($0.isIPv6 ? 1 : 0, $0.length, $0.address.value) < ($1.isIPv6 ? 1 : 0, $1.length, $1.address.value)
        }
        for (prefix, reason) in try refusedItems(
            among: rest,
            { (tried) throws(LinuxNetworkError) in
                var some = removed
                for prefix in tried { some.updateValue(changes[prefix] ?? nil, forKey: prefix) }
                return try refusal(of: some, isOnlyChains: false)
            })
        {
            refused[prefix] = "\(reason)"
        }
        return refused
    }

    /// Has the kernel validate a change.
    private func refusal(
        of changes: [IPPrefix: ClientAccess?], isOnlyChains: Bool
    ) throws(LinuxNetworkError) -> LinuxNetworkError? {
        var tried = clients
        var change = tried.change(changes, firewall)
        if isOnlyChains { change = ServerClients.Change(newChains: change.newChains) }
        let commands = firewall.commands(for: change)
        guard !commands.isEmpty else { return nil }
        do throws(LinuxNetworkError) {
            try system.check(commands)
            return nil
        } catch {
            guard error.isRefusal else { throw error }
            try system.check(firewall.probe)
            return error
        }
    }

    /// Finds the items that are refused, by bisection. Each part is tried together with all items accepted before.
    private func refusedItems<Item>(
        among items: [Item], _ refusal: ([Item]) throws(LinuxNetworkError) -> LinuxNetworkError?
    ) throws(LinuxNetworkError) -> [(Item, LinuxNetworkError)] {
        var (accepted, found): ([Item], [(Item, LinuxNetworkError)]) = ([], [])
        var parts = [items[...]]
        while let part = parts.popLast() {
            guard !part.isEmpty, let reason = try refusal(accepted + part) else {
                accepted += part
                continue
            }
            if part.count == 1 {
                found += part.map { ($0, reason) }
            } else {
                let middle = part.startIndex + part.count / 2
                parts += [part[middle...], part[..<middle]]
            }
        }
        return found
    }

    // MARK: - Routes

    /// The route to a network behind a client, or to a client in a further tunnel.
    private func route(_ prefix: IPPrefix) -> Route? {
        guard let access = desired[prefix], isAdmissible(prefix) else { return nil }
        let other = access.tunnel.flatMap { interfaces.others[$0] }
        guard other != nil || !firewall.isClient(prefix) else { return nil }
        return Route(to: prefix, interface: (other ?? interfaces.first).index)
    }

    private func reconcileRoutes(retryingRefused: Bool) throws(LinuxNetworkError) {
        try routes.update(retryingRefused: retryingRefused) { (update) throws(LinuxNetworkError) in
            let wanted = update.changes.compactMapValues { $0 }
            let ended =
                update.isComplete
                ? Array(system.possibleRoutes.subtracting(wanted.values)) : Array(update.previous.values)
            if !ended.isEmpty { try system.remove(ended) }
            let refused = try add(wanted)
            if update.isComplete {
                try system.restore(wanted.filter { refused[$0.key] == nil }.map(\.value))
            }
            return refused
        }
    }

    /// - Returns: The routes that the kernel refuses, each with the reason.
    private func add(_ wanted: [IPPrefix: Route]) throws(LinuxNetworkError) -> [IPPrefix: String] {
        guard !wanted.isEmpty else { return [:] }
        var reasons: [IPPrefix: String] = [:]
        for (prefix, reason) in try refusedItems(
            among: Array(wanted.keys),
            { (tried) throws(LinuxNetworkError) in
                do throws(LinuxNetworkError) {
                    try system.add(tried.compactMap { wanted[$0] })
                    return nil
                } catch {
                    guard error.isRefusal else { throw error }
                    return error
                }
            })
        {
            reasons[prefix] = "\(reason)"
        }
        // A route that was refused may have taken effect in part.
        if !reasons.isEmpty { try system.remove(reasons.keys.compactMap { wanted[$0] }) }
        return reasons
    }
}
