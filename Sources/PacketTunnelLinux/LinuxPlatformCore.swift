// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import NetworkAddresses
import PacketTunnel
import TunnelIO

/// The implementation of ``LinuxPlatform`` without its thread. Only one thread at a time may use it, in the network
/// namespace in which it was created.
final class LinuxPlatformCore {
    let name: String
    let options: LinuxHostOptions
    let logger: Logger
    let network: LinuxNetwork
    private let system: any NetworkSystem
    let owner: JournalOwner
    private(set) var ledger: ChangeLedger?
    private(set) var device: LinuxTun?
    var policy: LeakPolicy = .routeBased
    private(set) var settings: TunnelSettings?
    /// The settings of the firewall, which may stay when the other changes are undone.
    private(set) var guardedSettings: TunnelSettings?
    var plan: [Change] = []
    private(set) var localNetworks: [IPPrefix] = []
    /// The warnings that have been logged.
    private var warnings: Set<String> = []
    /// The policy rules that block packets while the firewall is not in effect; otherwise empty. They are repaired like
    /// the plan.
    var protection: [Change] = []
    /// Whether a change failed when the plan was last changed.
    var isPlanIncomplete = false
    /// Whether the firewall was left by an earlier process.
    var isAdopted = false
    /// The routes of the present settings that other tunnels already have and keep.
    var sharedRoutes: [SharedRoute] = []
    /// The repaired changes of other processes.
    var repairs = NetworkRepairs()
    /// The parts that were not in effect at the last check.
    var problems = NetworkProblems()
    /// The check in progress.
    var check = Check()
    /// Whether a check is in progress. Otherwise a start, a change of the settings or the end is.
    var isChecking = false
    /// Whether ``keepWhileWaiting(_:)`` is running. It may itself wait.
    var isKeeping = false
    /// Called when the problems may have changed while the thread waits.
    var published: () -> Void = {}
    /// The start time of the present comparison of the firewall by nft; `nil` if there is none.
    var firewallAsked: Int64?
    /// The reason why the firewall is not in effect; `nil` if it is, as far as is known.
    var firewallProblem: String?
    /// Whether the kernel refused the table against spoofed packets when the settings were applied.
    var isTableRefused = false
    /// Called once when the interface was renamed or moved to another network namespace.
    var interfaceLost: ((TunnelError) -> Void)?
    /// Whether `interfaceLost` was called for the present interface.
    var isInterfaceLost = false
    var backoff = RepairBackoff()
    /// Decides about repairs of the name servers.
    var resolverKeeper = ResolverKeeper()
    /// The repair of the name servers in progress.
    var restoration: Restoration?
    /// Whether a program has changed resolv.conf, or a file of its manager, since the last check.
    var isResolverChanged = false
    /// The mount over resolv.conf at the start, as in containers; `nil` if none existed.
    var resolverMount: Int?
    /// Whether another file was mounted over resolv.conf after the start.
    var isResolverCovered = false
    /// Whether resolv.conf must be polled, because its changes are not reported.
    var pollsResolver = false
    /// Schedules a check; `nil` without a loop, where repairs run on the calling thread.
    var wake: (@Sendable () -> Void)?
    private(set) var mtu = 0
    var numbers: RoutingNumbers?
    /// The families in which there is no room before another program's rule: `true` for IPv6.
    var crowdedFamilies: Set<Bool> = []
    /// The owners of the rules before this tunnel's rules: the process of a tunnel, or `nil` for another program.
    var ruleOwners: [PolicyRule: JournalOwner?] = [:]
    /// The time of the last repair of deleted rules.
    var rulesRestored = Int64.min / 2
    /// Decides when to check everything while the thread waits.
    var waitingTurns = WaitingTurns()
    /// Reads the notices of deleted rules while the thread waits. Does nothing if no thread follows them.
    var readNotices: () -> Void = {}

