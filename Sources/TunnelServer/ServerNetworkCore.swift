// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import NetworkAddresses
import PacketTunnelLinux
import TunnelIO
import TunnelSystem

/// The work of ``ServerNetwork`` without its thread. Use it from one thread at a time, in the network namespace where it was
/// created.
final class ServerNetworkCore {
    private let wanted: ServerNetworkSettings
    let logger: Logger
    let network: LinuxNetwork
    var running: Running?
    /// Whether forwarding is suspended because the rules were lost, or their state is not known.
    var isHeld = false
    /// Whether the interfaces were taken down too, because the rules were not restored.
    var areLinksDown = false
    /// The losses of the firewall, which determine when forwarding resumes.
    var losses = LossBackoff()
    var repairs = NetworkRepairs()
    /// The parts of the firewall that another process has undone, and the name of that process. `nil` once the firewall is
    /// in effect again, which may take several attempts.
    var unrecordedRepair: (undone: [String], origin: String)?
    /// The parts of the network that are not in effect.
    private(set) var problems = NetworkProblems()
    /// The clients that are excluded, since the kernel or another client's network refuses them.
    private(set) var exclusions = NetworkProblems()
    /// The limits and rules that this kernel does not support.
    private(set) var warnings: [String] = []
    /// The error of the firewall's last comparison or change.
    var firewallProblem: LinuxNetworkError?
    /// The time since which the firewall's state is not known.
    var unknownSince: Int64?
    /// The problem of the clients' routes, and the other parts that are not in effect, each with its problem.
    var clientProblem: LinuxNetworkError?
    /// The error of the last attempt to resume forwarding.
    var resumeProblem: LinuxNetworkError?
    var routingProblems: [(part: String, what: String)] = []
    /// The networks whose connections must end, and the number of the start that they belong to.
    var ends = ConnectionEnds()
    var starts = 0
    /// Whether a change since the start has named all clients.
    private var knowsClients = false
    var connectionProblem: LinuxNetworkError?
    /// The time from which excluded clients are tried again.
    var nextExclusions = Int64.min
    /// Whether this process has changed the firewall's clients since they were last listed, and the time of that listing.
    var hasChangedClients = false
    var nextListing = Int64.min

    /// The state between start and stop.
    struct Running {
        var ledger: ChangeLedger
        var device: LinuxTun
        /// The devices of the further tunnels.
        var further: [LinuxTun]
        var firewall: ServerFirewall
        var system: HostClientSystem
        var clients: ClientNetwork
        /// The changes of the network, except for the firewall and the routes to clients and the networks behind them.
        var plan: [Change]
    }

    /// The number of connections that were ended, and the error of the first that was not.
    typealias EndCount = (count: Int, failure: LinuxNetworkError?)
    typealias EndResult = Result<EndCount, LinuxNetworkError>
    /// Ends the connections of these networks.
    typealias EndConnections = @Sendable ([IPPrefix]) throws(LinuxNetworkError) -> EndCount
    /// Ends the connections of these networks, but none of these addresses unless the networks name the address itself.
    typealias EndOtherConnections = @Sendable ([IPPrefix], Set<IPAddress>) throws(LinuxNetworkError) -> EndCount

    init(_ settings: ServerNetworkSettings, logger: Logger) throws(LinuxNetworkError) {
        wanted = settings
        self.logger = logger
        network = try LinuxNetwork()
    }

    private var directory: JournalDirectory { JournalDirectory(path: wanted.journalFolder) }

    // MARK: - Start and end

    /// Creates the interface and its settings: the firewall rules first, then addresses, and forwarding last.
    /// - Returns: the devices, and the settings in effect: without IPv6 if the host has it disabled.
    func start(isMultiQueue: Bool) throws(TunnelServerError) -> (LinuxTun, [LinuxTun], ServerNetworkSettings) {
        if let running { return (running.device, running.further, running.firewall.settings) }
        if let taken = try Self.onHost({ () throws(LinuxNetworkError) in try wanted.takenInterface(network) }) {
            throw .interfaceTaken(taken)
        }
        let (ledger, settings) = try Self.onHost { () throws(LinuxNetworkError) in
            let carriesIPv6 = try Self.hostHasIPv6()
            if !carriesIPv6, wanted.addresses.contains(where: \.isIPv6) {
                logger.warning("IPv6 is disabled on this host: clients get IPv4 addresses only")
            }
            // Undoes the changes of an earlier process before anything reads the host's own settings.
            defer { reportKeptForwarding() }
            let ledger = try ChangeLedger(name: wanted.name, directory: directory, system: network)
            // Another process may keep the lock of the journals for seconds.
            ledger.whileWaiting = network.whileWaiting
            return (ledger, carriesIPv6 ? wanted : wanted.withoutIPv6)
        }
        do throws(TunnelServerError) {
            let made = try make(settings, ledger, isMultiQueue: isMultiQueue)
            starts += 1
            (ends, knowsClients) = (ConnectionEnds(), false)
            running = made
            // The kernel's notices had no effect until now, and packets are already forwarded.
            holdIfRulesAreMissing(made, orUnknown: true)
            return (made.device, made.further, settings)
        } catch {
            stop(ledger)
            throw error
        }
    }

