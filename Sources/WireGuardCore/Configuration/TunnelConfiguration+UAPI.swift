// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// The error of a peer whose host was not resolved, so that its endpoint cannot be set.
public struct UnresolvedEndpoint: Error, Hashable, Sendable, CustomStringConvertible {
    /// The peer.
    public let peer: PublicKey
    /// Its host and port.
    public let endpoint: EndpointAddress

    /// The peer and its host.
    public var description: String { "the host of \(endpoint) is not resolved (peer \(peer))" }
}

/// The way to apply a configuration to a device that may already have one.
public enum ConfigurationMode: Hashable, Sendable {
    /// Like `wg setconf`: removes everything that is not in the configuration. A peer whose endpoint is not in it keeps its
    /// present endpoint.
    case replace
    /// Like `wg addconf`: keeps everything that is not in the configuration.
    case add
}

extension TunnelConfiguration {
    /// Returns the update with which a device applies this configuration.
    ///
    /// Addresses, DNS, MTU, routes and commands are not part of it, because the device does not handle them.
    /// - Parameters:
    ///   - mode: The treatment of settings that are not in the configuration.
    ///   - resolve: Returns the endpoint of a peer's host. By default only addresses are resolved; `ResolvedEndpoints` of
    ///     WireGuardDevice uses the system's resolver for names.
    /// - Throws: ``UnresolvedEndpoint`` for the first host for which `resolve` returns `nil`.
    public func deviceUpdate(
        mode: ConfigurationMode = .replace, resolve: (EndpointAddress) -> Endpoint? = { $0.endpoint }
    ) throws(UnresolvedEndpoint) -> UAPIDeviceUpdate {
        var endpoints: [PublicKey: Endpoint] = [:]
        for peer in peers {
            guard let address = peer.endpoint else { continue }
            guard let endpoint = resolve(address) else {
                throw UnresolvedEndpoint(peer: peer.publicKey, endpoint: address)
            }
            endpoints[peer.publicKey] = endpoint
        }
        return deviceUpdate(mode: mode, endpoints: endpoints)
    }

    /// Returns the changes that give a device this configuration.
    /// - Parameter endpoints: The endpoints to set. A peer without an entry keeps its endpoint, or has none.
    package func deviceUpdate(
        mode: ConfigurationMode = .replace, endpoints: [PublicKey: Endpoint]
    ) -> UAPIDeviceUpdate {
        var update = UAPIDeviceUpdate()
        let replaces = mode == .replace
        if let privateKey = interface.privateKey, !privateKey.isZero {
            update.privateKey = .set(privateKey)
        } else if replaces {
            update.privateKey = .clear
        }
        update.listenPort = interface.listenPort ?? (replaces ? 0 : nil)
        update.fwMark = interface.fwMark ?? (replaces ? 0 : nil)
        update.replacePeers = replaces
        update.peers = peers.map { peer in
            var change = UAPIPeerUpdate(publicKey: peer.publicKey)
            if let presharedKey = peer.presharedKey, !presharedKey.isZero { change.presharedKey = .set(presharedKey) }
            change.endpoint = endpoints[peer.publicKey]
            change.persistentKeepalive = peer.persistentKeepalive
            switch peer.allowedIPsRule {
            case .exactly(let prefixes):
                change.replaceAllowedIPs = true
                change.allowedIPs = prefixes.map { .add($0) }
            case .changes(let changes): change.allowedIPs = changes
            }
            return change
        }
        return update
    }

    /// Returns the changes for a device that has the configuration `former`. It does not change values that are equal
    /// in both configurations, even if another program (`wg set`) has changed them in the device, nor peers that
    /// another program has added. If this configuration has no private key, the device keeps its key, because another
    /// program sets it.
    /// - Parameter endpoints: The endpoints of the peers that change. A peer without an entry keeps its endpoint, or
    ///   has none.
    package func deviceChange(
        from former: TunnelConfiguration, endpoints: [PublicKey: Endpoint]
    ) -> UAPIDeviceUpdate {
        var update = deviceUpdate(endpoints: endpoints)
        if interface.privateKey == nil || interface.privateKey == former.interface.privateKey {
            update.privateKey = .unchanged
        }
        if interface.listenPort ?? 0 == former.interface.listenPort ?? 0 { update.listenPort = nil }
        update.replacePeers = false
        let unchanged = unchangedPeers(since: former)
        update.peers.removeAll { unchanged.contains($0.publicKey) }
        for index in update.peers.indices {
            if update.peers[index].presharedKey == .unchanged { update.peers[index].presharedKey = .clear }
            update.peers[index].persistentKeepalive = update.peers[index].persistentKeepalive ?? 0
        }
        // Use a set, because there may be 20,000 peers.
        let wanted = Set(peers.map(\.publicKey))
        update.peers.insert(
            contentsOf: former.peers.filter { !wanted.contains($0.publicKey) }.map { peer in
                var removal = UAPIPeerUpdate(publicKey: peer.publicKey)
                removal.remove = true
                return removal
            }, at: 0)
        return update
    }

    /// Returns the peers that are equal in this configuration and in `former`, including their keys.
    package func unchangedPeers(since former: TunnelConfiguration) -> Set<PublicKey> {
        let before = Dictionary(former.peers.map { ($0.publicKey, $0) }) { first, _ in first }
        return Set(peers.filter { before[$0.publicKey] == $0 }.map(\.publicKey))
    }
}