    /// - Parameter wrap: Wraps the network of the ledger, for tests.
    init(
        name: String, options: LinuxHostOptions, logger: Logger = Logger(label: "tunnel"), network: LinuxNetwork,
        owner: JournalOwner = .current, wrap: (any NetworkSystem) -> any NetworkSystem = { $0 }
    ) {
        self.name = name
        self.options = options
        self.logger = logger
        self.network = network
        self.owner = owner
        system = wrap(network)
    }

    var directory: JournalDirectory { JournalDirectory(path: options.journalFolder) }

    // MARK: - The tunnel's life

    func prepare(_ policy: LeakPolicy) throws(LinuxNetworkError) {
        let policy = max(policy, try directory.heldPolicy(name)?.policy ?? .routeBased)
        // Check this before a firewall is loaded, which a failure would have to remove.
        try checkTable(policy)
        self.policy = policy
        // Check this first, because the network path may use that interface.
        try checkInterface()
        if let left = ledger, !plan.contains(where: \.isFirewall) {
            // The last undo was incomplete.
            protection = []
            try left.undoAll()
            forgetLedger()
        }
        let ledger = try requireLedger()
        if numbers == nil { _ = try requireNumbers() }
        // A guard that blocks a tunnel's packets stays until the new settings are in effect.
        guard !plan.contains(where: \.isFirewall) || isAdopted, let table = try leakGuard().table else { return }
        isAdopted = false
        plan = [.firewall(table)]
        try ledger.apply(plan + protection)
        try reloadLostFirewall(ledger)
    }

    /// Discards the ledger after all its changes were undone.
    private func forgetLedger() {
        (ledger, numbers, protection, firewallProblem) = (nil, nil, [], nil)
        (crowdedFamilies, ruleOwners) = ([], [:])
        (isResolverCovered, resolverMount) = (false, nil)
        network.whileWaiting = nil
        sharedRoutes = []
    }

    /// Loads the firewall for the settings, and leaves it for the next start of the tunnel.
    /// - Parameter isStart: Whether the tunnel starts now, while other tunnels run.
    func hold(
        _ policy: LeakPolicy, _ settings: TunnelSettings, isStart: Bool = false
    ) throws(LinuxNetworkError) {
        try checkTable(policy)
        try checkInterface()
        self.policy = policy
        guardedSettings = settings
        let ledger = try requireLedger()
        guard try leakGuard().table != nil else { return }
        try ledger.locked { () throws(LinuxNetworkError) in
            if isStart {
                let routing = try routingPlan(settings, InterfaceReference(name: name, index: 0))
                try checkOtherTunnels(routing.steps(), settings)
            }
            _ = try applyWithTable(ledger) { () throws(LinuxNetworkError) in
                try leakGuard().table.map { [.firewall($0)] } ?? []
            }
        }
    }

    /// - Throws: An error if the policy needs rules but the user chose a table, for which there are none.
    func checkTable(_ policy: LeakPolicy) throws(LinuxNetworkError) {
        guard options.namedTable == nil || policy.leavesDecisionToRoutes else {
            throw LinuxNetworkError(.leakPolicyNeedsRules)
        }
    }

    /// - Throws: An error if an interface of another kind has the tunnel's name.
    private func checkInterface() throws(LinuxNetworkError) {
        guard device == nil, let link = try network.netlink.link(named: name), link.hardware != Self.tunnelHardware
        else { return }
        throw LinuxNetworkError(
            .netlink(operation: "set up interface '\(name)': the name belongs to one of another kind"), errno: EEXIST)
    }

    /// `ARPHRD_NONE`, the hardware type of TUN interfaces.
    private static let tunnelHardware: UInt16 = 0xfffe