    private func make(
        _ settings: ServerNetworkSettings, _ ledger: ChangeLedger, isMultiQueue: Bool
    ) throws(TunnelServerError) -> Running {
        var limited = settings
        warnings = []
        if settings.flowsPerSource > 0,
            let error = try Self.onHost({ () throws(LinuxNetworkError) in try probeFlowLimit() })
        {
            warnings = [
                "clients may begin any number of flows, since this kernel cannot count them (nft_connlimit): \(error)"
            ]
            for warning in warnings { logger.warning("\(warning)") }
            limited.flowsPerSource = 0
        }
        let firewall = ServerFirewall(
            limited,
            forwardedForClients: try Self.onHost { () throws(LinuxNetworkError) in
                try HostForwarding.forServers(
                    settings, network, others: directory.pendingChanges(except: settings.name))
            })
        let rules = Change.firewall(firewall.table)
        try Self.onHost { () throws(LinuxNetworkError) in
            try ledger.apply([rules] + settings.tunnels.map { .interface(name: $0) })
        }
        let device: LinuxTun
        var further: [LinuxTun] = []
        do throws(TunnelIOError) {
            device = try LinuxTun.make(name: settings.name, mtu: settings.mtu, prefersQueues: isMultiQueue)
        } catch {
            throw .interface(error)
        }
        do throws(TunnelIOError) {
            for name in settings.furtherTunnels {
                further.append(try LinuxTun.make(name: name, mtu: settings.mtu, prefersQueues: isMultiQueue))
            }
        } catch {
            for device in [device] + further { device.close() }
            throw .interface(error)
        }
        do throws(TunnelServerError) {
            return try Self.onHost { () throws(LinuxNetworkError) in
                let (plan, interfaces) = try steps(settings)
                let system = HostClientSystem(network, ledger, firewall)
                let clients = ClientNetwork(firewall, system, interfaces, logger: logger)
                // Forwarding is enabled last: nft may take seconds.
                try clients.listTable()
                try ledger.apply([rules] + plan)
                return Running(
                    ledger: ledger, device: device, further: further, firewall: firewall, system: system,
                    clients: clients, plan: plan)
            }
        } catch {
            for device in [device] + further { device.close() }
            throw error
        }
    }

    /// Has the kernel validate the limit of flows, which needs a module that may be missing.
    /// - Returns: The kernel's refusal, or `nil`.
    private func probeFlowLimit() throws(LinuxNetworkError) -> LinuxNetworkError? {
        do throws(LinuxNetworkError) {
            try SystemProgram.required("nft").check(
                ["--check", "-j", "-f", "-"], input: NFT.script(ServerFirewall.flowLimitProbe))
            return nil
        } catch {
            guard error.isRefusal else { throw error }
            return error
        }
    }

    private static func onHost<Result>(
        _ body: () throws(LinuxNetworkError) -> Result
    ) throws(TunnelServerError) -> Result {
        do throws(LinuxNetworkError) { return try body() } catch { throw .network(error) }
    }

    /// Stops the network, and undoes all of its changes.
    func stop() {
        guard let running else { return }
        self.running = nil
        for device in [running.device] + running.further { device.close() }
        stop(running.ledger)
        ends = ConnectionEnds()
        (isHeld, areLinksDown, losses, unrecordedRepair) = (false, false, LossBackoff(), nil)
        (firewallProblem, unknownSince, clientProblem, resumeProblem, routingProblems) = (nil, nil, nil, nil, [])
        (problems, exclusions, warnings) = (NetworkProblems(), NetworkProblems(), [])
    }

    private func stop(_ ledger: ChangeLedger) {
        do throws(LinuxNetworkError) { try ledger.undoAll() } catch { logger.error("\(error)") }
        reportKeptForwarding()
    }

    private func reportKeptForwarding() {
        for kept in network.takeKeptForwarding() {
            logger.warning(
                """
                \(kept.path) stays 1, so the host forwards packets: \(kept.interfaces.joined(separator: ", ")) began after the gateway \
                and may need it; see "Containers on the gateway" in docs/gateway-rules.md
                """)
        }
    }

