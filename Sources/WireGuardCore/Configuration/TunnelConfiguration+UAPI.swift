// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// A peer's host that was not resolved, so that its endpoint cannot be set.
public struct UnresolvedEndpoint: Error, Hashable, Sendable, CustomStringConvertible {
    /// The peer.
    public let peer: PublicKey
    /// Its host and port.
    public let endpoint: EndpointAddress

    /// The peer and its host.
    public var description: String { "the host of \(endpoint) is not resolved (peer \(peer))" }
}

/// The way of applying a configuration to a device that may have one already.
public enum ConfigurationMode: Hashable, Sendable {
    /// Like `wg setconf`: removes everything that the configuration does not have.
    case replace
    /// Like `wg addconf`: keeps everything that the configuration does not have.
    case add
}

extension TunnelConfiguration {
    /// Returns the update with which a device applies this configuration.
    ///
    /// Addresses, DNS, MTU, routes and commands do not concern the device and are not part of it.
    /// - Parameters:
    ///   - mode: The treatment of settings that the configuration does not have.
    ///   - resolve: Returns the endpoint of a peer's host. By default only addresses are resolved; `ResolvedEndpoints` of
    ///     WireGuardDevice uses the system's resolver for names.
    /// - Throws: ``UnresolvedEndpoint`` for the first host for which `resolve` returns `nil`.
    public func deviceUpdate(
        mode: ConfigurationMode = .replace, resolve: (EndpointAddress) -> Endpoint? = { $0.endpoint }
    ) throws(UnresolvedEndpoint) -> UAPIDeviceUpdate {
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
        for peer in peers {
            var change = UAPIPeerUpdate(publicKey: peer.publicKey)
            if let presharedKey = peer.presharedKey, !presharedKey.isZero { change.presharedKey = .set(presharedKey) }
            if let address = peer.endpoint {
                guard let endpoint = resolve(address) else {
                    throw UnresolvedEndpoint(peer: peer.publicKey, endpoint: address)
                }
                change.endpoint = endpoint
            }
            change.persistentKeepalive = peer.persistentKeepalive
            switch peer.allowedIPsRule {
            case .exactly(let prefixes):
                change.replaceAllowedIPs = true
                change.allowedIPs = prefixes.map { .add($0) }
            case .changes(let changes): change.allowedIPs = changes
            }
            update.peers.append(change)
        }
        return update
    }
}