    private func requireLedger() throws(LinuxNetworkError) -> ChangeLedger {
        if let ledger { return ledger }
        let ledger = try ChangeLedger(
            name: name, directory: directory, system: system, owner: owner,
            keepsFirewall: policy.blocksAfterFailure)
        self.ledger = ledger
        let keep = { [unowned self, unowned ledger] in keepWhileWaiting(ledger) }
        (network.whileWaiting, ledger.whileWaiting) = (keep, keep)
        plan = []
        // No process has repaired the firewall since its own process ended.
        if let left = ledger.firewall, let table = try network.presentTable(left) {
            ledger.adopt(.firewall(table))
            plan = [.firewall(table)]
            isAdopted = true
        }
        return ledger
    }

    func apply(_ settings: TunnelSettings) throws(TunnelError) -> LinuxTun {
        awaitRestoration()
        let before = (plan, self.settings, guardedSettings, policy, isTableRefused)
        do throws(TunnelError) {
            return try bringIntoForce(settings)
        } catch {
            (plan, self.settings, guardedSettings, policy, isTableRefused) = before
            restorePlan()
            throw error
        }
    }

    private func restorePlan() {
        do throws(LinuxNetworkError) {
            try ledger?.apply(plan + protection)
        } catch {
            logger.error("the settings before could not be restored: \(error)")
        }
        if settings == nil {
            device?.close()
            device = nil
        }
    }

    private func bringIntoForce(_ settings: TunnelSettings) throws(TunnelError) -> LinuxTun {
        do throws(LinuxNetworkError) {
            policy = max(policy, settings.leakPolicy, try directory.heldPolicy(name)?.policy ?? .routeBased)
            try checkTable(policy)
            let ledger = try requireLedger()
            let mtu = try mtu(for: settings)
            if device == nil { try ledger.apply(plan + protection + [.interface(name: name)]) }
            let device = try makeDevice(mtu: mtu)
            (self.settings, guardedSettings) = (settings, settings)
            var resolver: Change?
            if let dns = settings.dns { resolver = try resolverStep(dns) }
            // Hold the lock, so that two tunnels that start at the same time know of each other.
            try ledger.locked { () throws(LinuxNetworkError) in
                let next = try applyWithTable(ledger) { () throws(LinuxNetworkError) in
                    let next = try steps(settings, mtu: mtu, resolver: resolver)
                    try checkOtherTunnels(next, settings)
                    return next
                }
                (plan, isAdopted, isPlanIncomplete) = (next, false, false)
            }
            try reloadLostFirewall(ledger)
            warnOfSharedRoutes()
            self.mtu = mtu
            return device
        } catch {
            throw TunnelError(error)
        }
    }

    private func makeDevice(mtu: Int) throws(LinuxNetworkError) -> LinuxTun {
        if let device { return device }
        do throws(TunnelIOError) {
            let made = try LinuxTun(name: name, mtu: mtu)
            (device, isInterfaceLost) = (made, false)
            return made
        } catch {
            let operation =
                if case .device(let name, let operation) = error.code {
                    "set up interface '\(name)': \(operation)"
                } else {
                    "set up interface '\(name)': \(error.code)"
                }
            throw LinuxNetworkError(.netlink(operation: operation), errno: error.errno)
        }
    }

    func tearDown(leavingBlocked: Bool) {
        // The owner has closed the interface, and the kernel has removed its addresses and routes.
        device?.close()
        device = nil
        settings = nil
        awaitRestoration()
        sharedRoutes = []
        guard let ledger else { return }
        do throws(LinuxNetworkError) {
            // Do this before anything is undone.
            try followHeldPolicy(ledger, hasInterface: false)
        } catch {
            logger.error("cannot apply the leak policy that is held for this tunnel: \(error)")
        }
        do throws(LinuxNetworkError) {
            let isHeld = try directory.heldPolicy(name) != nil
            plan = leavingBlocked || isHeld ? plan.filter(\.isFirewall) : []
            if plan.isEmpty {
                guardedSettings = nil
                // Clear this first, so that no repair restores the rules while they are removed.
                protection = []
                try ledger.undoAll()
                forgetLedger()
            } else {
                try ledger.apply(plan + protection)
            }
        } catch {
            logger.error("\(error)")
        }
    }

