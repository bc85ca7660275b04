// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Logging
import NetworkAddresses
import PacketTunnel
import TunnelIO

/// Handles policy rules that other programs delete or insert before the tunnel's rules.
extension LinuxPlatformCore {
    // MARK: - Deleted rules

    /// The minimum time between two repairs of deleted rules, in nanoseconds.
    private static let repairInterval: Int64 = 5_000_000

    /// Restores those of the tunnel's rules that the kernel has just reported as deleted. The following check restores
    /// everything else.
    /// - Parameter deleted: The deleted rules; `nil` if they are not known.
    func restoreRules(_ deleted: Set<PolicyRule>?) {
        guard let ledger else { return }
        // Rules that the tunnel itself removed are not in `made`.
        let lost = ledger.made.filter { change in
            guard let rule = change.rule else { return false }
            return deleted?.contains(rule) ?? true
        }
        guard !lost.isEmpty else { return }
        // Another program may delete the rules in a loop, so limit the use of the processor.
        let rest = rulesRestored + Self.repairInterval - LaneClock.now()
        if rest > 0 { usleep(UInt32(clamping: rest / 1000)) }
        rulesRestored = LaneClock.now()
        if !isChecking { check = Check() }
        if device != nil, settings != nil {
            attempt("the tunnel's addresses, routes and rules") { () throws(LinuxNetworkError) in
                try restore(lost.filter { !protection.contains($0) }, ledger)
            }
        }
        if lost.contains(where: protection.contains) { keepProtection(ledger) }
    }

    // MARK: - Rules in front of the tunnel's

    /// A policy rule before the last rule of the tunnel. It may divert packets from the tunnel.
    struct Intruder {
        var found: PolicyRule.Found
        /// Whether it belongs to a tunnel that started earlier and has moved its rules.
        var isOfTunnel: Bool
    }

    /// Finds other programs' rules before the tunnel's rules. Under a policy that blocks packets, the tunnel's rules
    /// move before them, as if the tunnel had just started. Under `routeBased` such a rule is a problem if packets
    /// bypass the tunnel.
    ///
    /// Rules of a tunnel that started later stay before this tunnel's rules.
    func keepRulesInFront(_ ledger: ChangeLedger) {
        for isIPv6 in [false, true] {
            attempt("the order of \(isIPv6 ? "IPv6" : "IPv4") rules") { () throws(LinuxNetworkError) in
                try keepRulesInFront(isIPv6: isIPv6, ledger)
            }
        }
    }

    private func keepRulesInFront(isIPv6: Bool, _ ledger: ChangeLedger) throws(LinuxNetworkError) {
        let own = (plan + protection).compactMap(\.rule).filter { $0.isIPv6 == isIPv6 }
        guard let numbers, let last = own.map(\.priority).max() else { return }
        let mine = Set(own + ledger.made.compactMap(\.rule))
        let present = try network.netlink.rules(isIPv6: isIPv6)
        let others = present.filter { !($0.isWhole && mine.contains($0.rule)) }
        // A restored rule is placed after the others with the same preference.
        let bound = crowdedFamilies.contains(isIPv6) ? numbers.priority(isIPv6: isIPv6) + 2 : last
        let intruders = intruders(others.filter { $0.rule.priority <= bound }, numbers)
        guard let intruder = intruders.first else {
            try leaveCrowd(isIPv6: isIPv6, numbers, ledger)
            return
        }
        let moves = policy.blocksAfterFailure || intruders.contains(where: \.isOfTunnel)
        guard moves else {
            try reportDetour(intruders, isIPv6: isIPv6, numbers)
            return
        }
        let now = LaneClock.now()
        var key = intruder.found.rule
        key.priority = 0
        // Two programs may alternate. Without a firewall the tunnel's rules must come first.
        if protection.isEmpty, backoff.isPaused(.rule(key), at: now) {
            report(
                Self.part(isIPv6),
                "\(intruder.found.rule.detour) is put in front of the tunnel's rules again and again, so these move every 30 "
                    + "seconds only; " + Self.remedy(intruder.found.rule), after: RepairBackoff.pause)
            return
        }
        // No rule can come before one with preference 0, because the kernel inserts a rule after those with the same
        // preference.
        let hasFirst = intruders.contains { $0.found.rule.priority == 0 }
        guard !hasFirst, let free = try? RoutingNumbers.freePriority(before: others.map(\.rule)) else {
            crowdedFamilies.insert(isIPv6)
            let rest = hasFirst ? ", so only the firewall blocks packets that it diverts; " : "; "
            report(
                Self.part(isIPv6),
                "\(intruder.found.rule.detour) is in front of the tunnel's rules, and leaves no room before it\(rest)"
                    + Self.remedy(intruder.found.rule))
            try replaceProtection(isIPv6: isIPv6, numbers, ledger)
            return
        }
        try move(isIPv6: isIPv6, to: free, ledger)
        backoff.recordRepair(.rule(key), at: now)
        repairs.record("the rules' place before \(intruder.found.rule)")
        logger.warning(
            "\(intruder.found.rule.detour) was in front of the tunnel's rules, which have moved to preference \(free)")
    }

