// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import NetworkAddresses
import PacketTunnel
import TunnelIO

/// What ``LinuxPlatform`` does, without its thread: for one thread at a time, in the network namespace that it was made
/// in.
final class LinuxPlatformCore {
    let name: String
    private let options: LinuxHostOptions
    private let logger: Logger
    let network: LinuxNetwork
    private let system: any NetworkSystem
    private let owner: JournalOwner
    private var ledger: ChangeLedger?
    private var device: LinuxTun?
    private var policy: LeakPolicy = .routeBased
    private var settings: TunnelSettings?
    private var plan: [NetworkStep] = []
    private var mtu = 0
    private(set) var numbers: RoutingNumbers?

    /// - Parameter wrap: stands between the ledger and the network, for tests.
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

    private var directory: JournalDirectory { JournalDirectory(path: options.journalFolder) }

    // MARK: - The tunnel's life

    func prepare(_ policy: LeakPolicy) throws(LinuxNetworkError) {
        // Before there is a firewall that would have to go again.
        try checkTable(policy)
        self.policy = policy
        // Said before anything else: the way out may well be by that interface.
        if device == nil, let link = try network.netlink.link(named: name), link.hardware != Self.tunnelHardware {
            throw LinuxNetworkError(
                .netlink(operation: "set up interface '\(name)': the name belongs to one of another kind"),
                errno: EEXIST)
        }
        if let left = ledger, !plan.contains(where: \.isFirewall) {
            // Undoing was not complete.
            try left.undoAll()
            ledger = nil
        }
        let ledger = try requireLedger()
        if numbers == nil { numbers = try freeNumbers() }
        // A guard that holds back what a tunnel carried stays until the new settings are there.
        guard plan.isEmpty, let table = try leakGuard()?.table else { return }
        plan = [.firewall(table)]
        try ledger.apply(plan)
    }

    /// - Throws: where a policy is asked for that needs rules, and there are none for the table that was named.
    private func checkTable(_ policy: LeakPolicy) throws(LinuxNetworkError) {
        guard options.namedTable == nil || policy == .routeBased else {
            throw LinuxNetworkError(.leakPolicyNeedsRules)
        }
    }

    /// `ARPHRD_NONE`, what TUN interfaces are.
    private static let tunnelHardware: UInt16 = 0xfffe

    private func requireLedger() throws(LinuxNetworkError) -> ChangeLedger {
        if let ledger { return ledger }
        let ledger = try ChangeLedger(
            name: name, directory: directory, system: system, owner: owner,
            keepsFirewall: policy == .everything)
        self.ledger = ledger
        plan = []
        return ledger
    }

    func apply(_ settings: TunnelSettings) throws(TunnelError) -> LinuxTun {
        let before = (plan, self.settings, policy)
        do throws(TunnelError) {
            return try bringIntoForce(settings)
        } catch {
            (plan, self.settings, policy) = before
            restorePlan()
            throw error
        }
    }

