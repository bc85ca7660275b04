// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import WireGuardCore

extension WireGuardTunnelConfiguration {
    /// What the tunnel wants of the system: addresses, allowed IPs as included routes, DNS, MTU.
    /// - Parameters:
    ///   - leakPolicy: the least that is demanded; the stricter of it and the configuration's is asked for.
    ///   - servers: where the peers are, as far as that is known.
    public func settings(
        leakPolicy: LeakPolicy = .routeBased, servers: Set<IPAddress> = []
    ) -> TunnelSettings {
        var routes: [IPPrefix] = []
        var known: Set<IPPrefix> = []
        for prefix in makesRoutes ? peers.flatMap(\.allowedIPs) : [] where known.insert(prefix).inserted {
            routes.append(prefix)
        }
        return TunnelSettings(
            remoteAddress: remoteAddress, addresses: addresses, includedRoutes: routes,
            excludedRoutes: excludedRoutes, allowsLocalNetwork: allowsLocalNetwork, dns: dns, mtu: mtu,
            leakPolicy: max(self.leakPolicy, leakPolicy), allowedNetworks: allowedNetworks,
            serverAddresses: servers.sorted { $0.description < $1.description })
    }

    /// Whether a path has no way to any peer, as far as it is known where they are.
    /// - Parameter places: where peers that have an endpoint were found; without an entry, one that has a name may be anywhere.
    func hasNoWay(on path: NetworkPath, _ places: [PublicKey: [IPAddress]]) -> Bool {
        guard path.status == .unsatisfied else { return false }
        var addresses: [IPAddress] = []
        for peer in peers {
            guard let address = peer.endpoint else { continue }
            let known = (places[peer.publicKey] ?? []) + (address.endpoint.map { [$0.address] } ?? [])
            if known.isEmpty { return path.isCutOff }
            addresses += known
        }
        // Who only listens goes to nobody.
        return addresses.isEmpty ? path.isCutOff : !path.mayReach(addresses)
    }

    /// The server, as it is shown to the user.
    var remoteAddress: String {
        let hosts = peers.compactMap(\.endpoint?.host)
        guard let first = hosts.first else { return "no endpoint" }
        return hosts.count == 1 ? first : "\(first) and \(hosts.count - 1) more"
    }

    /// The peers' addresses that the configuration names.
    var literalServers: [IPAddress] { peers.compactMap { $0.endpoint?.endpoint?.address } }

    /// Whether this side can begin with one of the peers.
    package var hasEndpoints: Bool { peers.contains { $0.endpoint != nil } }
}

extension PeerConfiguration {
    /// Whether a default route goes to it, and this side can begin: when it is silent, the tunnel is as good as dead.
    var isGateway: Bool { endpoint != nil && allowedIPs.contains { $0.length == 0 } }
}
