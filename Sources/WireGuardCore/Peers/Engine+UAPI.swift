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
    /// A small update is complete after one call, unless it sends many handshakes (see ``UpdateProgress``), or a large table
    /// of allowed IPs grows. Between the calls for a larger one, an address has the peer that it had before or the one that
    /// it gets, except in the last of these cases:
    ///
    /// - Each peer has its old or its new settings. An exception is the peer in progress: some of its added allowed IPs
    ///   may still be missing, or, if the update removes the peer, some of its allowed IPs are already removed.
    /// - An update that replaces the peers routes packets as before until its table of allowed IPs is complete, which
    ///   then takes effect in one step.
    /// - One call replaces all allowed IPs of a peer, even if they are more than `work`. Otherwise, another peer with a
    ///   wider network would get packets of this peer between the removal and the addition.
    /// - An allowed IP moves from its owner to another peer in one step, unless the update has removed it from the owner
    ///   before. Then the next wider network has its packets until the other peer's turn.
    /// - Parameters:
    ///   - progress: The position. Each update needs a new one.
    ///   - work: The most peers, and changes of allowed IPs, of this call, with the exceptions above.
    /// - Returns: Whether a part of the update is left. The owner then calls ``UpdateProgress/buildTable(of:)``, and this
    ///   function again.
    package mutating func apply(
        _ update: UAPIDeviceUpdate, _ progress: inout UpdateProgress, work: Int, at now: Instant, wall: WallTime
    ) -> Bool {
        var work = work
        defer { progress.retired += takeRetired() }
        if !progress.isPrepared {
            // A replacement also visits the slots of the peers that it adds.
            if let all = self.work(of: update, atMost: progress.mostWhole) {
                work = max(work, all + update.peers.count)
            }
            prepare(for: update, &progress)
        }
        while progress.peer < update.peers.count, work > 0 {
            let peer = update.peers[progress.peer]
            if update.replacePeers {
                applyReplacement(peer, &progress, &work, at: now, wall: wall)
            } else {
                apply(peer, &progress, &work, at: now, wall: wall)
            }
        }
        guard progress.peer == update.peers.count else { return true }
        if update.replacePeers, finishReplacement(by: update, &progress.replacement, &work) { return true }
        return work > 0 ? allowedIPs.continueGrowth(changes: work) : allowedIPs.isGrowing
    }

    /// Returns the large memory that the tables no longer use.
    private mutating func takeRetired() -> [RetiredMemory] {
        defer { slots.retired = [] }
        return slots.retired + indices.takeRetired() + allowedIPs.takeRetired()
    }

    /// Sets the key, which is the first change.
    private mutating func prepare(for update: UAPIDeviceUpdate, _ progress: inout UpdateProgress) {
        progress.isPrepared = true
        progress.replacement.mostAllowedIPs = limits.allowedIPs
        if update.replacePeers { reserveCapacity(for: update, &progress.replacement) }
        let key: PrivateKey?
        switch update.privateKey {
        case .unchanged: return
        case .clear: key = nil
        case .set(let new): key = new.isZero ? nil : new
        }
        if update.replacePeers {
            // Each peer's session ends in the peer's turn, because there may be many peers.
            _ = setIdentity(key)
        } else {
            setPrivateKey(key)
        }
    }

    /// The work of a small update without its handshakes: peers and changes of allowed IPs. The result is `nil` if it is
    /// more than `most`.
    private func work(of update: UAPIDeviceUpdate, atMost most: Int) -> Int? {
        var work = update.replacePeers ? peers.count : 0
        for peer in update.peers {
            guard work <= most else { return nil }
            work += 1 + peer.allowedIPs.count
            guard !update.replacePeers, peer.remove || peer.replaceAllowedIPs else { continue }
            work += slot(of: peer.publicKey).map { allowedIPs.count(of: $0) } ?? 0
        }
        return work <= most ? work : nil
    }

    /// Applies some of the changes of a peer.
    private mutating func apply(
        _ update: UAPIPeerUpdate, _ progress: inout UpdateProgress, _ work: inout Int, at now: Instant, wall: WallTime
    ) {
        let key = update.publicKey
        if progress.step == .settings {
            work -= 1
            guard update.remove ? hasPeer(key) : applySettings(update) else {
                progress.nextPeer()
                return
            }
            progress.step = update.remove || update.replaceAllowedIPs ? .removal : .changes
            if !update.remove, let slot = slot(of: key) {
                let removed = update.replaceAllowedIPs ? allowedIPs.count(of: slot) : 0
                // The lock must not be released between a removal and an addition.
                if removed > 0 || update.removesAllowedIPs { work = max(work, removed + update.allowedIPs.count) }
            }
        }
        if progress.step == .removal, let slot = slot(of: key) {
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
    private mutating func applySettings(_ update: UAPIPeerUpdate) -> Bool {
        let key = update.publicKey
        if update.updateOnly, !hasPeer(key) { return false }
        // Accept our own key as a peer and ignore it, as other implementations do.
        guard addPeer(key) else { return false }
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
