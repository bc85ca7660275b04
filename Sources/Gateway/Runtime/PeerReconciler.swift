// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials
import NetworkAddresses
import TunnelServer
import WireGuardCore

/// The desired and the applied state of devices: the devices of the store, which of them have access, and the peers
/// that WireGuard and the network are known to have. A value without side effects.
///
/// A device that has expired or is denied has no access, even if the store cannot be read.
///
/// A round consists of ``withdraw()``, an update of ``engine``, an update of ``network``, ``admit(without:)``, and
/// another update of ``engine``. WireGuard thus accepts packets from a source of a device only while the network has
/// the device's access for that source, so no packet is filtered by another device's rules. While the network is
/// updated, devices may change, and ``withdraw()`` may be called with another update of ``engine``.
struct PeerReconciler: Sendable {
    /// A peer of WireGuard. The array of sources shares its memory with that of the device, because a gateway may have
    /// thousands of peers.
    struct EnginePeer: Equatable, Sendable {
        var presharedKey: PresharedKey?
        var sources: [IPPrefix]
    }

    /// The owner of an address, or of a network behind a device, and its access.
    struct NetworkPeer: Equatable, Sendable {
        var device: DeviceID
        var rules: [AccessRule]
        /// All addresses and networks of the device.
        var sources: [IPPrefix]
        /// Whether the device uses the login tunnel.
        var isLogin: Bool
    }

    /// The devices of the store.
    private var peers: [DeviceID: Peer] = [:]
    /// The devices of the store that have no access, since they have expired or are denied.
    private var denied: Set<DeviceID> = []
    private var denials = AccessDenials()
    /// The devices that have a key.
    private(set) var devices: [PublicKey: DeviceID] = [:]
    var engine = Reconciler<PublicKey, EnginePeer>()
    /// The first update replaces the whole state of the network, because an earlier process may have left connections
    /// of clients.
    var network = Reconciler<IPPrefix, NetworkPeer>(isKnown: false)
    /// The addresses and networks that the network excludes, each with the reason.
    private(set) var refused: [IPPrefix: TunnelServerError] = [:]
    /// The keys whose desired peer may have changed.
    private var touchedKeys: Set<PublicKey> = []
    /// The keys that their device no longer has, each with the device. WireGuard may still have them.
    private(set) var leaving: [PublicKey: DeviceID] = [:]
    /// The addresses and networks that a device has lost, until the network ends their connections. Another device may
    /// have them now, with the same access.
    private(set) var released: Set<IPPrefix> = []
    /// The keys that WireGuard has received since ``takeAdmitted()``. An update may fail after it has added some of them.
    private var admitted: Set<PublicKey> = []
    /// Whether a complete feed has been read.
    private var hasAllDevices = false
    /// The interface of the login tunnel, through which logins' devices send packets; `nil` if it is the first
    /// interface.
    private let loginTunnel: String?
    private let servesWireGuard: Bool

    /// - Parameter servesWireGuard: Whether devices with keys are peers. Otherwise only logins' devices have access.
    init(loginTunnel: String? = nil, servesWireGuard: Bool = true) {
        (self.loginTunnel, self.servesWireGuard) = (loginTunnel, servesWireGuard)
    }

    // MARK: - Desired

    /// Replaces the devices that have changed in the store, and those whose access has ended or resumed by time or
    /// denial.
    /// - Parameters:
    ///   - feed: The changes of the store, or `nil` if it cannot be read.
    ///   - new: The denials, as read before the store. If the store cannot be read, they are added to the earlier ones.
    mutating func update(with feed: Feed<Peer>?, denials new: AccessDenials, at now: Date) {
        if feed == nil { denials.formUnion(new) } else { denials = new }
        // Release all keys and addresses before any is assigned, because another device may get a released one.
        var changed: [DeviceID] = []
        if let feed {
            for id in feed.removed { replace(id, with: nil, at: now) }
            if feed.isComplete, !peers.isEmpty {
                let present = Set(feed.changed.lazy.map(\.deviceID))
                for id in Array(peers.keys) where !present.contains(id) { replace(id, with: nil, at: now) }
            }
            for peer in feed.changed where replace(peer.deviceID, with: peer, at: now) { changed.append(peer.deviceID) }
            if feed.isComplete, !hasAllDevices {
                hasAllDevices = true
                // A device that was never seen may have the address of an earlier device, which lost it while no
                // gateway or only the API ran: end that device's connections. If this process follows a killed one,
                // this may also end connections that the new device has just begun.
                for peer in feed.changed where !peer.hasBeenSeen { released.formUnion(peer.sources) }
            }
        }
        for id in due(at: now) where replace(id, with: peers[id], at: now) { changed.append(id) }
        for id in changed { assign(id) }
    }