    private static func part(_ isIPv6: Bool) -> String { "the place of the tunnel's \(isIPv6 ? "IPv6" : "IPv4") rules" }

    private static func remedy(_ rule: PolicyRule) -> String {
        // The rule for the machine's own addresses also has preference 0 and comes first.
        let rest = rule.priority > 0 ? "" : rule.table == 0 ? " prohibit" : " table \(rule.table)"
        return "delete it with 'ip \(rule.isIPv6 ? "-6 " : "")rule delete preference \(rule.priority)\(rest)'"
    }

    /// Returns those of the preceding rules that may divert packets from the tunnel.
    private func intruders(_ inFront: [PolicyRule.Found], _ numbers: RoutingNumbers) -> [Intruder] {
        let found = inFront.filter { found in
            // A rule for the tunnel's mark routes only the tunnel's own packets.
            found.divertsPackets && !(found.rule.mark == numbers.mark && !found.rule.isInverted)
        }
        guard !found.isEmpty else {
            ruleOwners = [:]
            return []
        }
        if !found.allSatisfy({ ruleOwners.keys.contains($0.rule) }) {
            let owners = rulesOfOtherTunnels()
            ruleOwners = Dictionary(
                found.map { ($0.rule, owners[$0.rule]) }, uniquingKeysWith: { first, _ in first })
        }
        return found.compactMap { found in
            guard let owner = ruleOwners[found.rule] ?? nil else { return Intruder(found: found, isOfTunnel: false) }
            return owner.startTime < self.owner.startTime ? Intruder(found: found, isOfTunnel: true) : nil
        }
    }

    /// Moves the tunnel's rules of a family. The next change of the plan, immediately after this, removes the previous
    /// ones.
    private func move(isIPv6: Bool, to priority: UInt32, _ ledger: ChangeLedger) throws(LinuxNetworkError) {
        guard let before = numbers else { return }
        var next = before
        next.setPriority(priority, isIPv6: isIPv6)
        func moved(_ change: Change) -> Change {
            guard var rule = change.rule, rule.isIPv6 == isIPv6 else { return change }
            rule.priority = priority + rule.place
            return .rule(rule)
        }
        let (plan, protection) = (self.plan.map(moved), self.protection.map(moved))
        let rules = (plan + protection).filter { $0.rule?.isIPv6 == isIPv6 }
        if let failure = try ledger.holdBack(by: rules).first {
            // The next change of the plan removes the rules that were made.
            isPlanIncomplete = true
            throw failure.error
        }
        (numbers, self.plan, self.protection, isPlanIncomplete) = (next, plan, protection, true)
        crowdedFamilies.remove(isIPv6)
    }