    func outsideNameServers() -> [IPAddress] {
        do throws(LinuxNetworkError) {
            let (name, record) = (name, ledger?.resolverRecord)
            return try network.askResolver { (resolver) throws(LinuxNetworkError) in
                try resolver.outsideServers(tunnel: name, record: record)
            }
        } catch {
            logger.warning("the network's name servers are not known: \(error)")
            return []
        }
    }

    // MARK: - Plans

    func steps(
        _ settings: TunnelSettings, mtu: Int, resolver: Change?
    ) throws(LinuxNetworkError) -> [Change] {
        let interface = try interface()
        let routing = try routingPlan(settings, interface)
        var steps: [Change] = []
        if routing.usesOwnTable(isIPv6: false), let interface = try strictInterface(settings) {
            throw LinuxNetworkError(.strictReversePath(interface: interface))
        }
        if let table = try leakGuard().table { steps.append(.firewall(table)) }
        steps.append(.interface(name: name))
        steps += settings.addresses.filter { routing.carriesIPv6 || !$0.isIPv6 }.map { .address($0, interface) }
        steps.append(.link(interface, mtu: mtu))
        steps += try looseReversePath(routing)
        steps += try leavingOutSharedRoutes(routing.steps(), settings)
        if let resolver { steps.append(resolver) }
        if settings.proxy != nil { warnOnce("Linux has no proxy settings for the whole system: left out") }
        return steps
    }

    func interface() throws(LinuxNetworkError) -> InterfaceReference {
        guard let link = try network.netlink.link(named: name) else {
            throw LinuxNetworkError(.netlink(operation: "find interface '\(name)'"), errno: ENODEV)
        }
        return InterfaceReference(name: name, index: link.index)
    }

    private func routingPlan(
        _ settings: TunnelSettings, _ interface: InterfaceReference
    ) throws(LinuxNetworkError) -> RoutingPlan {
        let support = try ipv6Support(interface.name)
        if support != .on, settings.addresses.contains(where: \.isIPv6) {
            warnOnce(
                "IPv6 is disabled on this host: the tunnel has no IPv6 addresses, and packets routed into it are "
                    + "refused")
        }
        var settings = settings
        settings.leakPolicy = policy
        if support == .absent { settings = settings.withoutIPv6 }
        if policy.leavesDecisionToRoutes, !settings.effectiveRoutes.contains(where: { $0.length <= 1 }),
            try strictInterface(settings) != nil
        {
            // Routes that exclude the servers need no mark. Packets of other programs to a server then bypass the
            // tunnel as well.
            settings.excludedRoutes += settings.serverAddresses.map(IPPrefix.init(host:))
            settings.serverAddresses = []
        }
        localNetworks = try presentLocalNetworks()
        return RoutingPlan(
            settings: settings, interface: interface, numbers: try requireNumbers(), carriesIPv6: support == .on,
            localNetworks: settings.allowsLocalNetwork ? localNetworks : [], namedTable: options.namedTable)
    }

    /// The kernel's support of IPv6.
    enum IPv6Support {
        /// The kernel has no IPv6, so no IPv6 packet can leave the host.
        case absent
        /// The tunnel's interface does not carry IPv6, but other interfaces may.
        case off
        case on
    }

    func ipv6Support(_ interface: String) throws(LinuxNetworkError) -> IPv6Support {
        let folder = "/proc/sys/net/ipv6/conf"
        guard try SmallFile.text("\(folder)/all/disable_ipv6") != nil else { return .absent }
        // The guard is loaded before the interface exists. A new interface starts with the default setting.
        let own = try SmallFile.text("\(folder)/\(interface)/disable_ipv6")
        let switchedOff = if let own { own } else { try SmallFile.text("\(folder)/default/disable_ipv6") }
        return switchedOff == "0" ? .on : .off
    }

