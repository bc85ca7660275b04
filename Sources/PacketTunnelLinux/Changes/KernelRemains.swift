// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import NetworkAddresses
import TunnelSystem

/// The routes, rules and firewall table of a tunnel that does not run, as listed by the kernel. They are needed because
/// the journal may have been deleted or damaged.
struct KernelRemains {
    let network: LinuxNetwork
    let name: String
    /// The numbers of other tunnels.
    let others: Set<UInt32>

    /// The firewall table, if there is one.
    private(set) var table: String?
    private(set) var rules: [PolicyRule] = []
    private(set) var routes: [Route] = []

    /// Whether there is nothing.
    var isEmpty: Bool { table == nil && rules.isEmpty && routes.isEmpty }

    /// Finds the routes, rules and firewall table of a tunnel.
    /// - Parameters:
    ///   - known: The number that the journal still lists.
    ///   - journal: The journal before it was undone; `nil` if none existed. If it was damaged and no firewall exists,
    ///     nothing names the tunnel's number. Then a rule counts if it has the form of a tunnel's rule, a number in the
    ///     host's range that no other tunnel uses, and a table without a route to an interface.
    init(
        _ network: LinuxNetwork, name: String, journal: JournalLine.Contents?, others: Set<UInt32>
    ) throws(LinuxNetworkError) {
        (self.network, self.name, self.others) = (network, name, others)
        let wanted = LeakGuard.tableName(name)
        let firewall = try network.firewallSocket()
        if try firewall?.tables().contains(wanted) == true { table = wanted }
        let (rules4, rules6) = (try network.netlink.rules(isIPv6: false), try network.netlink.rules(isIPv6: true))
        let present = (rules4 + rules6).filter(\.isWhole).map(\.rule)
        var found: [Route] = []
        for isIPv6 in [false, true] { found += try network.netlink.routes(isIPv6: isIPv6).compactMap(Route.init) }
        var numbers = Set(journal?.pending.compactMap(\.change.number) ?? [])
        if journal?.isWhole != true {
            if table != nil { numbers.formUnion(try firewall?.marks(in: wanted) ?? []) }
            if numbers.isEmpty, journal != nil { numbers = Self.orphans(present, found) }
        }
        numbers.subtract(others)
        // The kernel deleted the tunnel's interface and its routes. A table with a route to an interface therefore
        // belongs to another program, like the kernel's own tables (253 to 255).
        numbers = numbers.filter { number in
            !(253...255).contains(number) && !found.contains { $0.table == number && $0.kind == .unicast }
        }
        rules = present.filter { rule in
            if let mark = rule.mark, numbers.contains(mark) { return rule.isOfTunnel }
            // The rule directly before a tunnel's rule.
            return rule.mark == nil && rule.table == Route.mainTable && rule.suppressedPrefixLength != nil
                && present.contains { other in
                    other.isOfTunnel && other.isIPv6 == rule.isIPv6 && other.priority == rule.priority + 1
                        && other.mark.map(numbers.contains) == true
                }
        }
        // A tunnel without rules has its routes in a table that the user chose.
        let ruled = Set(rules.compactMap(\.mark))
        routes = found.filter { ruled.contains($0.table) }
    }

    /// Returns the numbers of tunnels' rules whose tables have no route to an interface.
    private static func orphans(_ rules: [PolicyRule], _ routes: [Route]) -> Set<UInt32> {
        Set(rules.filter(\.isOfTunnel).compactMap(\.mark)).filter { mark in
            RoutingNumbers.isInRange(mark) && !routes.contains { $0.table == mark && $0.kind == .unicast }
        }
    }

    /// Removes everything. Continues after a failure.
    /// - Returns: The removed parts, as text for users.
    /// - Throws: `.incompleteUndo`.
    func remove(keepingFirewall: Bool) throws(LinuxNetworkError) -> [String] {
        var (removed, failures): ([String], [String]) = ([], [])
        func attempt(_ part: String, _ body: () throws(LinuxNetworkError) -> Void) {
            do throws(LinuxNetworkError) {
                try body()
                removed.append(part)
            } catch {
                failures.append("\(part) (\(error))")
            }
        }
        // Remove the firewall last, as with a journal.
        for rule in rules {
            attempt("\(rule)") { () throws(LinuxNetworkError) in try network.undo(.rule(rule), .nothing) }
        }
        for route in routes {
            attempt("\(route)") { () throws(LinuxNetworkError) in try network.undo(.route(route), .nothing) }
        }
        if let table, !keepingFirewall {
            attempt("firewall table \(table)") { () throws(LinuxNetworkError) in
                try network.undo(.firewall(FirewallTable(name: table, body: "")), .nothing)
            }
        }
        guard failures.isEmpty else { throw LinuxNetworkError(.incompleteUndo(steps: failures)) }
        return removed
    }
}

