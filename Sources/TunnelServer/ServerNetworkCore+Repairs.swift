// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnelLinux
import TunnelIO

// Changes by other programs, which the server undoes.

extension ServerNetworkCore {
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
        if holdIfRulesAreMissing(running) {
            unrecordedRepair =
                unrecordedRepair ?? (["firewall table \(running.firewall.tableName)"], Self.origin(culprit))
        }
        if wasKnown, parts.contains(.firewall) || isHeld || firewallProblem != nil {
            do throws(LinuxNetworkError) {
                isComplete = try lookAtFirewall(running, Self.origin(culprit))
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
            let pause = isHeld ? losses.remaining(at: LaneClock.now()) ?? 0 : 0
            return pause > 0 ? min(pause, LaneClock.nanosecondsPerSecond) : LaneClock.nanosecondsPerSecond
        }
        return running.clients.refusals.isEmpty ? nil : max(nextExclusions - LaneClock.now(), 1)
    }

    private static func origin(_ culprit: String?) -> String { culprit.map { " (by \($0))" } ?? "" }

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
    func missingInterface(_ running: Running) throws(LinuxNetworkError) -> String? {
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
        unrecordedRepair = (undone, origin)
        do throws(LinuxNetworkError) { try applyClients(running) } catch {
            // If only the routes failed, the firewall is loaded.
            guard running.clients.isFirewallKnown else { throw error }
        }
        hasChangedClients = false
        return true
    }

    func recordRepair(_ undone: [String], _ origin: String) {
        guard !undone.isEmpty else { return }
        let text = undone.joined(separator: ", ") + origin
        repairs.record(text)
        logger.warning("another program changed the server's network; the server restored it: \(text)")
    }
}
