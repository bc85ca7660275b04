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
    private let logger: Logger
    private let network: LinuxNetwork
    private var running: Running?
    /// Whether forwarding is suspended because the rules were lost, or their state is not known.
    private(set) var isHeld = false
    /// Whether the interfaces were taken down too, because the rules were not restored.
    private var areLinksDown = false
    private(set) var repairs = NetworkRepairs()
    /// The parts of the network that are not in effect.
    private(set) var problems = NetworkProblems()
    /// The clients that are excluded, since the kernel or another client's network refuses them.
    private(set) var exclusions = NetworkProblems()
    /// The limits and rules that this kernel does not support.
    private(set) var warnings: [String] = []
    /// The error of the firewall's last comparison or change.
    private var firewallProblem: LinuxNetworkError?
    /// The time since which the firewall's state is not known.
    private var unknownSince: Int64?
    /// The problem of the clients' routes, and the other parts that are not in effect, each with its problem.
    private var clientProblem: LinuxNetworkError?
    private var routingProblems: [(part: String, what: String)] = []
    /// The networks whose connections must end, and the number of the start that they belong to.
    private var ends = ConnectionEnds()
    private var starts = 0
    /// Whether a change since the start has named all clients.
    private var knowsClients = false
    private var connectionProblem: LinuxNetworkError?
    /// The time from which excluded clients are tried again.
    private var nextExclusions = Int64.min
    /// Whether this process has changed the firewall's clients since they were last listed, and the time of that listing.
    private var hasChangedClients = false
    private var nextListing = Int64.min

    /// The state between start and stop.
    private struct Running {
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
            return (ledger, carriesIPv6 ? wanted : wanted.withoutIPv6)
        }
        do throws(TunnelServerError) {
            let made = try make(settings, ledger, isMultiQueue: isMultiQueue)
            starts += 1
            (ends, knowsClients) = (ConnectionEnds(), false)
            running = made
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
                try ledger.apply([rules] + plan)
                let system = HostClientSystem(network, ledger, firewall)
                let clients = ClientNetwork(firewall, system, interfaces, logger: logger)
                try clients.listTable()
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
        (isHeld, areLinksDown) = (false, false)
        (firewallProblem, unknownSince, clientProblem, routingProblems) = (nil, nil, nil, [])
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

    private static func ipv6Switch(_ interface: String) -> String { "\(kernel)/ipv6/conf/\(interface)/disable_ipv6" }

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

    // MARK: - Connections

    /// The end of connections of removed clients, on another thread.
    struct ConnectionEnd: Sendable {
        let attempt: ConnectionEnds.Attempt
        fileprivate let start: Int
    }

    /// Whether connections of removed clients are being ended.
    var isEndingConnections: Bool { ends.attempt != nil }
    /// Whether connections of removed clients must be ended, and are not being ended.
    var hasConnectionsToEnd: Bool { ends.isDue }

    /// Returns those of `networks` whose former clients' connections are being ended or must be ended. A new client
    /// with such an address would receive the packets of these connections.
    func withConnections(_ networks: Set<IPPrefix>) -> Set<IPPrefix> {
        networks.filter(ends.includes)
    }

    /// Whether a prefix is a desired client's.
    func isDesired(_ prefix: IPPrefix) -> Bool { running?.clients.isDesired(prefix) == true }

    /// Begins an attempt to end connections that the firewall no longer permits. The caller must end them and then call
    /// ``ended(_:_:)`` with the result.
    /// - Parameter retries: Whether connections that an earlier attempt has not ended are tried again.
    /// - Returns: `nil` if there are none, if another thread is ending connections, or while a change of clients is not
    ///   applied.
    func connectionsToEnd(retries: Bool) -> ConnectionEnd? {
        guard let running, running.clients.isCurrent else { return nil }
        // The server's own connections with clients stay.
        let own = running.firewall.settings.addresses.map { IPPrefix(host: $0.address) }
        return ends.begin(retries: retries, clients: running.clients.allDesired + own)
            .map { ConnectionEnd(attempt: $0, start: starts) }
    }

    /// Records the result of the attempt that ``connectionsToEnd(retries:)`` began. Connections that were not ended are
    /// tried again, except for those of addresses that clients have now.
    func ended(_ end: ConnectionEnd, _ result: EndResult) {
        guard end.start == starts, running != nil else { return }
        ends.finish(isDone: recordEnd(result), isClient: isDesired)
    }

    /// - Returns: `false` if it must be tried again.
    private func recordEnd(_ result: EndResult) -> Bool {
        switch result {
        case .success(let (count, failure)):
            logger.debug("ended \(count) connections of former clients")
            report(failure, isFinal: false)
            return failure == nil
        case .failure(let error):
            // A kernel that does not list connections will not do so later.
            let isFinal = ConnectionSocket.isUnsupported(error)
            report(error, isFinal: isFinal)
            return isFinal
        }
    }

    private func report(_ error: LinuxNetworkError?, isFinal: Bool) {
        if let error, error != connectionProblem {
            logger.warning("cannot end the connections of former clients\(isFinal ? "" : ", will retry"): \(error)")
        }
        connectionProblem = error
    }

    /// Whether everything is applied, except for clients that are excluded.
    var isCurrent: Bool { problems.list.isEmpty && !isHeld && running?.clients.isCurrent != false }

    /// The time between two attempts to admit excluded clients. An attempt may need several runs of nft.
    private static let exclusionInterval: Int64 = 4 * LaneClock.nanosecondsPerSecond

    private func applyClients(_ running: Running) throws(LinuxNetworkError) {
        let clients = running.clients
        let hasExclusions = !clients.refusals.isEmpty
        let now = LaneClock.now()
        let retriesExclusions = hasExclusions && now >= nextExclusions
        guard !clients.isCurrent || retriesExclusions || isHeld else { return }
        if retriesExclusions || !hasExclusions { nextExclusions = now + Self.exclusionInterval }
        do throws(LinuxNetworkError) {
            try clients.reconcile(retryingRefused: retriesExclusions, hasLinks: !areLinksDown) {
                () throws(LinuxNetworkError) in
                (firewallProblem, unknownSince) = (nil, nil)
                try resumeForwarding(running)
            }
            clientProblem = nil
        } catch {
            clientProblem = error
            if !clients.isFirewallKnown {
                clientProblem = nil
                reportFirewall(error, running, since: now)
            }
            throw error
        }
    }

    /// Runs a step that records its error as a problem, so that the error is only logged here.
    private func attempt(_ body: () throws(LinuxNetworkError) -> Void) {
        do throws(LinuxNetworkError) { try body() } catch { logger.debug("will retry: \(error)") }
    }

    /// The time for which the firewall's state may be unknown while packets are forwarded.
    private static let longestUnknown: Int64 = 5 * LaneClock.nanosecondsPerSecond

    /// Stops forwarding if the firewall is lost, or if its state has been unknown for too long.
    /// - Parameter began: The time at which the attempt that failed began: nft may have taken long.
    private func reportFirewall(_ error: LinuxNetworkError, _ running: Running, since began: Int64) {
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
    private func publish() {
        var found = routingProblems
        if let clientProblem { found.insert(("the clients' routes", "the clients' routes: \(clientProblem)"), at: 0) }
        if let firewallProblem {
            let isStopped = isHeld ? "; nothing is forwarded until it is in effect" : ""
            found.insert(("the firewall", "the firewall: \(firewallProblem)\(isStopped)"), at: 0)
        } else if isHeld {
            found.insert(
                ("forwarding", "forwarding: the network cannot be restored after a loss of the firewall"), at: 0)
        }
        let now = Double(ProcessEnvironment.wallClock()) / 1e9
        let excluded = (running?.clients.refusals ?? [:]).sorted { "\($0.key)" < "\($1.key)" }
            .map { (part: "client \($0.key)", what: "client \($0.key): \($0.value)") }
        for difference in [problems.update(found, now: now), exclusions.update(excluded, now: now)] {
            for problem in difference.new { logger.error("not in effect: \(problem.what)") }
            for part in difference.solved { logger.notice("in effect again: \(part)") }
        }
    }

    // MARK: - Changes by other programs

    /// Compares the network with the desired state, and restores every difference. Routes are restored even if the
    /// firewall fails, and the reverse.
    /// - Returns: The time in nanoseconds after which it must be called again; `nil` if everything was compared, and is in effect.
    func reconcile(_ parts: NetworkWatch.Parts, culprit: String?) -> Int64? {
        guard let running else { return nil }
        defer { publish() }
        var isComplete = true
        // A firewall whose state is not known is loaded again below.
        let wasKnown = running.clients.isFirewallKnown
        let began = LaneClock.now()
        // The kernel answers within microseconds. nft may take seconds, or hang.
        if wasKnown, (try? network.lacksRules(running.firewall.tableName)) == true { holdForwarding(running) }
        if wasKnown, parts.contains(.firewall) || isHeld || firewallProblem != nil {
            do throws(LinuxNetworkError) {
                isComplete = try lookAtFirewall(running, culprit.map { " (by \($0))" } ?? "")
                (firewallProblem, unknownSince) = (nil, nil)
            } catch {
                isComplete = false
                reportFirewall(error, running, since: began)
            }
        }
        if firewallProblem == nil || !wasKnown {
            attempt { () throws(LinuxNetworkError) in try applyClients(running) }
        }
        if parts.contains(.routing) || !routingProblems.isEmpty { lookAtRouting(running) }
        if hasConnectionsToEnd || !isComplete || firewallProblem != nil || clientProblem != nil
            || !routingProblems.isEmpty || isHeld
        {
            return LaneClock.nanosecondsPerSecond
        }
        return running.clients.refusals.isEmpty ? nil : max(nextExclusions - LaneClock.now(), 1)
    }

    /// Restores links, addresses, settings and routes.
    private func lookAtRouting(_ running: Running) {
        routingProblems = []
        // `resumeForwarding` restores the rest.
        guard !isHeld else { return }
        do throws(LinuxNetworkError) {
            // Without its interface there is nothing to route. The owner of the descriptor is notified of a deletion, but not
            // if the interface was renamed or moved.
            if let missing = try missingInterface(running) {
                let remedy = "if it was renamed or moved to another network namespace, restore it or restart the server"
                routingProblems = [("interface \(missing)", "interface \(missing) is missing; \(remedy)")]
                return
            }
            // Without rules, packets must not be forwarded, or reach the server.
            let plan = running.plan.filter { firewallProblem == nil || !Self.isExposure($0) }
            let routes = running.clients.appliedRoutes.map { Change.route($0) }
            // Addresses need IPv6, so restore it before the rest is compared.
            let switches = Set(running.firewall.settings.tunnels.map { Self.ipv6Switch($0) })
            let first = running.ledger.repair(
                try running.ledger.undone(of: plan.filter { $0.settingPath.map(switches.contains) == true }))
            let repair = running.ledger.repair(
                try running.ledger.undone(
                    of: (plan + routes).filter { change in !first.failures.contains { $0.change == change } }))
            recordRepair((first.made + repair.made).map(\.summary), "")
            routingProblems = (first.failures + repair.failures).map { change, error in
                (change.summary, "\(change.summary): \(error)")
            }
            routingProblems += try HostForwarding.problems(running.firewall.settings, links: network.netlink.links())
        } catch {
            routingProblems = [("the routes", "the routes: \(error)")]
        }
    }

    /// Returns the first of the tunnels' interfaces that this network namespace does not have.
    private func missingInterface(_ running: Running) throws(LinuxNetworkError) -> String? {
        for name in running.firewall.settings.tunnels where try network.netlink.link(named: name) == nil { return name }
        return nil
    }

    /// The least time between two listings of the clients while only this process changes them: there may be many.
    private static let listingInterval: Int64 = 5 * LaneClock.nanosecondsPerSecond
    /// The least pause after such a listing, as a multiple of the time that the listing took.
    private static let listingRest: Int64 = 50

    private func lookAtFirewall(_ running: Running, _ origin: String) throws(LinuxNetworkError) -> Bool {
        let (firewall, clients) = (running.firewall, running.clients)
        guard !clients.isUntouched else { return true }
        let generation = clients.generation
        // The rules are compared without the content of maps, which changes all the time.
        let present = try network.present(firewall.tableName)
        guard present.isFixed, try clients.hasChains(present.listing.owned) else {
            return try reload(running, ["firewall table \(firewall.tableName)"], origin)
        }
        let began = LaneClock.now()
        if hasChangedClients, began < nextListing { return false }
        let counts = clients.counts
        let contents = try running.system.contents(lines: counts.clients + counts.chains * 8)
        let ended = LaneClock.now()
        hasChangedClients = false
        nextListing = ended + max(Self.listingInterval, Self.listingRest * (ended - began))
        guard contents != clients.contents else {
            clients.recordCompared(since: generation)
            return true
        }
        let elements = ["clients of firewall table \(firewall.tableName)"]
        guard contents.only(firewall.fixedSets) == clients.listed.sets else {
            return try reload(running, elements, origin)
        }
        do throws(LinuxNetworkError) { try clients.restoreElements() } catch {
            logger.warning("cannot restore the firewall's clients, applying all of them again: \(error)")
            return try reload(running, elements, origin)
        }
        recordRepair(elements, origin)
        return true
    }

    /// Loads the firewall again, which another process has changed.
    private func reload(
        _ running: Running, _ undone: [String], _ origin: String
    ) throws(LinuxNetworkError) -> Bool {
        running.clients.invalidateFirewall()
        do throws(LinuxNetworkError) { try applyClients(running) } catch {
            // If only the routes failed, the firewall is loaded.
            guard running.clients.isFirewallKnown else { throw error }
        }
        hasChangedClients = false
        recordRepair(undone, origin)
        return true
    }

    private func recordRepair(_ undone: [String], _ origin: String) {
        guard !undone.isEmpty else { return }
        let text = undone.joined(separator: ", ") + origin
        repairs.record(text)
        logger.warning("another program changed the server's network; the server restored it: \(text)")
    }

    private static func isForwarding(_ step: Change) -> Bool {
        step.settingPath.map(HostForwarding.paths.contains) == true
    }

    /// Whether packets of clients are received, or forwarded, because of a change.
    private static func isExposure(_ step: Change) -> Bool {
        if case .link = step { return true }
        return isForwarding(step)
    }

    /// Resets forwarding to the host's own setting: without rules the server would forward every packet. Sessions continue.
    private func holdForwarding(_ running: Running) {
        guard !isHeld else { return }
        isHeld = true
        do throws(LinuxNetworkError) {
            try running.ledger.suspend(running.plan.filter(Self.isForwarding))
        } catch {
            logger.error("\(error)")
        }
    }

    /// Stops forwarding, and takes the interfaces down, so that nothing reaches the server through them. The whole firewall is
    /// loaded again before packets are forwarded.
    private func suspendForwarding(_ running: Running) {
        running.clients.invalidateFirewall()
        holdForwarding(running)
        guard !areLinksDown else { return }
        areLinksDown = true
        // The kernel removes the routes with the link.
        running.clients.invalidateRoutes()
        // Each device separately: a missing device must not keep another one up.
        for device in [running.device] + running.further {
            do throws(TunnelIOError) { try device.setUp(false) } catch { logger.error("\(error)") }
        }
        logger.error("nothing is forwarded until the firewall is in effect again")
    }

    /// Reverts ``holdForwarding(_:)`` and ``suspendForwarding(_:)``: brings the interfaces up, and forwards packets again.
    private func resumeForwarding(_ running: Running) throws(LinuxNetworkError) {
        guard isHeld else { return }
        // ``lookAtRouting(_:)`` reports a missing interface.
        if try missingInterface(running) == nil { try running.ledger.restore(running.ledger.undone(of: running.plan)) }
        if areLinksDown { logger.notice("the firewall is in effect again, and packets are forwarded") }
        (isHeld, areLinksDown) = (false, false)
    }
}