    /// The rule that blocks packets in place of the firewall. It normally follows the tunnel's rules. If there is no
    /// room before another program's rule, it precedes all rules and also blocks packets into the tunnel.
    func prohibition(isIPv6: Bool, _ numbers: RoutingNumbers) -> PolicyRule {
        let isCrowded = crowdedFamilies.contains(isIPv6)
        return .prohibition(
            isIPv6: isIPv6, priority: isCrowded ? 0 : numbers.priority(isIPv6: isIPv6) + 2, mark: numbers.mark)
    }

    /// Moves the rule that replaces the firewall back behind the tunnel's rules.
    private func leaveCrowd(
        isIPv6: Bool, _ numbers: RoutingNumbers, _ ledger: ChangeLedger
    ) throws(LinuxNetworkError) {
        guard crowdedFamilies.remove(isIPv6) != nil else { return }
        do throws(LinuxNetworkError) {
            try replaceProtection(isIPv6: isIPv6, numbers, ledger)
        } catch {
            // The next check repeats this.
            crowdedFamilies.insert(isIPv6)
            throw error
        }
    }

    private func replaceProtection(
        isIPv6: Bool, _ numbers: RoutingNumbers, _ ledger: ChangeLedger
    ) throws(LinuxNetworkError) {
        let rule = prohibition(isIPv6: isIPv6, numbers)
        guard let index = protection.firstIndex(where: { $0.rule?.isIPv6 == isIPv6 }), protection[index] != .rule(rule)
        else { return }
        if let failure = try ledger.holdBack(by: [.rule(rule)]).first { throw failure.error }
        (protection[index], isPlanIncomplete) = (.rule(rule), true)
    }

    // MARK: - Packets outside the tunnel

    /// Reports a rule before the tunnel's rules that diverts packets from the tunnel.
    private func reportDetour(
        _ intruders: [Intruder], isIPv6: Bool, _ numbers: RoutingNumbers
    ) throws(LinuxNetworkError) {
        // A rule for only some packets is an exception that the host's administrator made.
        guard let intruder = intruders.first(where: \.found.isForAllPackets),
            let probe = probe(isIPv6: isIPv6, numbers), let index = try network.netlink.link(named: name)?.index
        else { return }
        guard try network.netlink.way(to: probe)?.interface != index else { return }
        report(
            Self.part(isIPv6),
            "\(intruder.found.rule.detour) is in front of them, so packets do not go through the tunnel; "
                + Self.remedy(intruder.found.rule), after: RepairBackoff.pause)
    }

    /// Returns an address that the tunnel's own table routes into the tunnel.
    private func probe(isIPv6: Bool, _ numbers: RoutingNumbers) -> IPAddress? {
        let routes = plan.compactMap { change -> Route? in
            guard case .route(let route) = change, route.table == numbers.mark, route.destination.isIPv6 == isIPv6
            else {
                return nil
            }
            return route
        }
        // No packet is sent to this address, which is reserved for documentation (RFC 5737, RFC 3849).
        let documentation = try? IPAddress(isIPv6 ? "2001:db8::1" : "198.51.100.1")
        let candidates = [documentation].compactMap(\.self) + routes.map(\.destination.address)
        return candidates.first { address in
            let matches = routes.filter { $0.destination.contains(address) }
            return !address.isUnspecified
                && matches.max { $0.destination.length < $1.destination.length }?.kind == .unicast
        }
    }
}

extension RoutingNumbers {
    /// The first of the three priorities of a family.
    func priority(isIPv6: Bool) -> UInt32 { isIPv6 ? priority6 : priority4 }

    fileprivate mutating func setPriority(_ priority: UInt32, isIPv6: Bool) {
        if isIPv6 { priority6 = priority } else { priority4 = priority }
    }
}

extension PolicyRule {
    /// The position of the rule among the three priorities of a tunnel.
    fileprivate var place: UInt32 { isProhibition ? 2 : isInverted ? 1 : 0 }

    /// The description of another program's rule, for users.
    fileprivate var detour: String {
        "another program's \(isIPv6 ? "IPv6" : "IPv4") rule with preference \(priority)"
            + (isProhibition || table == 0 ? "" : " for table \(table)")
    }
}
