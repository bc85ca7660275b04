// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel

/// Other tunnels of this host, as their journals and the kernel list them.
extension LinuxPlatformCore {
    /// A route that another tunnel already has and keeps.
    struct SharedRoute: Hashable {
        var tunnel: String
        var route: ForeignRoute.Key
    }

    // MARK: - Conflicting tunnels

    /// Compares the steps of this tunnel with the running tunnels. The caller must hold the lock of the journals.
    /// - Throws: `.tunnelConflict` if one of two tunnels would not carry its packets.
    func checkOtherTunnels(_ steps: [Change], _ settings: TunnelSettings) throws(LinuxNetworkError) {
        let others = directory.names().filter { $0 != name }
        guard !others.isEmpty else { return }
        var routes: [Route] = []
        var rules: [PolicyRule] = []
        for step in steps {
            switch step {
            case .route(let route): routes.append(route)
            case .rule(let rule): rules.append(rule)
            default: break
            }
        }
        let claim = TunnelClaim(
            name: name, policy: policy, routes: routes, rules: rules, attached: settings.attachedRoutes)
        for other in others {
            guard let changes = runningChanges(of: other) else { continue }
            let theirs = TunnelClaim(name: other, policy: policy(of: other, changes), changes)
            guard let conflict = claim.conflict(with: theirs) else { continue }
            throw LinuxNetworkError(.tunnelConflict(tunnel: other, reason: conflict.text))
        }
    }

    /// The changes that a running tunnel's journal lists; `nil` if no process runs it.
    private func runningChanges(of tunnel: String) -> [Change]? {
        guard let contents = (try? directory.read(tunnel)) ?? nil, contents.owner?.isAlive() == true else { return nil }
        return contents.pending.map(\.change)
    }

    /// The policy rules of other tunnels, each with the process that runs the tunnel.
    func rulesOfOtherTunnels() -> [PolicyRule: JournalOwner] {
        var owners: [PolicyRule: JournalOwner] = [:]
        for other in directory.names() where other != name {
            guard let contents = (try? directory.read(other)) ?? nil, let owner = contents.owner else { continue }
            for rule in contents.pending.compactMap(\.change.rule) { owners[rule] = owner }
        }
        return owners
    }

    /// Returns the leak policy of a running tunnel, as shown by its firewall.
    private func policy(of tunnel: String, _ changes: [Change]) -> LeakPolicy {
        guard changes.contains(where: \.isFirewall) else { return .routeBased }
        do throws(LinuxNetworkError) {
            return try network.firewallSocket().map { (firewall) throws(LinuxNetworkError) in
                try LeakGuard.policy(of: tunnel, in: firewall)
            } ?? .routeBased
        } catch {
            // The kernel does not answer. A tunnel of the command line also stores its policy in a file.
            return ((try? directory.heldPolicy(tunnel)) ?? nil)?.policy ?? .routeBased
        }
    }

    // MARK: - Routes of other tunnels

    /// Returns the steps without the routes that other running tunnels already have, because tunnels do not replace
    /// each other's routes.
    func leavingOutSharedRoutes(
        _ steps: [Change], _ settings: TunnelSettings
    ) throws(LinuxNetworkError) -> [Change] {
        let before = sharedRoutes
        sharedRoutes = []
        let owners = try otherInterfaces()
        guard !owners.isEmpty else { return steps }
        let present = try routeOwners(owners)
        // If another process removes a route, the tunnel that had it restores it.
        let stillClaimed = before.filter { shared in
            owners.values.contains(shared.tunnel) && present[shared.route] == nil
                && claimedRoutes(of: shared.tunnel).contains(shared.route)
        }
        let claimed = Dictionary(stillClaimed.map { ($0.route, $0.tunnel) }, uniquingKeysWith: { first, _ in first })
        func owner(of key: ForeignRoute.Key) -> String? { present[key] ?? claimed[key] }
        var kept: [Change] = []
        for step in steps {
            if case .route(let route) = step, let owner = owner(of: ForeignRoute.Key(of: route)) {
                sharedRoutes.append(SharedRoute(tunnel: owner, route: ForeignRoute.Key(of: route)))
            } else {
                kept.append(step)
            }
        }
        // The kernel adds these routes itself. If several lead to one network, it uses the first.
        for network in settings.attachedRoutes {
            guard let shared = present.first(where: { $0.key.destination == network && $0.key.isInMainTable })
            else { continue }
            sharedRoutes.append(SharedRoute(tunnel: shared.value, route: shared.key))
        }
        return kept
    }

