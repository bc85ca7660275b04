// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// Neighbours whose packets a strict ``ReversePathFilter`` would drop.
extension LinuxPlatformCore {
    /// Returns the steps that loosen the reverse-path filter of interfaces whose neighbours have addresses that are
    /// routed into the tunnel. The firewall still drops packets to the tunnel's own addresses on these interfaces.
    func looseReversePath(_ routing: RoutingPlan) throws(LinuxNetworkError) -> [Change] {
        guard routing.usesOwnTable(isIPv6: false) else { return [] }
        let filter = try ReversePathFilter()
        var steps: [(link: RouteSocket.Link, step: Change)] = []
        for link in try network.netlink.links() where link.isUp && link.usesARP && link.name != name {
            let step = Change.setting(path: ReversePathFilter.path(link.name), value: ReversePathFilter.loose)
            let isLoosened = plan.contains(step)
            if try isLoosened ? true : filter.isStrict(link.name) { steps.append((link, step)) }
        }
        guard !steps.isEmpty else { return [] }
        let neighbours = try neighbours()
        steps.removeAll { link, _ in neighbours[link.index]?.contains(where: routing.divertsNeighbours(in:)) != true }
        guard let first = steps.first, lacksTable else { return steps.map(\.step) }
        warnOnce(
            "rp_filter is 1 (strict) on \(first.link.name), and stays so because no table drops spoofed packets: this host "
                + "does not answer ARP requests there")
        return []
    }

    /// Returns the IPv4 networks and gateways that are directly reachable, by interface.
    private func neighbours() throws(LinuxNetworkError) -> [UInt32: [IPPrefix]] {
        var neighbours: [UInt32: [IPPrefix]] = [:]
        for assignment in try network.netlink.addresses() where !assignment.address.isIPv6 {
            neighbours[assignment.interface, default: []].append(assignment.address.network)
        }
        for route in try network.netlink.routes(isIPv6: false) where route.wayOut != 0 {
            guard let key = route.key, key.table == Route.mainTable else { continue }
            if let gateway = route.gateway {
                neighbours[route.wayOut, default: []].append(IPPrefix(host: gateway))
            } else if key.destination.length > 0 {
                neighbours[route.wayOut, default: []].append(key.destination)
            }
        }
        return neighbours
    }
}

extension RouteSocket.Link {
    /// Whether the interface resolves addresses by ARP (`ARPHRD_ETHER`).
    fileprivate var usesARP: Bool { hardware == 1 }
}