    private func restorePlan() {
        do throws(LinuxNetworkError) {
            try ledger?.apply(plan)
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
            policy = max(policy, settings.leakPolicy)
            try checkTable(policy)
            let ledger = try requireLedger()
            let mtu = try mtu(for: settings)
            if device == nil { try ledger.apply(plan + [.interface(name: name)]) }
            let device = try makeDevice(mtu: mtu)
            self.settings = settings
            var resolver: NetworkStep?
            if let dns = settings.dns { resolver = try resolverStep(dns) }
            let next = try steps(settings, mtu: mtu, resolver: resolver)
            try ledger.apply(next)
            plan = next
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
            device = made
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
        // Its owner has closed it, and with it went what the kernel keeps by interfaces.
        device?.close()
        device = nil
        settings = nil
        guard let ledger else { return }
        do throws(LinuxNetworkError) {
            plan = leavingBlocked ? plan.filter(\.isFirewall) : []
            if plan.isEmpty {
                try ledger.undoAll()
                self.ledger = nil
                numbers = nil
            } else {
                try ledger.apply(plan)
            }
        } catch {
            logger.error("\(error)")
        }
    }

    /// Looks again at what routes and firewall have to know of the local network.
    func refresh() {
        guard let settings, settings.allowsLocalNetwork, let ledger else { return }
        do throws(LinuxNetworkError) {
            let resolver = plan.first { if case .resolver = $0 { true } else { false } }
            let next = try steps(settings, mtu: mtu, resolver: resolver)
            guard next != plan else { return }
            try ledger.apply(next)
            plan = next
        } catch {
            logger.warning("routes and firewall do not fit the new local network: \(error)")
        }
    }

    func outsideNameServers() -> [IPAddress] {
        do throws(LinuxNetworkError) {
            return try network.resolver.outsideServers(tunnel: name, record: ledger?.resolverRecord)
        } catch {
            logger.warning("the network's name servers are not known: \(error)")
            return []
        }
    }

    // MARK: - Plans

    private func steps(
        _ settings: TunnelSettings, mtu: Int, resolver: NetworkStep?
    ) throws(LinuxNetworkError) -> [NetworkStep] {
        let interface = try interface()
        let routing = try routingPlan(settings, interface)
        var steps: [NetworkStep] = []
        if let table = try leakGuard()?.table {
            if policy != .routeBased || SystemProgram("nft") != nil {
                steps.append(.firewall(table))
            } else {
                logger.warning(
                    "nft is not installed, so nothing drops packets that pretend to come from the tunnel")
            }
        }
        steps.append(.interface(name: name))
        steps += settings.addresses.filter { routing.hasIPv6 || !$0.isIPv6 }.map { .address($0, interface) }
        steps.append(.link(interface, mtu: mtu))
        steps += routing.steps()
        if let resolver { steps.append(resolver) }
        if settings.proxy != nil { logger.warning("Linux has no proxy settings for the whole system: left out") }
        return steps
    }

    private func interface() throws(LinuxNetworkError) -> InterfaceReference {
        guard let link = try network.netlink.link(named: name) else {
            throw LinuxNetworkError(.netlink(operation: "find interface '\(name)'"), errno: ENODEV)
        }
        return InterfaceReference(name: name, index: link.index)
    }

    private func routingPlan(
        _ settings: TunnelSettings, _ interface: InterfaceReference
    ) throws(LinuxNetworkError) -> RoutingPlan {
        let hasIPv6 = try hasIPv6(interface.name)
        if !hasIPv6, settings.addresses.contains(where: \.isIPv6) {
            logger.warning(
                "IPv6 is switched off on this host: the tunnel's addresses and routes of IPv6 are left out")
        }
        var settings = settings
        settings.leakPolicy = policy
        return RoutingPlan(
            settings: settings, interface: interface, numbers: try requireNumbers(), hasIPv6: hasIPv6,
            localNetworks: settings.allowsLocalNetwork ? try localNetworks() : [], namedTable: options.namedTable)
    }

    private func hasIPv6(_ interface: String) throws(LinuxNetworkError) -> Bool {
        try SmallFile.text("/proc/sys/net/ipv6/conf/\(interface)/disable_ipv6") == "0"
    }

    private func leakGuard() throws(LinuxNetworkError) -> LeakGuard? {
        let numbers = try requireNumbers()
        guard let settings else { return LeakGuard(name: name, policy: policy, mark: numbers.mark) }
        let link = try network.netlink.link(named: name)
        let routing = try routingPlan(settings, InterfaceReference(name: name, index: link?.index ?? 0))
        return LeakGuard(
            name: name, policy: policy, mark: numbers.mark, settings: settings, tunnelled: routing.tunnelled,
            localNetworks: routing.localNetworks,
            routesByMark: routing.usesOwnTable(isIPv6: false) || routing.usesOwnTable(isIPv6: true))
    }

    /// The networks that are attached directly, other than by the tunnel.
    private func localNetworks() throws(LinuxNetworkError) -> [IPPrefix] {
        let ours = try network.netlink.link(named: name)?.index
        var networks: Set<IPPrefix> = []
        for isIPv6 in [false, true] {
            for route in try network.netlink.routes(isIPv6: isIPv6) {
                guard let key = route.key, key.table == Route.mainTable, key.destination.length > 0,
                    route.type == 1, route.gateway == nil, route.interface != 0, route.interface != ours
                else { continue }
                networks.insert(key.destination)
            }
        }
        return networks.sorted { $0.description < $1.description }
    }

    private func resolverStep(_ dns: DNSSettings) throws(LinuxNetworkError) -> NetworkStep? {
        let manager = try network.resolver.manager()
        if dns.servers.isEmpty, manager != .resolved {
            // With resolvconf the tunnel's servers take the place of all others: none would, too.
            logger.warning(
                "search domains without name servers are left out: only systemd-resolved has a use for them")
            return nil
        }
        guard let manager else {
            return try lacking(LinuxNetworkError(.noResolverManager))
        }
        if !dns.matchDomains.isEmpty, manager != .resolved {
            return try lacking(
                LinuxNetworkError(
                    .resolverLimit(
                        manager: manager.title,
                        reason: "cannot ask the tunnel's servers for some domains only; systemd-resolved can")))
        }
        return .resolver(ResolverPlan(interface: try interface(), manager: manager, settings: dns))
    }

    private func lacking(_ error: LinuxNetworkError) throws(LinuxNetworkError) -> NetworkStep? {
        guard options.nameServers == .wanted else { throw error }
        logger.warning("the tunnel's name servers are left out: \(error)")
        return nil
    }

    // MARK: - Numbers

    private func requireNumbers() throws(LinuxNetworkError) -> RoutingNumbers {
        if let numbers { return numbers }
        let found = try freeNumbers()
        numbers = found
        return found
    }

    private func freeNumbers() throws(LinuxNetworkError) -> RoutingNumbers {
        let rules4 = try network.netlink.rules(isIPv6: false).map(\.rule)
        let rules6 = try network.netlink.rules(isIPv6: true).map(\.rule)
        var tables: Set<UInt32> = []
        for isIPv6 in [false, true] {
            tables.formUnion(try network.netlink.routes(isIPv6: isIPv6).compactMap { $0.key?.table })
        }
        // It may well have no route yet.
        if let table = options.namedTable { tables.insert(table) }
        var mark = options.mark
        if mark == nil { mark = try RoutingNumbers.freeTable(rules: rules4 + rules6, tables: tables) }
        return RoutingNumbers(
            mark: mark ?? RoutingNumbers.firstTable, priority4: try RoutingNumbers.freePriority(before: rules4),
            priority6: try RoutingNumbers.freePriority(before: rules6))
    }

    /// The MTU of the way to the server less what the tunnel adds, as wg-quick(8) has it.
    private func mtu(for settings: TunnelSettings) throws(LinuxNetworkError) -> Int {
        if let mtu = settings.mtu { return mtu }
        // Where the server is known by name only, the default routes: no packet is sent to these addresses, which are
        // for documentation (RFC 5737, RFC 3849).
        let somewhere = ["198.51.100.1", "2001:db8::1"].compactMap { try? IPAddress($0) }
        let targets = ServerText.address(in: settings.remoteAddress).map { [$0] } ?? somewhere
        let mark = try requireNumbers().mark
        for target in targets {
            if let way = try network.netlink.way(to: target, mark: mark) {
                return settings.effectiveMTU(pathMTU: min(way.mtu, 65_535))
            }
        }
        return settings.effectiveMTU()
    }
}

/// A server as people write it.
enum ServerText {
    /// The address in `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`; nil for a name.
    static func address(in text: String) -> IPAddress? {
        if let address = try? IPAddress(text) { return address }
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            return try? IPAddress(text[text.index(after: text.startIndex)..<end])
        }
        return text.lastIndex(of: ":").flatMap { try? IPAddress(text[..<$0]) }
    }
}
