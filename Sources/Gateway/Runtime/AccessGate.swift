// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import FoundationEssentials

/// Decides from memory which devices of the store are admitted: none that has expired, and none that is denied. A value without effects.
struct AccessGate: Sendable {
    private var peers: [DeviceID: Peer] = [:]
    private var denied: Set<DeviceID> = []
    private var denials = AccessDenials()

    /// Whether a device has expired since the last update, or is valid again since the clock was set back.
    func isDue(at now: Date) -> Bool {
        peers.values.contains { isDenied($0, at: now) != denied.contains($0.deviceID) }
    }

    /// Updates the gate with the changes of the store.
    /// - Parameters:
    ///   - feed: The changes of the store, or `nil` if it cannot be read.
    ///   - new: The denials of before the store was read. If it cannot be read, they are added to the former ones.
    /// - Returns: The changes for the peers: denied devices have neither a key nor a password.
    mutating func update(_ feed: Feed<Peer>?, denials new: AccessDenials, at now: Date) -> Feed<Peer> {
        var effective = feed ?? Feed(sequence: 0)
        if feed != nil { denials = new } else { denials.formUnion(new) }
        if effective.isComplete { peers = [:] }
        for id in effective.removed { peers[id] = nil }
        for peer in effective.changed { peers[peer.deviceID] = peer }
        let before = denied
        denied = Set(peers.values.filter { isDenied($0, at: now) }.map(\.deviceID))
        let touched = before.symmetricDifference(denied).union(effective.changed.map(\.deviceID))
        effective.changed = touched.compactMap { peers[$0].map(admitted) }
        return effective
    }

    private func isDenied(_ peer: Peer, at now: Date) -> Bool {
        if let end = peer.expiresAt, end <= now { return true }
        if denials.devices.contains(peer.deviceID) || peer.userID.map(denials.users.contains) == true { return true }
        return peer.password != nil && peer.userID.map(denials.passwords.contains) == true
    }

    private func admitted(_ peer: Peer) -> Peer {
        guard denied.contains(peer.deviceID) else { return peer }
        var peer = peer
        (peer.publicKey, peer.presharedKey, peer.password) = (nil, nil, nil)
        return peer
    }
}
