// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelServer
import WireGuardCore

/// The peers that are desired, and those that WireGuard and the network are known to have. A value without effects.
///
/// A round is ``withdraw()``, an update of ``engine``, an update of ``network``, ``admit(without:)``, and an update of ``engine``. WireGuard
/// thus has a source of a device only while the network has that device's access for it, and no packet meets another device's rules.
struct PeerReconciler: Sendable {
    private(set) var peers: [DeviceID: Peer] = [:]
    /// The devices that have a key, or an address or network.
    private(set) var devices: [PublicKey: DeviceID] = [:]
    private(set) var owners: [IPPrefix: DeviceID] = [:]
    /// The peers of WireGuard, each as the update that sets its preshared key and its sources.
    var engine = Reconciler<PublicKey, UAPIPeerUpdate>()
    /// The first update is complete, since an earlier process may have left connections of clients.
    var network = Reconciler<IPPrefix, ClientAccess>(isKnown: false)
    /// The addresses and networks that the network excludes, each with the reason.
    private(set) var refused: [IPPrefix: TunnelServerError] = [:]
    /// The keys whose desired peer may have changed.
    private var touchedKeys: Set<PublicKey> = []
    /// The keys that are no longer a peer's, while WireGuard may still have them.
    private(set) var leaving: [PublicKey: DeviceID] = [:]
    /// The addresses and networks that a device had, until the network ends their connections. Another device may have them now, with
    /// the same access.
    private(set) var released: Set<IPPrefix> = []
    /// Whether a complete feed has been read.
    private var hasAllDevices = false
    /// The interface that logins' devices are behind; `nil` for the first one.
    private let loginTunnel: String?
    private let servesWireGuard: Bool

    /// - Parameter servesWireGuard: Whether devices with keys are peers. Otherwise only logins' devices have access.
    init(loginTunnel: String? = nil, servesWireGuard: Bool = true) {
        (self.loginTunnel, self.servesWireGuard) = (loginTunnel, servesWireGuard)
    }

    // MARK: - Desired

    /// Replaces the devices that have changed.
    mutating func update(with feed: Feed<Peer>) {
        var wanted: [DeviceID: Peer?] = [:]
        for id in feed.isComplete ? Array(peers.keys) : feed.removed { wanted.updateValue(nil, forKey: id) }
        for peer in feed.changed { wanted.updateValue(served(peer), forKey: peer.deviceID) }
        wanted = wanted.filter { peers[$0.key] != $0.value }
        if feed.isComplete, !hasAllDevices {
            hasAllDevices = true
            // Connections of the address of a device that the store has never seen can be those of a device that had the address before,
            // and lost it while no gateway ran or only the API did. Those that the device itself began right before a kill end too.
            released.formUnion(feed.changed.filter { !$0.hasBeenSeen }.flatMap(\.sources))
        }
        // Another device may have a released key or address next.
        for (id, new) in wanted {
            guard let old = peers[id] else { continue }
            if let key = old.publicKey {
                touchedKeys.insert(key)
                if key != new?.publicKey, devices[key] == id {
                    devices[key] = nil
                    leaving[key] = id
                }
            }
            for prefix in old.sources where owners[prefix] == id && new?.sources.contains(prefix) != true {
                owners[prefix] = nil
                released.insert(prefix)
                network.setDesired(nil, for: prefix)
            }
        }
        for (id, new) in wanted {
            peers[id] = new
            guard let new else { continue }
            if let key = new.publicKey {
                touchedKeys.insert(key)
                devices[key] = id
            }
            let access = ClientAccess(rules: new.rules, tunnel: new.publicKey == nil ? loginTunnel : nil)
            for prefix in new.sources {
                owners[prefix] = id
                network.setDesired(access, for: prefix)
            }
        }
    }

    /// Removes peers, and sources of peers, that are no longer desired from those of WireGuard. This precedes a change of the network,
    /// so that no packet meets another device's rules.
    mutating func withdraw() {
        for key in touchedKeys {
            guard var old = engine.desired[key] else { continue }
            // A key that has left a device may be another device's peer next.
            if let new = enginePeer(key), leaving[key] == nil {
                old.allowedIPs = old.allowedIPs.filter(new.allowedIPs.contains)
                engine.setDesired(old, for: key)
            } else {
                engine.setDesired(nil, for: key)
            }
        }
    }

    /// Adds the desired peers to those of WireGuard, once the network has them.
    /// - Parameter refused: The addresses and networks that the network excludes. Packets from there are dropped.
    mutating func admit(without refused: [IPPrefix: TunnelServerError]) {
        let changed = Set(self.refused.keys).symmetricDifference(refused.keys)
        touchedKeys.formUnion(changed.compactMap { owners[$0].flatMap { peers[$0]?.publicKey } })
        self.refused = refused
        // WireGuard may still have a key that is leaving: it is removed before it can be another device's.
        for key in touchedKeys where leaving[key] == nil { engine.setDesired(enginePeer(key), for: key) }
        touchedKeys.formIntersection(leaving.keys)
    }

    /// Records that WireGuard has none of the keys that left.
    mutating func recordLeft() { leaving = [:] }

    /// Records that the network ends the connections of all released addresses.
    mutating func recordReleased() { released = [] }

    /// Adds the peer with this key to WireGuard, or changes it; `nil` if no device has the key.
    private func enginePeer(_ key: PublicKey) -> UAPIPeerUpdate? {
        guard let peer = devices[key].flatMap({ peers[$0] }) else { return nil }
        var update = UAPIPeerUpdate(publicKey: key)
        update.presharedKey = peer.presharedKey.map { .set($0) } ?? .clear
        update.replaceAllowedIPs = true
        update.allowedIPs = peer.sources.filter { refused[$0] == nil }.map { .add($0) }
        return update
    }

    // MARK: - Applied

    /// Whether WireGuard and the network have all devices, except for those that are excluded.
    var isCurrent: Bool { engine.isCurrent && network.isCurrent && touchedKeys.isEmpty }

    /// Whether the network has the access of a device, also while it gets that of other devices.
    func isInNetwork(_ id: DeviceID) -> Bool {
        guard let sources = peers[id]?.sources else { return false }
        return sources.allSatisfy { refused[$0] == nil && network.isApplied($0) }
    }

    /// The devices that are excluded, in whole or in part, each with the reasons.
    var exclusions: [(device: DeviceID, reason: String)] {
        var reasons: [DeviceID: [String]] = [:]
        for (prefix, error) in refused { if let id = owners[prefix] { reasons[id, default: []].append("\(error)") } }
        for (key, reason) in engine.refused { if let id = devices[key] { reasons[id, default: []].append(reason) } }
        return reasons.map { ($0.key, $0.value.sorted().joined(separator: "; ")) }
            .sorted { "\($0.device)" < "\($1.device)" }
    }

    /// The peer as WireGuard and the network have it, or `nil` if it has no access.
    private func served(_ peer: Peer) -> Peer? {
        var peer = peer
        if !servesWireGuard { (peer.publicKey, peer.presharedKey) = (nil, nil) }
        // Another expiry changes neither: AccessGate enforces it.
        (peer.expiresAt, peer.hasBeenSeen) = (nil, true)
        return peer.publicKey == nil && peer.password == nil ? nil : peer
    }
}

extension UAPIDeviceUpdate {
    /// Changes peers.
    init(_ peers: [UAPIPeerUpdate]) {
        self.init()
        self.peers = peers
    }

    /// Removes peers.
    init(removing keys: [PublicKey]) {
        self.init(
            keys.map { key in
                var peer = UAPIPeerUpdate(publicKey: key)
                peer.remove = true
                return peer
            })
    }
}
