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
        for parsed in parsedPeers {
            guard let address = parsed.address else { continue }
            let known = (places[parsed.key] ?? []) + (address.endpoint.map { [$0.address] } ?? [])
            if known.isEmpty { return path.isCutOff }
            addresses += known
        }
        // Who only listens goes to nobody.
        return addresses.isEmpty ? path.isCutOff : !path.mayReach(addresses)
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

    /// The peers' addresses that the configuration names.
    var literalServers: [IPAddress] { parsedPeers.compactMap { $0.address?.endpoint?.address } }

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
        update.privateKey = secrets.privateKey.map { .set($0) } ?? .unchanged
        update.listenPort = listenPort ?? 0
        update.fwMark = mark ?? fwMark ?? 0
        update.replacePeers = replacing == nil
        let parsedPeers = parsedPeers
        // There may be 20,000 peers.
        let wanted = Set(parsedPeers.map(\.key))
        for key in replacing ?? [] where !wanted.contains(key) {
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

extension WireGuardTunnelConfiguration {
    /// What to send to a device that was given another configuration before, so that it takes on what differs. What both say
    /// stays as it is, also where others (`wg set`) have changed it meanwhile, and so do the peers that others have added.
    func deviceChange(
        from former: (configuration: WireGuardTunnelConfiguration, secrets: TunnelSecrets),
        secrets: TunnelSecrets, endpoints: [PublicKey: Endpoint], mark: UInt32?
    ) -> UAPIDeviceUpdate {
        let kept = unchangedPeers(since: former, secrets)
        var update = deviceUpdate(
            secrets: secrets, endpoints: endpoints, mark: mark,
            replacing: former.configuration.parsedPeers.map(\.key))
        if secrets.privateKey == former.secrets.privateKey { update.privateKey = .unchanged }
        if listenPort ?? 0 == former.configuration.listenPort ?? 0 { update.listenPort = nil }
        update.peers.removeAll { kept.contains($0.publicKey) }
        return update
    }

    /// The peers of which this one says the same as one before.
    func unchangedPeers(
        since former: (configuration: WireGuardTunnelConfiguration, secrets: TunnelSecrets), _ secrets: TunnelSecrets
    ) -> Set<PublicKey> {
        let before = Dictionary(former.configuration.parsedPeers.map { ($0.key, $0.peer) }) { first, _ in first }
        var same: Set<PublicKey> = []
        for parsed in parsedPeers where before[parsed.key]?.isSame(as: parsed.peer) == true {
            if secrets.presharedKeys[parsed.key] == former.secrets.presharedKeys[parsed.key] { same.insert(parsed.key) }
        }
        return same
    }
}

extension WireGuardTunnelConfiguration.Peer {
    /// Whether it says the same. Where the pre-shared key is kept says nothing of the key.
    fileprivate func isSame(as other: Self) -> Bool {
        var other = other
        other.presharedKeyName = presharedKeyName
        return self == other
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
