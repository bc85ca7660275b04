// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel

/// Tunnels on a kernel that refuses the table against spoofed packets.
extension LinuxPlatformCore {
    /// Whether the plan has no table, because the kernel refused it. A strict policy never runs without its table.
    var lacksTable: Bool { isTableRefused && policy.leavesDecisionToRoutes }

    /// Applies a plan with the present ``protection``. If the kernel refuses the table against spoofed packets, applies
    /// a second plan without that table.
    /// - Parameter makePlan: Makes the plan. Called a second time with ``lacksTable`` set.
    /// - Returns: The applied plan.
    func applyWithTable(
        _ ledger: ChangeLedger, _ makePlan: () throws(LinuxNetworkError) -> [Change]
    ) throws(LinuxNetworkError) -> [Change] {
        isTableRefused = false
        let wanted = try makePlan()
        do throws(LinuxNetworkError) {
            try ledger.apply(wanted + protection)
            return wanted
        } catch {
            guard policy.leavesDecisionToRoutes, error.refusesTable,
                let firewall = wanted.first(where: \.isFirewall), ledger.discardFailed(firewall)
            else { throw error }
            isTableRefused = true
            let possible = try makePlan()
            try ledger.apply(possible + protection)
            if possible.contains(where: \.isRule) {
                warnOnce(
                    "nothing drops packets that pretend to come from the tunnel, and nothing marks its server's answers: "
                        + "\(error); the table needs the kernel's modules nf_tables, nft_ct and nft_fib_inet")
            }
            return possible
        }
    }

    /// Returns the interface at which the kernel drops answers to packets that are routed by the tunnel's mark, or
    /// `nil` if there is none. Without the table the answers have no mark, so their source seems to be behind another
    /// interface, and a strict rp_filter drops them.
    func strictInterface(_ settings: TunnelSettings) throws(LinuxNetworkError) -> String? {
        guard lacksTable else { return nil }
        var ways: Set<UInt32> = []
        for target in serverTargets(settings) where !target.isIPv6 {
            if let way = try network.netlink.way(to: target, mark: requireNumbers().mark) { ways.insert(way.interface) }
        }
        let links = try network.netlink.links().filter { link in
            link.isUp && !link.isLoopback && link.name != name && (ways.isEmpty || ways.contains(link.index))
        }
        let filter = try ReversePathFilter()
        var strict: [String] = []
        for link in links where try filter.isStrict(link.name) { strict.append(link.name) }
        return strict.count == links.count ? strict.first : nil
    }
}