    /// Returns those routes in `steps` that the kernel lists with other tunnels' interfaces.
    func routesOfOthers(_ steps: [Change]) throws(LinuxNetworkError) -> Set<Change> {
        let routes = steps.filter { $0.isRoute }
        guard !routes.isEmpty else { return [] }
        let owners = try otherInterfaces()
        guard !owners.isEmpty else { return [] }
        let present = try routeOwners(owners)
        return Set(
            routes.filter { step in
                guard case .route(let route) = step else { return false }
                return present[ForeignRoute.Key(of: route)] != nil
            })
    }

    /// The indexes of other tunnels' interfaces, with the names of the tunnels.
    private func otherInterfaces() throws(LinuxNetworkError) -> [UInt32: String] {
        let names = Set(directory.names()).subtracting([name])
        guard !names.isEmpty else { return [:] }
        return Dictionary(
            try network.netlink.links().filter { names.contains($0.name) }.map { ($0.index, $0.name) },
            uniquingKeysWith: { first, _ in first })
    }

    /// Returns the routes that lead to these interfaces and that come first among routes with the same key.
    private func routeOwners(_ owners: [UInt32: String]) throws(LinuxNetworkError) -> [ForeignRoute.Key: String] {
        var found: [ForeignRoute.Key: String?] = [:]
        for isIPv6 in [false, true] {
            for route in try network.netlink.routes(isIPv6: isIPv6) {
                guard let key = route.key, found[key] == nil else { continue }
                found[key] = .some(owners[route.wayOut])
            }
        }
        return found.compactMapValues { $0 }
    }

    private func claimedRoutes(of tunnel: String) -> Set<ForeignRoute.Key> {
        let changes = runningChanges(of: tunnel) ?? []
        return Set(
            changes.compactMap { change in
                if case .route(let route) = change { ForeignRoute.Key(of: route) } else { nil }
            })
    }

    /// The routes that other tunnels have, as text, by tunnel.
    private var sharedNetworks: [(tunnel: String, networks: String)] {
        Dictionary(grouping: sharedRoutes, by: \.tunnel).sorted { $0.key < $1.key }.map { tunnel, routes in
            (tunnel, LinuxNetworkError.list(routes.map(\.route.destination.description), separator: ", "))
        }
    }

    /// Logs a warning about the routes that other tunnels have, whenever they change.
    func warnOfSharedRoutes() {
        for (tunnel, networks) in sharedNetworks {
            warnOnce(
                "tunnel '\(tunnel)' already has routes of this tunnel, and keeps them while it is up: \(networks)")
        }
    }

    /// Adds the routes that other tunnels have to the results of the check.
    func reportSharedRoutes() {
        for (tunnel, networks) in sharedNetworks {
            report(
                "routes that tunnel '\(tunnel)' also has", "it keeps them while it is up: \(networks)",
                after: RepairBackoff.pause)
        }
    }
}

extension TunnelClaim {
    /// Describes the packets that a tunnel with this journal routes.
    fileprivate init(name: String, policy: LeakPolicy, _ changes: [Change]) {
        var routes: [Route] = []
        var rules: [PolicyRule] = []
        var attached: [IPPrefix] = []
        for change in changes {
            switch change {
            case .route(let route): routes.append(route)
            case .rule(let rule): rules.append(rule)
            case .address(let address, _): attached.append(address.network)
            default: break
            }
        }
        self.init(name: name, policy: policy, routes: routes, rules: rules, attached: attached)
    }
}

extension TunnelClaim.Conflict {
    /// The reason, as text for users.
    fileprivate var text: String {
        switch self {
        case .taken(let lost, isOfOther: true): "packets that its route to \(lost) is for would go into this tunnel"
        case .taken(let lost, isOfOther: false): "packets that this tunnel's route to \(lost) is for would go into it"
        case .heldBack(let network, isPolicyOfOther: true):
            "its leak policy blocks packets to \(network) outside it"
        case .heldBack(let network, isPolicyOfOther: false):
            "this tunnel's leak policy would hold back its packets to \(network)"
        }
    }
}

extension TunnelSettings {
    /// The networks that the kernel routes to the tunnel's interface because of its addresses, if they are also routed
    /// into the tunnel.
    fileprivate var attachedRoutes: [IPPrefix] {
        let included = effectiveRoutes
        return addresses.map(\.network).filter { network in
            network.length < network.address.bitWidth && included.contains { $0.overlaps(network) }
        }
    }
}

extension ForeignRoute.Key {
    fileprivate var isInMainTable: Bool { table == Route.mainTable }
}