extension PolicyRule {
    /// Whether the rule has the form of a tunnel's rule: it selects the packets without a mark, and either searches the
    /// table with the number of that mark or refuses the packets.
    fileprivate var isOfTunnel: Bool {
        guard isInverted, let mark else { return false }
        return isProhibition ? table == 0 : table == mark && suppressedPrefixLength == nil
    }
}

extension Route {
    /// A route that the kernel listed; `nil` if tunnels make no routes of its kind.
    fileprivate init?(_ found: ForeignRoute) {
        let kind = Kind.allCases.first { $0.number == found.type }
        guard let key = found.key, let kind else { return nil }
        self.init(
            to: key.destination, kind: kind, interface: found.wayOut, table: key.table, metric: key.metric)
    }
}

extension LinuxPlatform {
    /// Undoes the changes of a tunnel that does not run: those in its journal, then those that remain in the kernel.
    static func undoRemains(
        _ name: String, _ directory: JournalDirectory, _ network: LinuxNetwork
    ) throws(LinuxNetworkError) -> [String] {
        let journal = try directory.read(name)
        let isWhole = journal?.isWhole == true
        var undone = try ChangeLedger.cleanUp(name: name, directory: directory, system: network)
        let (removed, hasLeft, isSettingUnknown) = try directory.lockedIfPossible {
            () throws(LinuxNetworkError) -> ([String], Bool, Bool) in
            // If the interface exists or a process has started meanwhile, the changes are in use.
            guard try network.netlink.link(named: name) == nil,
                try directory.read(name)?.owner?.isAlive() != true
            else { return ([], false, false) }
            let pending = directory.pendingChanges(except: name)
            let keeps = try directory.heldPolicy(name)?.isUntilReleased == true
            let remains: KernelRemains
            do throws(LinuxNetworkError) {
                remains = try KernelRemains(
                    network, name: name, journal: journal, others: Set(pending.compactMap(\.change.number)))
            } catch {
                // Without permission to list tables, only the journal is known, and a damaged journal is not enough.
                guard [EPERM, EACCES].contains(error.errno), isWhole || journal == nil else { throw error }
                return ([], false, false)
            }
            let removed = try remains.remove(keepingFirewall: keeps)
            // Rules with marks need a kernel setting, and only the journal contained its previous value.
            let isUnknown =
                !isWhole && !remains.rules.isEmpty
                && !undone.contains { $0.hasPrefix(RoutingPlan.sourceValidation) }
                && !pending.contains { entry in
                    guard case .setting(let path, _) = entry.change else { return false }
                    return path == RoutingPlan.sourceValidation
                }
            return (removed, !remains.isEmpty, isUnknown)
        }
        undone += removed
        var unknown: [String] = []
        if isSettingUnknown, try SmallFile.text(RoutingPlan.sourceValidation) == "1" {
            unknown.append("\(RoutingPlan.sourceValidation), which is 1 now")
        }
        if isSettingUnknown {
            unknown += try ReversePathFilter.loosened(network.netlink.links()).map { "\($0), which is 2 now" }
        }
        if !isWhole, journal != nil || hasLeft, let record = try network.resolver.record(left: name) {
            try network.resolver.clear(record)
            undone.append("name servers through \(record.manager.rawValue)")
            unknown.append(network.resolver.file)
        }
        guard unknown.isEmpty else { throw LinuxNetworkError(.journalLost(undone: undone, unknown: unknown)) }
        return undone
    }

    /// Whether the calling thread's network namespace has an interface of this name.
    package static func hasInterface(_ name: String) -> Bool { (try? RouteSocket().link(named: name)) != nil }

    /// Whether the kernel has a tunnel's firewall table but not its interface, in the calling thread's network
    /// namespace. This means that the tunnel's process died and its files were deleted. Returns `false` without
    /// permission to list tables.
    public static func hasRemains(name: String) -> Bool {
        do throws(LinuxNetworkError) {
            guard FileName.isInterface(name) else { return false }
            guard try FirewallSocket()?.tables().contains(LeakGuard.tableName(name)) == true else { return false }
            return try RouteSocket().link(named: name) == nil
        } catch {
            return false
        }
    }
}