    // MARK: - Steps

    private static let kernel = "/proc/sys/net"

    static func ipv6Switch(_ interface: String) -> String { "\(kernel)/ipv6/conf/\(interface)/disable_ipv6" }

    private static func hostHasIPv6() throws(LinuxNetworkError) -> Bool {
        for part in ["all", "default"] {
            guard try SmallFile.text(ipv6Switch(part)) == "0" else { return false }
        }
        return true
    }

    /// The changes of the network except for the firewall, in their order; forwarding is last.
    private func steps(
        _ settings: ServerNetworkSettings
    ) throws(LinuxNetworkError) -> ([Change], ClientNetwork.Interfaces) {
        let interface = try reference(settings.name)
        var interfaces = ClientNetwork.Interfaces(first: interface)
        var steps: [Change] = [.interface(name: settings.name)]
        if settings.addresses.contains(where: \.isIPv6) {
            // The kernel refuses IPv6 addresses while this is 1, which another program may set later.
            steps += settings.tunnels.map { .setting(path: Self.ipv6Switch($0), value: "0") }
        }
        steps += settings.addresses.map { .address($0, interface) }
        steps.append(.link(interface, mtu: settings.mtu))
        for name in settings.furtherTunnels {
            let other = try reference(name)
            interfaces.others[name] = other
            steps += [.interface(name: name), .link(other, mtu: settings.mtu)]
        }
        if settings.addresses.contains(where: { !$0.isIPv6 }) {
            steps.append(.setting(path: HostForwarding.path(isIPv6: false), value: "1"))
            // A new interface gets the value of `default`.
            steps += settings.tunnels.map {
                .setting(path: "\(Self.kernel)/ipv4/conf/\($0)/forwarding", value: "1")
            }
        }
        if settings.addresses.contains(where: \.isIPv6) {
            // A host that forwards ignores router advertisements unless it is told to accept them: the server would lose its
            // own address and route.
            for link in try network.netlink.links() where !link.isLoopback && !settings.tunnels.contains(link.name) {
                let path = "\(Self.kernel)/ipv6/conf/\(link.name)/accept_ra"
                // 2 may be another server's value, which must last as long as this server.
                if try ["1", "2"].contains(SmallFile.text(path)) { steps.append(.setting(path: path, value: "2")) }
            }
            steps.append(.setting(path: HostForwarding.path(isIPv6: true), value: "1"))
        }
        return (steps, interfaces)
    }

    private func reference(_ name: String) throws(LinuxNetworkError) -> InterfaceReference {
        guard let link = try network.netlink.link(named: name) else {
            throw LinuxNetworkError(.netlink(operation: "find interface '\(name)'"), errno: ENODEV)
        }
        return InterfaceReference(name: name, index: link.index)
    }

    // MARK: - Clients

    /// Changes the desired clients, and applies them. ``reconcile(_:culprit:)`` repeats a failed change from the desired state.
    /// - Parameters:
    ///   - changes: The access of each address, or network behind a client; `nil` removes it.
    ///   - isComplete: Whether all other clients are removed. After the first such change, the connections of all other addresses in
    ///     the clients' networks end.
    ///   - removed: Clients that were removed before this change, even if it admits them again.
    /// - Returns: The clients that are excluded, each with the reason; the others are applied.
    func change(
        _ changes: [IPPrefix: ClientAccess?], isComplete: Bool = false, released removed: Set<IPPrefix> = []
    ) throws(TunnelServerError) -> [IPPrefix: TunnelServerError] {
        guard let running else { throw .notRunning }
        ends.release(removed.union(running.clients.removed(by: changes, isComplete: isComplete)))
        if isComplete, !knowsClients {
            // An earlier process may not have ended the connections of its former clients. The present clients keep
            // their connections.
            ends.retry(running.firewall.settings.networks)
            knowsClients = true
        } else {
            ends.admit(changes.filter { $0.value != nil && !running.clients.isDesired($0.key) }.keys)
        }
        running.clients.setDesired(changes, isComplete: isComplete)
        if !running.clients.isCurrent { hasChangedClients = true }
        defer { publish() }
        try Self.onHost { () throws(LinuxNetworkError) in try applyClients(running) }
        return running.clients.refusals
    }

