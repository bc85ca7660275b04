// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
public import PacketTunnel
import WireGuardCore

extension WireGuardTunnelConfiguration {
    /// What the tunnel wants of the system: addresses, allowed IPs as included routes, DNS, MTU.
    /// - Parameter leakPolicy: the least that is demanded; the stricter of it and the configuration's is asked for.
    public func settings(leakPolicy: LeakPolicy = .routeBased) -> TunnelSettings {
        var routes: [IPPrefix] = []
        var known: Set<IPPrefix> = []
        for prefix in makesRoutes ? peers.flatMap(\.allowedIPs) : [] where known.insert(prefix).inserted {
            routes.append(prefix)
        }
        return TunnelSettings(
            remoteAddress: remoteAddress, addresses: addresses, includedRoutes: routes,
            excludedRoutes: excludedRoutes, allowsLocalNetwork: allowsLocalNetwork, dns: dns, mtu: mtu,
            leakPolicy: max(self.leakPolicy, leakPolicy), allowedNetworks: allowedNetworks)
    }

    /// The server, as it is shown to the user.
    var remoteAddress: String {
        let endpoints = peers.compactMap(\.endpoint)
        guard let first = endpoints.first else { return "no endpoint" }
        let host = (try? EndpointAddress(first))?.host ?? first
        return endpoints.count == 1 ? host : "\(host) and \(endpoints.count - 1) more"
    }

    /// The peers' keys and endpoints as the engine knows them; those that are malformed are left out.
    var parsedPeers: [ParsedPeer] {
        peers.compactMap { peer in
            guard let key = PublicKey(base64: peer.publicKey) else { return nil }
            return ParsedPeer(key: key, address: peer.endpoint.flatMap { try? EndpointAddress($0) }, peer: peer)
        }
    }

    /// Whether this side can begin with one of the peers.
    var hasEndpoints: Bool { peers.contains { $0.endpoint != nil } }

    /// What to send to a device so that it has this configuration and nothing else: peers that are not in it go, and a
    /// port or mark that is not in it is given up.
    /// - Parameter replacing: the peers that the device has, so that those that stay keep their sessions; nil for a new
    ///   device.
    func deviceUpdate(
        secrets: TunnelSecrets, endpoints: [PublicKey: Endpoint], mark: UInt32?, replacing: [PublicKey]? = nil
    ) -> UAPIDeviceUpdate {
        var update = UAPIDeviceUpdate()
        update.privateKey = .set(secrets.privateKey)
        update.listenPort = listenPort ?? 0
        update.fwMark = mark ?? fwMark ?? 0
        update.replacePeers = replacing == nil
        let parsedPeers = parsedPeers
        for key in replacing ?? [] where !parsedPeers.contains(where: { $0.key == key }) {
            var removal = UAPIPeerUpdate(publicKey: key)
            removal.remove = true
            update.peers.append(removal)
        }
        update.peers += parsedPeers.map { parsed in
            var change = UAPIPeerUpdate(publicKey: parsed.key)
            change.presharedKey = secrets.presharedKeys[parsed.key].map { .set($0) } ?? .clear
            change.endpoint = endpoints[parsed.key]
            change.persistentKeepalive = parsed.peer.persistentKeepalive
            change.replaceAllowedIPs = true
            change.allowedIPs = parsed.peer.allowedIPs.map { .add($0) }
            return change
        }
        return update
    }
}

/// A peer with its key and endpoint understood.
struct ParsedPeer: Sendable {
    var key: PublicKey
    var address: EndpointAddress?
    var peer: WireGuardTunnelConfiguration.Peer

    /// Whether a default route goes to it, and this side can begin: when it is silent, the tunnel is as good as dead.
    var isGateway: Bool { address != nil && peer.allowedIPs.contains { $0.length == 0 } }
}