    /// Whether the access of a device has ended or resumed since the last update: it has expired, or is valid again
    /// because the clock was set back.
    func isDue(at now: Date) -> Bool { peers.values.contains { isDue($0, at: now) } }

    /// The devices whose access has ended or resumed since the last update.
    private func due(at now: Date) -> [DeviceID] { peers.values.lazy.filter { isDue($0, at: now) }.map(\.deviceID) }

    private func isDue(_ peer: Peer, at now: Date) -> Bool {
        isDenied(peer, at: now) != denied.contains(peer.deviceID)
    }

    private func isDenied(_ peer: Peer, at now: Date) -> Bool {
        if let end = peer.expiresAt, end <= now { return true }
        if denials.devices.contains(peer.deviceID) || peer.userID.map(denials.users.contains) == true { return true }
        return peer.password != nil && peer.userID.map(denials.passwords.contains) == true
    }

    /// Replaces a device, and releases its key and sources that it no longer has.
    /// - Returns: Whether the device has access, in another state than before.
    @discardableResult
    private mutating func replace(_ id: DeviceID, with peer: Peer?, at now: Date) -> Bool {
        let old = served(id)
        var peer = peer
        if let present = peers[id] {
            // Keep the present list if it is equal, so that it is in memory only once.
            if peer?.sources == present.sources { peer?.sources = present.sources }
            if peer?.rules == present.rules { peer?.rules = present.rules }
        }
        peers[id] = peer
        if let peer, isDenied(peer, at: now) { denied.insert(id) } else { denied.remove(id) }
        let new = served(id)
        guard old != new else { return false }
        release(old, id, unlike: new)
        return new != nil
    }

    private mutating func release(_ old: Peer?, _ id: DeviceID, unlike new: Peer?) {
        guard let old else { return }
        if let key = old.publicKey {
            touchedKeys.insert(key)
            if key != new?.publicKey, devices[key] == id {
                devices[key] = nil
                leaving[key] = id
            }
        }
        for prefix in old.sources where owner(of: prefix) == id && new?.sources.contains(prefix) != true {
            released.insert(prefix)
            network.setDesired(nil, for: prefix)
        }
    }

    /// Makes a device's key and sources part of the desired state.
    private mutating func assign(_ id: DeviceID) {
        guard let peer = served(id) else { return }
        if let key = peer.publicKey {
            touchedKeys.insert(key)
            devices[key] = id
        }
        let networkPeer = NetworkPeer(
            device: id, rules: peer.rules, sources: peer.sources, isLogin: peer.publicKey == nil)
        for prefix in peer.sources { network.setDesired(networkPeer, for: prefix) }
    }

    private func owner(of prefix: IPPrefix) -> DeviceID? { network.desired[prefix]?.device }

    /// The access of the peer in the form of the network.
    func access(_ peer: NetworkPeer) -> ClientAccess {
        ClientAccess(
            rules: peer.rules, tunnel: peer.isLogin ? loginTunnel : nil,
            prefixes: peer.sources.count > 1 ? peer.sources : [])
    }

    /// Removes peers and sources that are no longer desired from WireGuard's desired state. Call it before the network
    /// changes, so that no packet is filtered by another device's rules.
    mutating func withdraw() {
        for key in touchedKeys {
            guard var old = engine.desired[key] else { continue }
            // Remove a key that a device has lost, even if it is already the key of another device.
            if let new = enginePeer(key), leaving[key] == nil {
                if old.sources != new.sources { old.sources.removeAll { !new.sources.contains($0) } }
                engine.setDesired(old, for: key)
            } else {
                engine.setDesired(nil, for: key)
            }
        }
    }

    /// Adds peers and sources to WireGuard's desired state. Call it after the network has their access.
    /// - Parameter refused: The addresses and networks that the network excludes. Packets from there are dropped.
    mutating func admit(without refused: [IPPrefix: TunnelServerError]) {
        let changed = Set(self.refused.keys).symmetricDifference(refused.keys)
        touchedKeys.formUnion(changed.compactMap { owner(of: $0).flatMap { peers[$0]?.publicKey } })
        self.refused = refused
        // Skip keys that WireGuard has not removed yet: a key must be removed before it becomes another device's. Skip
        // devices that have changed while the network was updated: their access is not in the network yet.
        let waiting = touchedKeys.filter { leaving[$0] != nil || !isInNetwork($0) }
        for key in touchedKeys.subtracting(waiting) { engine.setDesired(enginePeer(key), for: key) }
        touchedKeys = waiting
    }

