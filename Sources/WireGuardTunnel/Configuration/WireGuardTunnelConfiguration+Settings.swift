// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses
public import PacketTunnel
import WireGuardCore

extension WireGuardTunnelConfiguration {
    /// The system settings that the tunnel requires: addresses, allowed IPs as included routes, DNS, MTU.
    /// - Parameters:
    ///   - leakPolicy: the minimum policy; the stricter of it and the configuration's policy is used.
    ///   - servers: the known addresses of the peers.
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

    /// Whether a path reaches none of the peers whose addresses are known.
    /// - Parameter places: the resolved addresses of peers with an endpoint; a peer with a host name but no entry may have
    ///   any address.
    func hasNoWay(on path: NetworkPath, _ places: [PublicKey: [IPAddress]]) -> Bool {
        guard path.status == .unsatisfied else { return false }
        var addresses: [IPAddress] = []
        for peer in peers {
            guard let address = peer.endpoint else { continue }
            let known = (places[peer.publicKey] ?? []) + (address.endpoint.map { [$0.address] } ?? [])
            if known.isEmpty { return path.isCutOff }
            addresses += known
        }
        // A configuration without endpoints only listens: it sends to no address first.
        return addresses.isEmpty ? path.isCutOff : !path.mayReach(addresses)
    }

    /// The server's name or address, for display.
    var remoteAddress: String {
        let hosts = peers.compactMap(\.endpoint?.host)
        guard let first = hosts.first else { return "no endpoint" }
        return hosts.count == 1 ? first : "\(first) and \(hosts.count - 1) more"
    }

    /// The peers' addresses that the configuration contains.
    var literalServers: [IPAddress] { peers.compactMap { $0.endpoint?.endpoint?.address } }

    /// Whether this side can start a handshake with one of the peers.
    package var hasEndpoints: Bool { peers.contains { $0.endpoint != nil } }
}

extension PeerConfiguration {
    /// Whether the peer has a default route and this side can start a handshake with it. If such a peer is silent, the tunnel
    /// counts as dead.
    var isGateway: Bool { endpoint != nil && allowedIPs.contains { $0.length == 0 } }
}
