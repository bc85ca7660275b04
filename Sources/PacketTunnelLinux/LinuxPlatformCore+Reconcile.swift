// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import NetworkAddresses
import PacketTunnel
import TunnelIO
import TunnelSystem

/// Repairs of the tunnel's network.
extension LinuxPlatformCore {
    /// The results of one check.
    struct Check {
        /// The parts that are not in effect, each with its problem.
        var found: [(part: String, what: String)] = []
        /// The time in nanoseconds until the next check; `nil` if none is needed.
        var next: Int64?

        /// Makes the next check happen after this time at the latest.
        mutating func repeatAfter(_ time: Int64) { next = min(next ?? .max, time) }
    }

    /// The time until a failed step is retried, in nanoseconds.
    private static let retry = LaneClock.nanosecondsPerSecond

    /// Compares the network with the plan, and restores every difference.
    ///
    /// A step that fails becomes one of the ``problems`` and does not stop the others. Netlink changes come first,
    /// because they take microseconds; they are checked several times a second while nft runs. While the firewall is
    /// not in effect, policy rules refuse the packets that it would refuse.
    /// - Parameters:
    ///   - parts: The parts that may have changed.
    ///   - culprit: The process that changed the firewall.
    /// - Returns: The time in nanoseconds after which it must be called again; `nil` if everything is in effect.
    func reconcile(
        _ parts: NetworkWatch.Parts, culprit: String? = nil
    ) -> Int64? {
        (check, isChecking) = (Check(), true)
        defer {
            isChecking = false
            publish()
        }
        guard let ledger else { return nil }
        // Check this first, because it takes microseconds. The other steps may have to list thousands of routes of
        // other programs.
        if let table = plan.firewallTable, (try? network.lacksRules(table.name)) == true { raiseProtection(ledger) }
        let hasInterface = findInterface()
        keepRulesInFront(ledger)
        if settings != nil, hasInterface { restoreRouting(plan, ledger) }
        keepProtection(ledger)
        checkResolver(parts, ledger)
        // Do this before the steps that wait for the lock of the journals, which another process may hold.
        if !plan.isEmpty { reconcileFirewall(parts, ledger, culprit) }
        attempt("the leak policy that is held for this tunnel") { () throws(LinuxNetworkError) in
            try followHeldPolicy(ledger, hasInterface: hasInterface)
        }
        guard !plan.isEmpty else { return check.next }
        if hasInterface || settings == nil {
            attempt("what depends on the present networks") { () throws(LinuxNetworkError) in
                try followLocalNetworks(ledger)
            }
        }
        reportSharedRoutes()
        return check.next
    }

    /// Restores changes that need no program, while the thread waits for a program or for the lock of the journals. It
    /// restores deleted rules at each call, and everything several times a second. It restores only changes that were
    /// made and not undone, because the plan may be about to change.
    func keepWhileWaiting(_ ledger: ChangeLedger) {
        guard !isKeeping else { return }
        isKeeping = true
        defer { isKeeping = false }
        readNotices()
        guard waitingTurns.isDue(at: LaneClock.now()) else { return }
        if !isChecking { check = Check() }
        if isChecking { keepRulesInFront(ledger) }
        if findInterface() { restoreRouting(ledger.made.filter { !protection.contains($0) }, ledger) }
        keepProtection(ledger)
        if isChecking { checkResolver([], ledger) }
        keepFirewall(ledger)
        publish(isComplete: false)
        published()
    }

    /// The time after which an nft that has not ended counts as a problem, in nanoseconds.
    private static let slowness: Int64 = 750_000_000

    /// Adds the rules that replace the firewall, if it is lost or may not be in effect, while the thread waits.
    private func keepFirewall(_ ledger: ChangeLedger) {
        guard let table = plan.firewallTable else { return }
        let isUnknown = firewallAsked.map { LaneClock.now() - $0 >= Self.slowness } == true
        guard isUnknown || (try? network.lacksRules(table.name)) == true else { return }
        if firewallProblem == nil {
            let missing = "the table is missing, and is loaded after the present change"
            firewallProblem = isChecking ? "nft has not answered yet" : missing
        }
        raiseProtection(ledger)
    }

