// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Executes UAPI requests, whole or in pieces.
extension Engine {
    /// Applies the key and the peers of an update. The owner applies port and mark.
    public mutating func apply(_ update: UAPIDeviceUpdate, at now: Instant, wall: WallTime) {
        var progress = UpdateProgress()
        while apply(update, &progress, work: .max, at: now, wall: wall) {}
    }

    /// Applies some of an update, so that the engine's owner does not block other threads for the time that all of it
    /// needs. The owner must prevent other changes of the configuration until the update is complete.
    ///
    /// A small update is complete after one call, unless it sends many handshakes; see ``UpdateProgress``. Between the
    /// calls for a larger one, an address has the peer that it had before or the one that it gets, except in the last two
    /// of these cases:
    ///
    /// - Each peer has its old or its new settings. An exception is the peer in progress: some of its added allowed IPs
    ///   may still be missing, or, if the update removes the peer, some of its allowed IPs are already removed.
    /// - One call replaces all allowed IPs of a peer, even if they are more than `work`. Otherwise, another peer with a
    ///   wider network would get packets of this peer between the removal and the addition.
    /// - An allowed IP moves from its owner to another peer in one step, unless the update has removed it from the owner
    ///   before. Then the next wider network has its packets until the other peer's turn.
    /// - An update that replaces the peers first removes all allowed IPs, and routes packets again when it is complete.
    /// - Parameters:
    ///   - progress: The position. Each update needs a new one.
    ///   - work: The most peers, and changes of allowed IPs, of this call, with the exceptions above.
    /// - Returns: Whether a part of the update is left.
    package mutating func apply(
        _ update: UAPIDeviceUpdate, _ progress: inout UpdateProgress, work: Int, at now: Instant, wall: WallTime
    ) -> Bool {
        var work = work
        if progress.isAtStart, let all = self.work(of: update, atMost: progress.mostWhole) { work = max(work, all) }
        if !progress.isPrepared {
            if update.replacePeers {
                removePeers(&progress, &work)
                guard peers.isEmpty else { return true }
            }
            switch update.privateKey {
            case .unchanged: break
            case .clear: setPrivateKey(nil)
            case .set(let key): setPrivateKey(key.isZero ? nil : key)
            }
            progress.isPrepared = true
        }
        if update.replacePeers { swap(&allowedIPs, &progress.allowedIPs) }
        while progress.peer < update.peers.count, work > 0 {
            apply(update.peers[progress.peer], &progress, &work, at: now, wall: wall)
        }
        let hasMore = progress.peer < update.peers.count
        if hasMore, update.replacePeers { swap(&allowedIPs, &progress.allowedIPs) }
        return hasMore
    }

    /// The work of a small update without its handshakes: peers and changes of allowed IPs. The result is `nil` if it is
    /// more than `most`.
    private func work(of update: UAPIDeviceUpdate, atMost most: Int) -> Int? {
        var work = update.replacePeers ? peers.count : 0
        for peer in update.peers {
            guard work <= most else { return nil }
            work += 1 + peer.allowedIPs.count
            guard !update.replacePeers, peer.remove || peer.replaceAllowedIPs else { continue }
            work += slots[peer.publicKey].map { allowedIPs.count(of: $0) } ?? 0
        }
        return work <= most ? work : nil
    }

    /// Removes some of the peers, and first the allowed IPs of all: a packet to a removed peer must not be sent to
    /// another peer that has a shorter prefix.
    private mutating func removePeers(_ progress: inout UpdateProgress, _ work: inout Int) {
        if allowedIPs.count > 0 { allowedIPs = AllowedIPs() }
        // Removing the last peer empties the table.
        while work > 0, progress.slot < peers.count {
            work -= 1
            if let peer = peers[progress.slot] {
                progress.keepTimestamps(of: peer)
                removePeer(peer.publicKey)
            }
            progress.slot += 1
        }
    }

