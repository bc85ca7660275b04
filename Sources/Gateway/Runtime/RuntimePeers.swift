// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelServer
import WireGuardCore

/// The peers that are in force, and what it takes to have others. A value: it does nothing itself.
struct RuntimePeers: Sendable {
    /// A device that is a peer of WireGuard, or one that a session of the login tunnel may have.
    struct Peer: Equatable, Sendable {
        /// Nil for a login's.
        var publicKey: PublicKey?
        var presharedKey: PresharedKey?
        /// Of a login's device, what its session's password was compared with.
        var password: StoredPassword?
        var addresses: [IPAddress]
        var subnets: [IPPrefix]
        var rules: ClientRules

        /// Where its packets may come from.
        var sources: [IPPrefix] { addresses.map { IPPrefix(host: $0) } + subnets }
    }

    /// What is to be done, in this order.
    struct Work: Equatable, Sendable {
        /// Keys that are nobody's any more: these go first.
        var leavingKeys: [DeviceID: PublicKey] = [:]
        /// What the network is told next.
        var network: [ClientChange] = []
        /// Peers that are new or different for WireGuard, last.
        var peers: [DeviceID: Peer] = [:]

        var isEmpty: Bool { leavingKeys.isEmpty && network.isEmpty && peers.isEmpty }
    }

    private(set) var peers: [DeviceID: Peer] = [:]
    /// The interface that logins' devices are behind.
    private let loginTunnel: String?

    init(loginTunnel: String? = nil) { self.loginTunnel = loginTunnel }

    /// The device whose key this is.
    var devices: [PublicKey: DeviceID] {
        Dictionary(peers.compactMap { id, peer in peer.publicKey.map { ($0, id) } }) { first, _ in first }
    }

    /// Takes what has become of devices for what is in force from now on.
    mutating func take(_ changes: PeerChanges) -> Work {
        var wanted: [DeviceID: Peer?] = [:]
        for id in changes.removed { wanted.updateValue(nil, forKey: id) }
        if changes.isComplete {
            for id in peers.keys { wanted.updateValue(nil, forKey: id) }
        }
        for plan in changes.peers { wanted.updateValue(Self.peer(plan), forKey: plan.deviceID) }
        var work = Work()
        var coming: [ClientChange] = []
        for (id, new) in wanted {
            let old = peers[id]
            guard old != new else { continue }
            peers[id] = new
            if let key = old?.publicKey, key != new?.publicKey { work.leavingKeys[id] = key }
            // Sources that it has no more; somebody else may have them next.
            let gone = old.map { old in
                ClientChange(
                    addresses: old.addresses.filter { new?.addresses.contains($0) != true },
                    subnets: old.subnets.filter { new?.subnets.contains($0) != true }, rules: nil)
            }
            if let gone, !gone.prefixes.isEmpty { work.network.append(gone) }
            guard let new else { continue }
            if old?.sources != new.sources || old?.rules != new.rules {
                coming.append(
                    ClientChange(
                        addresses: new.addresses, subnets: new.subnets,
                        tunnel: new.publicKey == nil ? loginTunnel : nil, rules: new.rules))
            }
            guard new.publicKey != nil else { continue }
            if old?.publicKey != new.publicKey || old?.presharedKey != new.presharedKey || old?.sources != new.sources {
                work.peers[id] = new
            }
        }
        work.network += coming
        return work
    }

    /// Forgets what is not known to be in force: it is done again when all are compared.
    mutating func forget(_ work: Work) {
        for id in work.peers.keys { peers[id] = nil }
        for id in work.leavingKeys.keys { peers[id] = nil }
        let changed = Set(work.network.flatMap(\.prefixes))
        peers = peers.filter { !$0.value.sources.contains(where: changed.contains) }
    }

    private static func peer(_ plan: PeerPlan) -> Peer? {
        guard plan.publicKey != nil || plan.password != nil else { return nil }
        return Peer(
            publicKey: plan.publicKey, presharedKey: plan.presharedKey, password: plan.password,
            addresses: plan.addresses, subnets: plan.subnets, rules: ClientRules(plan.rules))
    }
}

extension RuntimePeers.Work {
    /// Takes the keys away that are nobody's any more.
    var removal: UAPIDeviceUpdate {
        var update = UAPIDeviceUpdate()
        update.peers = leavingKeys.values.map { key in
            var peer = UAPIPeerUpdate(publicKey: key)
            peer.remove = true
            return peer
        }
        return update
    }

    /// How many peers one update has, so that none keeps packets waiting.
    private static let updateSize = 128

    /// Makes the peers that are new or different.
    /// - Parameter refused: networks that cannot be behind a peer.
    func additions(without refused: Set<IPPrefix>) -> [UAPIDeviceUpdate] {
        var updates: [UAPIDeviceUpdate] = []
        for (count, update) in peers.values.compactMap({ $0.update(without: refused) }).enumerated() {
            if count.isMultiple(of: Self.updateSize) { updates.append(UAPIDeviceUpdate()) }
            updates[updates.count - 1].peers.append(update)
        }
        return updates
    }
}

extension RuntimePeers.Peer {
    fileprivate func update(without refused: Set<IPPrefix>) -> UAPIPeerUpdate? {
        guard let publicKey else { return nil }
        var update = UAPIPeerUpdate(publicKey: publicKey)
        update.presharedKey = presharedKey.map { .set($0) } ?? .clear
        update.replaceAllowedIPs = true
        update.allowedIPs = sources.filter { !refused.contains($0) }.map { .add($0) }
        return update
    }
}

extension ClientRules {
    /// The rules of a device and its user, as the firewall has them.
    init(_ rules: [RuleContent]) {
        self.init()
        for rule in rules {
            guard let made = AccessRule(rule) else { continue }
            switch rule.direction {
            case .out: from.append(made)
            case .in: towards.append(made)
            }
        }
    }
}

extension AccessRule {
    /// - Returns: nil for a rule that allows what there is not. One that denies it denies the whole protocol.
    fileprivate init?(_ rule: RuleContent) {
        let transport: Transport =
            switch rule.transport {
            case .any: .any
            case .tcp: .tcp
            case .udp: .udp
            case .icmp: .icmp
            }
        let hasPorts = transport != .icmp
        guard hasPorts || rule.ports.isEmpty || rule.action == .deny else { return nil }
        self.init(
            rule.action == .allow ? .allow : .deny, networks: rule.networks, transport: transport,
            ports: hasPorts ? rule.ports : [])
    }
}