    /// Runs a step, and reports its error without stopping the check.
    func attempt(_ part: String, _ body: () throws(LinuxNetworkError) -> Void) {
        do throws(LinuxNetworkError) {
            try body()
        } catch {
            report(part, "\(error)")
        }
    }

    func report(_ part: String, _ reason: String, after time: Int64 = LaneClock.nanosecondsPerSecond) {
        check.found.append((part, "\(part): \(reason)"))
        check.repeatAfter(time)
    }

    /// Makes the results so far the present problems, and logs the differences.
    private func publish(isComplete: Bool = true) {
        var found = check.found
        if ledger != nil, let firewallProblem {
            let isHeldBack = protection.isEmpty ? "" : "; policy rules hold back packets outside the tunnel"
            found.insert(("the firewall", "the firewall: \(firewallProblem)\(isHeldBack)"), at: 0)
        }
        let now = Double(ProcessEnvironment.wallClock()) / 1e9
        let difference = problems.update(found, isComplete: isComplete, now: now)
        for problem in difference.new { logger.error("not in effect: \(problem.what)") }
        for part in difference.solved { logger.notice("in effect again: \(part)") }
    }

    // MARK: - The interface

    /// Looks up the tunnel's interface. The data plane notices if the interface is deleted. If it is renamed or moved,
    /// this ends the tunnel.
    /// - Returns: `true` if the interface exists under the tunnel's name.
    private func findInterface() -> Bool {
        guard let device else { return false }
        let name = name
        do throws(LinuxNetworkError) {
            if let link = try network.netlink.link(named: name), link.index == plan.interfaceIndex ?? link.index {
                return true
            }
        } catch {
            report("interface \(name)", "\(error)")
            return false
        }
        do throws(TunnelIOError) {
            _ = try device.currentName()
        } catch {
            switch error.code {
            case .closed, .deviceRemoved: return false
            // The interface may be in another namespace.
            default: break
            }
        }
        let reason = "the interface was renamed or moved to another network namespace"
        report("interface \(name)", reason)
        guard !isInterfaceLost else { return false }
        isInterfaceLost = true
        interfaceLost?(TunnelError(.hostFailed, "interface '\(name)' is lost: \(reason)"))
        return false
    }

    // MARK: - Links, addresses, routes, rules and settings

    private func restoreRouting(_ plan: [Change], _ ledger: ChangeLedger) {
        let changes = plan.filter { !$0.isFirewall }
        // Use the order of a plan: rules come last, because they divert packets.
        for isOfKind in [{ !$0.isRoute && !$0.isRule }, \.isRoute, \.isRule] as [(Change) -> Bool] {
            attempt("the tunnel's addresses, routes and rules") { () throws(LinuxNetworkError) in
                try restore(changes.filter(isOfKind), ledger)
            }
        }
    }

    /// Restores the changes that are not in effect, except the firewall, whose repairs never pause. Continues after a
    /// failure, and reports each.
    /// - Throws: ``LinuxNetworkError`` if the kernel's lists cannot be read.
    func restore(_ changes: [Change], _ ledger: ChangeLedger) throws(LinuxNetworkError) {
        guard !changes.isEmpty else { return }
        let now = LaneClock.now()
        var undone: [Change] = []
        let missing = try ledger.undone(of: changes)
        let taken = try routesOfOthers(missing)
        for change in missing where !taken.contains(change) {
            // The repairs of a strict policy's rules never pause, because a repair takes microseconds.
            if backoff.isPaused(change, at: now), !(change.isRule && policy.blocksAfterFailure) {
                reportContest(change)
            } else {
                undone.append(change)
            }
        }
        let repair = ledger.repair(undone)
        for (change, error) in repair.failures { report(change.summary, "\(error)") }
        // Rules may be restored a hundred times a second, so log only the first repairs of a series.
        let logged = repair.made.filter { !backoff.isPaused($0, at: now) }
        for change in repair.made { backoff.recordRepair(change, at: now) }
        if logged.isEmpty, let last = repair.made.last { repairs.record(last.summary) }
        logRepair(logged)
        for change in changes where change.isRule && policy.blocksAfterFailure && backoff.isPaused(change, at: now) {
            report(
                change.summary, "another process removes it again and again, and it is restored each time",
                after: RepairBackoff.pause)
        }
    }