    /// Checks networks that clients are about to get.
    /// - Throws: `.subnet` for the first that no client may get.
    func check(subnets: [IPPrefix]) throws(TunnelServerError) {
        guard let clients = running?.clients else { throw .notRunning }
        let refusal = try Self.onHost { () throws(LinuxNetworkError) in
            try clients.refusal(among: subnets, on: network)
        }
        if let refusal { throw .subnet(refusal.subnet, refusal.reason) }
    }

    /// Whether everything is applied, except for clients that are excluded.
    var isCurrent: Bool { problems.list.isEmpty && !isHeld && running?.clients.isCurrent != false }

    /// The time between two attempts to admit excluded clients. An attempt may need several runs of nft.
    private static let exclusionInterval: Int64 = 4 * LaneClock.nanosecondsPerSecond

    func applyClients(_ running: Running) throws(LinuxNetworkError) {
        let clients = running.clients
        let hasExclusions = !clients.refusals.isEmpty
        let now = LaneClock.now()
        let retriesExclusions = hasExclusions && now >= nextExclusions
        guard !clients.isCurrent || retriesExclusions || isHeld else { return }
        if retriesExclusions || !hasExclusions { nextExclusions = now + Self.exclusionInterval }
        // Without the table, a change fails only after several runs of nft.
        let isLost = clients.isFirewallKnown && holdIfRulesAreMissing(running)
        if isLost {
            clients.invalidateFirewall()
            unrecordedRepair = unrecordedRepair ?? (["firewall table \(running.firewall.tableName)"], "")
        }
        let wasKnown = clients.isFirewallKnown
        if areLinksDown { clients.invalidateRoutes() }
        resumeProblem = nil
        do throws(LinuxNetworkError) {
            try clients.reconcile(retryingRefused: retriesExclusions, hasLinks: !areLinksDown) {
                () throws(LinuxNetworkError) in
                // A change of single clients does not show that the other rules are in effect.
                if !wasKnown { (firewallProblem, unknownSince) = (nil, nil) }
                if let (undone, origin) = unrecordedRepair { recordRepair(undone, origin) }
                unrecordedRepair = nil
                do throws(LinuxNetworkError) { return try resumeForwarding(running) } catch {
                    resumeProblem = error
                    throw error
                }
            }
            clientProblem = nil
        } catch {
            clientProblem = resumeProblem == nil ? error : nil
            if !clients.isFirewallKnown {
                clientProblem = nil
                reportFirewall(error, running, since: now)
            }
            throw error
        }
    }

    /// Runs a step that records its error as a problem, so that the error is only logged here.
    func attempt(_ body: () throws(LinuxNetworkError) -> Void) {
        do throws(LinuxNetworkError) { try body() } catch { logger.debug("will retry: \(error)") }
    }

    /// The time for which the firewall's state may be unknown while packets are forwarded.
    private static let longestUnknown: Int64 = 5 * LaneClock.nanosecondsPerSecond

    /// Stops forwarding if the firewall is lost, or if its state has been unknown for too long.
    /// - Parameter began: The time at which the attempt that failed began: nft may have taken long.
    func reportFirewall(_ error: LinuxNetworkError, _ running: Running, since began: Int64) {
        firewallProblem = error
        // The rules were not compared: load them again before packets are forwarded.
        if isHeld { running.clients.invalidateFirewall() }
        if (try? network.lacksRules(running.firewall.tableName)) == true { return suspendForwarding(running) }
        // Without descriptors nft cannot be started. The firewall may be unchanged.
        guard !error.isOutOfDescriptors else { return }
        let since = unknownSince ?? began
        unknownSince = since
        if LaneClock.now() - since >= Self.longestUnknown { suspendForwarding(running) }
    }

    /// Updates the lists of problems and excluded clients from the current state, and logs the differences.
    func publish() {
        var found = routingProblems
        if let clientProblem { found.insert(("the clients' routes", "the clients' routes: \(clientProblem)"), at: 0) }
        if let firewallProblem {
            let isStopped = isHeld ? "; nothing is forwarded until it is in effect" : ""
            found.insert(("the firewall", "the firewall: \(firewallProblem)\(isStopped)"), at: 0)
        } else if isHeld {
            found.insert(("forwarding", heldProblem), at: 0)
        }
        let now = Double(ProcessEnvironment.wallClock()) / 1e9
        let excluded = (running?.clients.refusals ?? [:]).sorted { "\($0.key)" < "\($1.key)" }
            .map { (part: "client \($0.key)", what: "client \($0.key): \($0.value)") }
        for difference in [problems.update(found, now: now), exclusions.update(excluded, now: now)] {
            for problem in difference.new { logger.error("not in effect: \(problem.what)") }
            for part in difference.solved { logger.notice("in effect again: \(part)") }
        }
    }
}
