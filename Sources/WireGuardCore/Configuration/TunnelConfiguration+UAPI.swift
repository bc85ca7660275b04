// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// A peer's host that was not resolved, so that there is no endpoint to set.
public struct UnresolvedEndpoint: Error, Hashable, Sendable, CustomStringConvertible {
    /// The peer.
    public let peer: PublicKey
    /// Its host and port.
    public let endpoint: EndpointAddress

    /// The peer and its host.
    public var description: String { "the host of \(endpoint) is not resolved (peer \(peer))" }
}

/// How a configuration is applied to a device that may have one already.
public enum ConfigurationMode: Hashable, Sendable {
    /// As `wg setconf`: what the configuration does not have goes.
    case replace
    /// As `wg addconf`: what the configuration does not have stays.
    case add
}

extension TunnelConfiguration {
    /// What to send to a device so that it takes on this configuration.
    ///
    /// Addresses, DNS, MTU, routes and commands are not the device's business and are not in it.
    /// - Parameters:
    ///   - mode: What happens to settings that the configuration does not have.
    ///   - resolve: The endpoint of a peer's host. If nothing is given, hosts that are addresses are understood and no others;
    ///     `ResolvedEndpoints` of WireGuardDevice asks the system for names.
    /// - Throws: ``UnresolvedEndpoint`` for the first host that `resolve` gives nil for.
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
