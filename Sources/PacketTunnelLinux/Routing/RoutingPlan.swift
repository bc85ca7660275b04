// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnel

/// The numbers that a tunnel's policy routing uses.
package struct RoutingNumbers: Hashable, Sendable {
    /// The mark of the tunnel's own packets, and the number of its routing table.
    package var mark: UInt32
    /// The first of three consecutive priorities for IPv4. The second is that of the tunnel's rule, the third that of
    /// the rule that replaces the firewall.
    package var priority4: UInt32
    /// The first of three consecutive priorities for IPv6, used in the same way.
    package var priority6: UInt32

    package init(mark: UInt32, priority4: UInt32, priority6: UInt32) {
        self.mark = mark
        self.priority4 = priority4
        self.priority6 = priority6
    }

    /// The first number that wg-quick(8) tries.
    static let firstTable: UInt32 = 51_820
    private static let tableCount: UInt32 = 4096

    /// Whether a number is in the range that the host chooses from.
    static func isInRange(_ number: UInt32) -> Bool { (firstTable..<(firstTable + tableCount)).contains(number) }

    /// Returns the first number from `first` on that is neither a table with routes nor the table or mark of a rule.
    static func freeTable(
        from first: UInt32 = firstTable, rules: [PolicyRule], tables: Set<UInt32>
    ) throws(LinuxNetworkError) -> UInt32 {
        var taken = tables
        for rule in rules {
            taken.insert(rule.table)
            if let mark = rule.mark { taken.insert(mark) }
        }
        guard let free = (first..<(first + tableCount)).first(where: { !taken.contains($0) }) else {
            throw LinuxNetworkError(.noFreeTable(from: first))
        }
        return free
    }

    /// Checks that a requested mark is free: it is also the number of the tunnel's table.
    ///
    /// Rules that match only the mark are allowed: other programs use them to route the tunnel's own packets.
    /// - Parameters:
    ///   - others: The marks of other tunnels of this kind.
    ///   - tables: The tables with routes.
    ///   - makesTable: Whether the tunnel may put routes into its own table.
    /// - Throws: An error that names the user of the mark.
    static func check(
        _ mark: UInt32, others: Set<UInt32>, rules: [PolicyRule], tables: Set<UInt32>, makesTable: Bool
    ) throws(LinuxNetworkError) {
        if others.contains(mark) { throw LinuxNetworkError(.markTaken(mark, user: "another tunnel")) }
        guard makesTable else { return }
        // The kernel always searches these tables.
        if (253...255).contains(mark) || tables.contains(mark) {
            throw LinuxNetworkError(.markTaken(mark, user: "the routing table of that number"))
        }
        if rules.contains(where: { $0.table == mark }) {
            throw LinuxNetworkError(.markTaken(mark, user: "a policy rule that asks the routing table of that number"))
        }
    }

    /// Returns the first of three priorities directly before every rule except the one for the machine's own addresses.
    /// The kernel chooses priorities in the same way.
    static func freePriority(before rules: [PolicyRule]) throws(LinuxNetworkError) -> UInt32 {
        let first = rules.lazy.map(\.priority).filter { $0 > 0 }.min() ?? 32_766
        guard first > 3 else { throw LinuxNetworkError(.noFreeRulePriority) }
        return first - 3
    }
}