    /// Reports a change whose repair is paused.
    func reportContest(_ change: Change) {
        report(
            change.summary, "another process undoes it again and again, so it is restored every 30 seconds only",
            after: RepairBackoff.pause)
    }

    func logRepair(_ made: [Change], by culprit: String? = nil) {
        guard !made.isEmpty else { return }
        let text = made.map(\.summary).joined(separator: ", ") + (culprit.map { " (by \($0))" } ?? "")
        repairs.record(text)
        logger.warning("restored network settings that another process changed: \(text)")
    }

    var resolverInForce: Change? {
        plan.first(where: \.isResolver)
    }

    /// Applies a policy that was held after the tunnel's start, if it is stricter than the present one.
    func followHeldPolicy(_ ledger: ChangeLedger, hasInterface: Bool) throws(LinuxNetworkError) {
        guard let held = try directory.heldPolicy(name)?.policy, held > policy else { return }
        try checkTable(held)
        let before = policy
        policy = held
        do throws(LinuxNetworkError) {
            let next: [Change]
            if let settings, hasInterface {
                next = try steps(settings, mtu: mtu, resolver: resolverInForce)
            } else if let table = try leakGuard().table {
                next = [.firewall(table)] + plan.filter { !$0.isFirewall }
            } else {
                // The policy depends on routes that are not known yet.
                return
            }
            try follow(next, ledger)
        } catch {
            policy = before
            throw error
        }
        let change = "the leak policy is '\(held.rawValue)' from now on, since it is held for this tunnel"
        if isPlanIncomplete {
            logger.warning("\(change); some of it is not in effect yet")
        } else {
            logger.notice("\(change)")
        }
    }

    /// Replaces the plan. A change that fails does not stop the others, and the next check retries it.
    private func follow(_ next: [Change], _ ledger: ChangeLedger) throws(LinuxNetworkError) {
        let before = numbers
        let failures = try ledger.applyAll(next + protection)
        // The rules may have moved while nft ran.
        (plan, isAdopted, isPlanIncomplete) = (next, false, !failures.isEmpty || numbers != before)
        for (change, error) in failures {
            if change.isFirewall {
                firewallProblem = "\(error)"
                raiseProtection(ledger)
                check.repeatAfter(Self.retry)
            } else {
                report(change.summary, "\(error)")
            }
        }
    }

    /// Adapts routes and firewall to the current local networks.
    private func followLocalNetworks(_ ledger: ChangeLedger) throws(LinuxNetworkError) {
        let before = localNetworks
        let next: [Change]
        if let settings {
            next = try steps(settings, mtu: mtu, resolver: resolverInForce)
        } else if isAdopted {
            return
        } else {
            next = try leakGuard().table.map { [.firewall($0)] } ?? []
        }
        guard next != plan || isPlanIncomplete, !next.isEmpty else { return }
        try follow(next, ledger)
        let isAllowed = !isPlanIncomplete && guardedSettings?.allowsLocalNetwork == true
        for network in localNetworks where !before.contains(network) {
            logger.notice(
                "\(network) is a local network now: \(isAllowed ? "reached outside the tunnel" : "blocked")")
        }
        for network in before where !localNetworks.contains(network) {
            logger.notice("\(network) is no longer a local network")
        }
    }