    func leakGuard() throws(LinuxNetworkError) -> LeakGuard {
        let mark = try requireNumbers().mark
        guard let settings = guardedSettings else {
            localNetworks = try presentLocalNetworks()
            return LeakGuard(name: name, policy: policy, mark: mark, localNetworks: localNetworks)
        }
        let link = try network.netlink.link(named: name)
        let routing = try routingPlan(settings, InterfaceReference(name: name, index: link?.index ?? 0))
        return LeakGuard(
            name: name, policy: policy, mark: mark, settings: settings, tunnelled: routing.tunnelled,
            localNetworks: localNetworks,
            routesByMark: !lacksTable
                && (routing.usesOwnTable(isIPv6: false) || routing.usesOwnTable(isIPv6: true)))
    }

    /// Returns the networks that count as local now, without the tunnel's own.
    private func presentLocalNetworks() throws(LinuxNetworkError) -> [IPPrefix] {
        let links = try network.netlink.links().filter { $0.isUp && !$0.isLoopback && $0.name != name }
        let indices = Set(links.map(\.index))
        return LocalNetworks.of(
            try network.netlink.addresses().filter { indices.contains($0.interface) }.map(\.address))
    }

    func warnOnce(_ text: String) {
        if warnings.insert(text).inserted { logger.warning("\(text)") }
    }

    // MARK: - Numbers

    func requireNumbers() throws(LinuxNetworkError) -> RoutingNumbers {
        if let numbers { return numbers }
        let rules4 = try network.netlink.rules(isIPv6: false).map(\.rule)
        let rules6 = try network.netlink.rules(isIPv6: true).map(\.rule)
        var found = RoutingNumbers(
            mark: options.mark ?? RoutingNumbers.firstTable,
            priority4: try RoutingNumbers.freePriority(before: rules4),
            priority6: try RoutingNumbers.freePriority(before: rules6))
        found.mark = try requireLedger().reserve { (others) throws(LinuxNetworkError) in
            var tables: Set<UInt32> = []
            for isIPv6 in [false, true] {
                tables.formUnion(try network.netlink.routes(isIPv6: isIPv6).compactMap { $0.key?.table })
            }
            if let mark = options.mark {
                try RoutingNumbers.check(
                    mark, others: others, rules: rules4 + rules6, tables: tables,
                    makesTable: options.namedTable == nil)
                return mark
            }
            // The named table may have no routes yet.
            tables.formUnion(others.union(options.namedTable.map { [$0] } ?? []))
            return try RoutingNumbers.freeTable(rules: rules4 + rules6, tables: tables)
        }
        numbers = found
        return found
    }

    /// The MTU of the path to the server minus the tunnel's overhead, as in wg-quick(8).
    private func mtu(for settings: TunnelSettings) throws(LinuxNetworkError) -> Int {
        if let mtu = settings.mtu { return mtu }
        let targets = serverTargets(settings)
        let mark = try requireNumbers().mark
        for target in targets {
            if let way = try network.netlink.way(to: target, mark: mark) {
                return settings.effectiveMTU(pathMTU: min(way.mtu, 65_535))
            }
        }
        return settings.effectiveMTU()
    }

    /// Returns the destinations of the tunnel's packets. If the server is known only by name, they are documentation
    /// addresses (RFC 5737, RFC 3849), which follow the default routes. No packet is sent to them.
    func serverTargets(_ settings: TunnelSettings) -> [IPAddress] {
        if let address = ServerText.address(in: settings.remoteAddress) { return [address] }
        let known = settings.serverAddresses.prefix(16)
        return known.isEmpty ? ["198.51.100.1", "2001:db8::1"].compactMap { try? IPAddress($0) } : Array(known)
    }
}

extension TunnelSettings {
    /// The settings for a host without IPv6.
    fileprivate var withoutIPv6: TunnelSettings {
        var settings = self
        settings.addresses.removeAll(where: \.isIPv6)
        settings.includedRoutes = settings.effectiveRoutes.filter { !$0.isIPv6 }
        settings.excludedRoutes.removeAll(where: \.isIPv6)
        return settings
    }
}