    /// Applies some of the changes of a peer.
    private mutating func apply(
        _ update: UAPIPeerUpdate, _ progress: inout UpdateProgress, _ work: inout Int, at now: Instant, wall: WallTime
    ) {
        let key = update.publicKey
        if progress.step == .settings {
            work -= 1
            guard update.remove ? hasPeer(key) : applySettings(update, progress) else {
                progress.nextPeer()
                return
            }
            progress.step = update.remove || update.replaceAllowedIPs ? .removal : .changes
            if !update.remove, let slot = slots[key] {
                let removed = update.replaceAllowedIPs ? allowedIPs.count(of: slot) : 0
                // The lock must not be released between a removal and an addition.
                if removed > 0 || update.removesAllowedIPs { work = max(work, removed + update.allowedIPs.count) }
            }
        }
        if progress.step == .removal, let slot = slots[key] {
            work -= allowedIPs.removeAll(of: slot, atMost: max(work, 0))
            guard allowedIPs.count(of: slot) == 0 else { return }
            guard !update.remove else {
                removePeer(key)
                progress.nextPeer()
                return
            }
            progress.step = .changes
        }
        while progress.change < update.allowedIPs.count {
            guard work > 0 else { return }
            work -= 1
            switch update.allowedIPs[progress.change] {
            case .add(let prefix): addAllowedIP(prefix, to: key)
            case .remove(let prefix): removeAllowedIP(prefix, from: key)
            }
            progress.change += 1
        }
        let initiations = statistics.initiationsSent
        // Set this last, because it may send immediately and needs the endpoint.
        if let seconds = update.persistentKeepalive {
            setPersistentKeepalive(seconds, of: key, at: now, wall: wall)
        }
        sendWaiting(to: key, at: now, wall: wall)
        if statistics.initiationsSent != initiations { work -= UpdateProgress.handshakeWork }
        progress.nextPeer()
    }

    /// Adds a peer, unless it exists, and applies its settings other than allowed IPs and keepalive.
    /// - Returns: `false` if the peer cannot be added, or must not be.
    private mutating func applySettings(_ update: UAPIPeerUpdate, _ progress: borrowing UpdateProgress) -> Bool {
        let key = update.publicKey
        if update.updateOnly, !hasPeer(key) { return false }
        // Accept our own key as a peer and ignore it, as other implementations do.
        guard addPeer(key) else { return false }
        if let peer = peer(key) { progress.restoreTimestamps(of: peer) }
        switch update.presharedKey {
        case .unchanged: break
        case .clear: setPresharedKey(nil, of: key)
        case .set(let secret): setPresharedKey(secret, of: key)
        }
        if let endpoint = update.endpoint { setEndpoint(endpoint, of: key) }
        return true
    }

    /// The state of the device, without port and mark.
    public var uapiState: UAPIDeviceState {
        var state = UAPIDeviceState()
        state.privateKey = privateKey
        state.peers.reserveCapacity(peerCount)
        forEachPeer { state.peers.append(UAPIPeerState($0)) }
        return state
    }
}

extension UAPIPeerUpdate {
    /// Whether the peer loses single allowed IPs.
    fileprivate var removesAllowedIPs: Bool {
        allowedIPs.contains {
            switch $0 {
            case .add: false
            case .remove: true
            }
        }
    }
}

extension UAPIPeerState {
    /// The reply to `get=1` for a peer.
    package init(_ peer: PeerSnapshot) {
        self.init(publicKey: peer.publicKey)
        presharedKey = peer.presharedKey
        endpoint = peer.endpoint
        lastHandshake = peer.lastHandshake.map {
            UAPITimestamp(seconds: UInt64(clamping: $0.seconds), nanoseconds: $0.nanoseconds)
        }
        transmittedBytes = peer.sentBytes
        receivedBytes = peer.receivedBytes
        persistentKeepalive = peer.persistentKeepalive
        allowedIPs = peer.allowedIPs
    }
}