    // MARK: - The firewall

    /// Compares the firewall with the loaded table and loads it again if it differs.
    private func reconcileFirewall(_ parts: NetworkWatch.Parts, _ ledger: ChangeLedger, _ culprit: String?) {
        if let table = plan.firewallTable {
            // If the kernel does not answer, nft compares the table.
            let lacksRules = try? network.lacksRules(table.name)
            // The rules block packets while nft runs.
            if lacksRules == true { raiseProtection(ledger) }
            if parts.contains(.firewall) || lacksRules != false || firewallProblem != nil {
                firewallAsked = LaneClock.now()
                defer { firewallAsked = nil }
                do throws(LinuxNetworkError) {
                    try restoreFirewall(table, ledger, culprit)
                    firewallProblem = nil
                } catch {
                    firewallProblem = "\(error)"
                    raiseProtection(ledger)
                    check.repeatAfter(Self.retry)
                }
            }
        } else {
            firewallProblem = nil
        }
        guard firewallProblem == nil, !protection.isEmpty else { return }
        // Another loss may occur before the next check, so keep the rules.
        if let table = plan.firewallTable, backoff.isRepeated(.firewall(table), at: LaneClock.now()) {
            report(
                "the firewall", "another process removes it again and again, so policy rules stay in effect too",
                after: RepairBackoff.pause)
        } else {
            dropProtection(ledger)
        }
    }

    /// Loads the firewall again if another process deleted it during a start or a change of the settings, when no check
    /// runs.
    func reloadLostFirewall(_ ledger: ChangeLedger) throws(LinuxNetworkError) {
        guard let table = plan.firewallTable, (try? network.lacksRules(table.name)) == true else { return }
        logRepair(try ledger.restore([.firewall(table)]))
    }

    private func restoreFirewall(
        _ table: FirewallTable, _ ledger: ChangeLedger, _ culprit: String?
    ) throws(LinuxNetworkError) {
        let undone = try ledger.undone(of: [.firewall(table)])
        guard !undone.isEmpty else { return }
        let made = try ledger.restore(undone)
        for change in made { backoff.recordRepair(change, at: LaneClock.now()) }
        logRepair(made, by: culprit)
    }

    /// Adds policy rules that block packets outside the tunnel while the firewall is not in effect.
    private func raiseProtection(_ ledger: ChangeLedger) {
        guard policy.blocksAfterFailure, let numbers else { return }
        if protection.isEmpty {
            let hasIPv6 = (try? ipv6Support(name)) != .absent
            protection = (hasIPv6 ? [false, true] : [false]).map { .rule(prohibition(isIPv6: $0, numbers)) }
            if isChecking { keepRulesInFront(ledger) }
        }
        keepProtection(ledger)
    }

    /// Restores the rules that replace the firewall. These repairs never pause.
    func keepProtection(_ ledger: ChangeLedger) {
        guard !protection.isEmpty else { return }
        attempt("the rules in place of the firewall") { () throws(LinuxNetworkError) in
            for (change, error) in try ledger.holdBack(by: protection) {
                report(change.summary, "\(error)")
            }
        }
    }

    /// Removes the rules that replace the firewall, because it is in effect again.
    private func dropProtection(_ ledger: ChangeLedger) {
        guard !protection.isEmpty else { return }
        attempt("the removal of the rules in place of the firewall") { () throws(LinuxNetworkError) in
            try ledger.remove(protection)
            protection = []
        }
    }
}

extension [Change] {
    /// The firewall table among the steps.
    fileprivate var firewallTable: FirewallTable? {
        for step in self { if case .firewall(let table) = step { return table } }
        return nil
    }

    /// The index of the interface that the steps bring up.
    fileprivate var interfaceIndex: UInt32? {
        for step in self { if case .link(let interface, _) = step { return interface.index } }
        return nil
    }
}