/// The routes and rules that send packets into a tunnel.
///
/// - If attached networks are reached directly (``TunnelSettings/allowsLocalNetwork``) and only routes decide, the plan
///   is that of wg-quick(8). Routes that are more specific than the default route are in the main table. The default
///   route is in a separate table for packets without the tunnel's mark; it is searched after the main table, whose own
///   default route is ignored. A more specific network that contains the tunnel's server is also in the separate table,
///   so that packets to the server bypass it at each of its addresses.
/// - Otherwise all routes are in the tunnel's own table, which is searched before the main table. Under the strict
///   policies the other routes of the main table are then not used. Attached networks are exceptions in the tunnel's
///   table if the settings allow it.
///
/// - If the user chose a table, all routes are in it, as with `Table = N` of wg-quick(8), and there are no rules: the
///   user's own rules select the packets for it.
///
/// In a table other than the main one, an excluded network is a `throw` route, so that the search continues as if there
/// were no tunnel. In the main table an excluded network is left out, by splitting the included network that contains
/// it into smaller ones.
package struct RoutingPlan: Hashable, Sendable {
    /// The settings of the tunnel.
    package var settings: TunnelSettings
    /// The tunnel's interface.
    package var interface: InterfaceReference
    /// Table, mark and priorities.
    package var numbers: RoutingNumbers
    /// Whether the tunnel's interface carries IPv6. If it does not, packets that would be routed into the tunnel are
    /// refused, so that they do not bypass it.
    package var carriesIPv6: Bool
    /// The networks that count as local (``LocalNetworks``).
    package var localNetworks: [IPPrefix]
    /// The table that the user chose for the routes, or `nil`.
    package var namedTable: UInt32?

    package init(
        settings: TunnelSettings, interface: InterfaceReference, numbers: RoutingNumbers, carriesIPv6: Bool = true,
        localNetworks: [IPPrefix] = [], namedTable: UInt32? = nil
    ) {
        self.settings = settings
        self.interface = interface
        self.numbers = numbers
        self.carriesIPv6 = carriesIPv6
        self.localNetworks = localNetworks
        self.namedTable = namedTable
    }

    /// The kernel setting that makes reverse-path filtering respect marks.
    package static let sourceValidation = "/proc/sys/net/ipv4/conf/all/src_valid_mark"

    /// The kernel settings that a tunnel's packets depend on, and whose changes netlink does not report.
    static let watchedSettings = [sourceValidation]

    private var included: [IPPrefix] {
        var seen: Set<IPPrefix> = []
        return settings.effectiveRoutes.filter { route in
            seen.insert(route).inserted && !settings.allowedNetworks.contains { $0.contains(route) }
        }
    }

    private var excluded: [IPPrefix] { settings.excludedRoutes + settings.allowedNetworks }

    /// Returns the route into the tunnel.
    private func way(to destination: IPPrefix, table: UInt32 = Route.mainTable) -> Change {
        guard carriesIPv6 || !destination.isIPv6 else {
            return .route(Route(to: destination, kind: .unreachable, table: table))
        }
        return .route(Route(to: destination, interface: interface.index, table: table))
    }

    /// Whether a prefix is all addresses or half of them. Halves count as all addresses, for which the main table has a
    /// route.
    private static func isEverything(_ prefix: IPPrefix) -> Bool { prefix.length <= 1 }

    /// The included networks that contain a server's address, except all addresses and their halves.
    private var serverNetworks: Set<IPPrefix> { settings.routes(holding: settings.serverAddresses) }

    private var asksMainTableFirst: Bool { settings.allowsLocalNetwork && settings.leakPolicy.leavesDecisionToRoutes }

    /// The routes in the tunnel's own table.
    private var own: [IPPrefix] {
        guard asksMainTableFirst else { return included }
        let servers = serverNetworks
        return included.filter { Self.isEverything($0) || servers.contains($0) }
    }

    /// Whether packets of a family without the mark are looked up in the tunnel's own table.
    package func usesOwnTable(isIPv6: Bool) -> Bool {
        namedTable == nil && own.contains { $0.isIPv6 == isIPv6 }
    }

    /// The networks that are routed into the tunnel after all exclusions.
    package var tunnelled: [IPPrefix] { Self.effective(included, without: excluded) }

    /// Returns the part of `included` that remains if the most specific network applies, and an excluded network takes
    /// precedence over an equal included one.
    static func effective(_ included: [IPPrefix], without excluded: [IPPrefix]) -> [IPPrefix] {
        included.flatMap { prefix in prefix.subtracting(excluded.filter { prefix.contains($0) }) }
    }

    /// Whether some address of an attached IPv4 network is routed into the tunnel. Then the kernel's check of packets
    /// from that address (``ReversePathFilter``) finds the tunnel.
    package func divertsNeighbours(in network: IPPrefix) -> Bool {
        guard usesOwnTable(isIPv6: false) else { return false }
        // The more specific route applies, within one table or across both tables.
        if asksMainTableFirst { return tunnelled.contains { network.contains($0) } }
        return Self.effective(included, without: excluded + attachedExceptions).contains { $0.overlaps(network) }
    }

    /// The local networks that the tunnel's own table excludes.
    private var attachedExceptions: [IPPrefix] {
        settings.allowsLocalNetwork && !asksMainTableFirst ? localNetworks : []
    }

    /// Returns the steps, in the order in which they are made. Those that divert packets come last.
    package func steps() -> [Change] {
        if let namedTable { return routes(in: namedTable) }
        var steps: [Change] = []
        if usesOwnTable(isIPv6: false) { steps.append(.setting(path: Self.sourceValidation, value: "1")) }
        for isIPv6 in [false, true] where usesOwnTable(isIPv6: isIPv6) {
            steps += ownTable(isIPv6: isIPv6)
            steps += rules(isIPv6: isIPv6)
        }
        if asksMainTableFirst { steps += mainTable() }
        return steps
    }

    private func routes(in table: UInt32) -> [Change] {
        let exceptions = Set(excluded.filter { exception in included.contains { $0.contains(exception) } })
        // Keep the order, list each network once, and list an exception before the networks that contain it.
        var seen: Set<IPPrefix> = []
        return excluded.filter { exceptions.contains($0) && seen.insert($0).inserted }
            .map { .route(Route(to: $0, kind: .throw, table: table)) }
            + included.filter { !exceptions.contains($0) }
            .map { way(to: $0, table: table) }
    }

    private func ownTable(isIPv6: Bool) -> [Change] {
        // Add the exceptions first.
        var seen: Set<IPPrefix> = []
        let exceptions = (excluded + attachedExceptions).filter { exception in
            exception.isIPv6 == isIPv6 && own.contains { $0.contains(exception) } && seen.insert(exception).inserted
        }
        let routes = own.filter { $0.isIPv6 == isIPv6 && !seen.contains($0) }
        return exceptions.map { .route(Route(to: $0, kind: .throw, table: numbers.mark)) }
            + routes.map { way(to: $0, table: numbers.mark) }
    }

    private func rules(isIPv6: Bool) -> [Change] {
        let priority = isIPv6 ? numbers.priority6 : numbers.priority4
        let toTunnel = PolicyRule(
            isIPv6: isIPv6, priority: priority + 1, table: numbers.mark, mark: numbers.mark, isInverted: true)
        guard asksMainTableFirst else { return [.rule(toTunnel)] }
        // Give more specific routes of the main table precedence over these, as in one table.
        let lengths = own.lazy.filter { $0.isIPv6 == isIPv6 }.map(\.length)
        let least = lengths.min() ?? 0
        let toMain = PolicyRule(
            isIPv6: isIPv6, priority: priority, table: Route.mainTable,
            suppressedPrefixLength: least > 1 ? UInt32(least) : 0)
        // In this order the local network is never cut off.
        return [.rule(toMain), .rule(toTunnel)]
    }

    private func mainTable() -> [Change] {
        var exceptions = excluded
        // Packets to the server must not be routed into the tunnel. In the tunnel's own table the mark ensures this.
        if let server = ServerText.address(in: settings.remoteAddress) {
            exceptions.append(IPPrefix(host: server))
        }
        // The kernel makes these routes itself.
        let attached = settings.addresses.map(\.network)
        let servers = serverNetworks
        let specific = included.filter {
            !Self.isEverything($0) && !servers.contains($0) && !attached.contains($0)
        }
        var seen: Set<IPPrefix> = []
        return Self.effective(specific, without: exceptions).filter { seen.insert($0).inserted }
            .map { way(to: $0) }
    }
}