    /// Whether the network has applied the access of the device with this key, or no device has the key.
    private func isInNetwork(_ key: PublicKey) -> Bool {
        devices[key].flatMap { peers[$0] }?.sources.allSatisfy(network.isApplied) ?? true
    }

    /// Records that WireGuard has removed all keys in ``leaving``.
    mutating func recordLeft() { leaving = [:] }

    /// Forgets these released addresses, because the network now ends their connections.
    mutating func recordReleased(_ ended: Set<IPPrefix>) { released.subtract(ended) }

    /// The peer with this key; `nil` if no admitted device has it.
    private func enginePeer(_ key: PublicKey) -> EnginePeer? {
        guard let peer = devices[key].flatMap({ peers[$0] }) else { return nil }
        let isWhole = refused.isEmpty || !peer.sources.contains { refused[$0] != nil }
        return EnginePeer(
            presharedKey: peer.presharedKey,
            sources: isWhole ? peer.sources : peer.sources.filter { refused[$0] == nil })
    }

    /// The endpoints at which the store has recorded the peers of WireGuard, as of the last time that it was read.
    var formerEndpoints: [PublicKey: FormerEndpoint] {
        devices.compactMapValues { peers[$0]?.formerEndpoint }
    }

    /// Records that WireGuard receives a key that it did not have.
    mutating func recordAdmitted(_ key: PublicKey) { admitted.insert(key) }

    /// Returns the former endpoints of the peers that WireGuard has received since the last call, and forgets the keys.
    /// The result has no key that its device has lost.
    mutating func takeAdmitted() -> [PublicKey: FormerEndpoint] {
        defer { admitted = [] }
        return admitted.reduce(into: [:]) { former, key in
            former[key] = devices[key].flatMap { peers[$0]?.formerEndpoint }
        }
    }

    // MARK: - Applied

    /// Whether WireGuard and the network have all devices, except for those that are excluded.
    var isCurrent: Bool { engine.isCurrent && network.isCurrent && touchedKeys.isEmpty }

    /// Whether the network has applied a device's access. It stays `true` while the access of other devices is applied.
    func isInNetwork(_ id: DeviceID) -> Bool {
        guard let sources = served(id)?.sources else { return false }
        return sources.allSatisfy { refused[$0] == nil && network.isApplied($0) }
    }

    /// The devices with an excluded key, address or network, each with the reasons.
    var exclusions: [(device: DeviceID, reason: String)] {
        var reasons: [DeviceID: [String]] = [:]
        for (prefix, error) in refused { if let id = owner(of: prefix) { reasons[id, default: []].append("\(error)") } }
        for (key, reason) in engine.refused { if let id = devices[key] { reasons[id, default: []].append(reason) } }
        return reasons.map { ($0.key, $0.value.sorted().joined(separator: "; ")) }
            .sorted { "\($0.device)" < "\($1.device)" }
    }

    /// The password of a login's device; `nil` if the device has no access.
    func password(of id: DeviceID) -> StoredPassword? { denied.contains(id) ? nil : peers[id]?.password }

    /// Whether the password that a session of a device began with is no longer its user's password.
    func hasChanged(_ password: StoredPassword, of id: DeviceID) -> Bool {
        guard let peer = peers[id] else { return false }
        return peer.userID.map(denials.passwords.contains) == true || peer.password != nil && peer.password != password
    }

    /// The device as WireGuard and the network must have it, or `nil` if it has no access.
    private func served(_ id: DeviceID) -> Peer? {
        guard !denied.contains(id), var peer = peers[id] else { return nil }
        if !servesWireGuard { (peer.publicKey, peer.presharedKey) = (nil, nil) }
        // WireGuard and the network depend on none of these values, so changes are ignored; `denied` enforces the expiry.
        (peer.expiresAt, peer.hasBeenSeen, peer.formerEndpoint) = (nil, true, nil)
        return peer.publicKey == nil && peer.password == nil ? nil : peer
    }
}

extension UAPIPeerUpdate {
    /// Adds a peer with this pre-shared key and these sources, or replaces those of an existing peer.
    init(_ key: PublicKey, _ peer: PeerReconciler.EnginePeer) {
        self.init(publicKey: key)
        presharedKey = peer.presharedKey.map { .set($0) } ?? .clear
        replaceAllowedIPs = true
        allowedIPs = peer.sources.map { .add($0) }
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
