// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Applies updates that replace the peers (`wg setconf`).
///
/// A peer that is in the former and in the new configuration keeps its session and its counters. It keeps its endpoint
/// unless the update names an endpoint; its other settings are those of the update, or the defaults. The session ends if
/// the update changes the device's key or the peer's pre-shared key, or removes the peer and adds it again: then the peer
/// must prove the new keys.
///
/// Until the new table of allowed IPs is complete, packets are routed by the former one. The new table then takes effect
/// in one step, so that no packet is routed by a part of it. A packet that waits for its peer's session is dropped if the
/// new table has another peer for it. The peers that the update does not name are removed last.
extension Engine {
    /// Reserves memory for a first configuration of many peers. Reserving an empty table is cheap, but one that grows holds
    /// the engine while its entries move.
    mutating func reserveCapacity(for update: UAPIDeviceUpdate, _ replacement: inout Replacement) {
        let count = update.peers.count
        replacement.reserveCapacity(count)
        guard peers.isEmpty else { return }
        peers.reserveCapacity(count)
    }

    /// Applies the settings of a peer of the update, other than its allowed IPs.
    mutating func applyReplacement(
        _ update: UAPIPeerUpdate, _ progress: inout UpdateProgress, _ work: inout Int, at now: Instant, wall: WallTime
    ) {
        work -= 1
        defer { progress.nextPeer() }
        guard let (peer, isFirst) = name(update, &progress.replacement) else { return }
        // A setting that the update omits has its default, or the value from an earlier part of the update.
        let keepalive = update.persistentKeepalive ?? (isFirst ? 0 : peer.persistentKeepalive)
        let presharedKey: PresharedKey? =
            switch update.presharedKey {
            case .unchanged: isFirst ? nil : peer.presharedKey
            case .clear: nil
            case .set(let key): key.isZero ? nil : key
            }
        if isFirst && peer.identityNumber != identityNumber || presharedKey != peer.presharedKey { restart(peer) }
        peer.presharedKey = presharedKey
        if let endpoint = update.endpoint { setEndpoint(endpoint, of: update.publicKey) }
        let initiations = statistics.initiationsSent
        // An equal value must not postpone the next keepalive.
        if keepalive != peer.persistentKeepalive {
            setPersistentKeepalive(keepalive, of: update.publicKey, at: now, wall: wall)
        }
        sendWaiting(to: update.publicKey, at: now, wall: wall)
        if statistics.initiationsSent != initiations { work -= UpdateProgress.handshakeWork }
    }

    /// Adds the peer, unless it exists, and marks it as one that stays; or marks it as one to remove.
    /// - Returns: The peer, and whether it was not marked as one that stays; `nil` if the update has no settings for it.
    private mutating func name(
        _ update: UAPIPeerUpdate, _ replacement: inout Replacement
    ) -> (peer: Peer, isFirst: Bool)? {
        let known = slot(of: update.publicKey)
        guard !update.remove else {
            replacement.append(known, changes: 0)
            if let known, let peer = peer(at: known) {
                replacement.setNamed(known, false)
                restart(peer)
                // If the update adds the peer again, it is a new one.
                setEndpoint(nil, of: update.publicKey)
                (peer.sentBytes, peer.receivedBytes) = (0, 0)
            }
            return nil
        }
        let isFirst = known.map { !replacement.isNamed($0) } ?? true
        // Accept our own key as a peer and ignore it, as other implementations do.
        if isFirst, update.updateOnly || update.publicKey == publicKey || replacement.namedCount >= limits.peers {
            replacement.append(nil, changes: 0)
            return nil
        }
        let slot = known ?? insertPeer(update.publicKey)
        replacement.setNamed(slot, true)
        replacement.append(slot, changes: update.allowedIPs.count)
        return peer(at: slot).map { ($0, isFirst) }
    }

    /// Ends a peer's session, so that only a handshake with the present keys can start the next one.
    private mutating func restart(_ peer: Peer) {
        adoptIdentity(peer)
        reset(peer)
        peer.lastHandshake = nil
        // The keepalive that the update sets is then due immediately.
        peer.disablePersistentKeepalive()
    }

    /// Uses the new table of allowed IPs, and removes some of the peers that the update does not name.
    /// - Returns: Whether a part of the update is left.
    mutating func finishReplacement(
        by update: UAPIDeviceUpdate, _ replacement: inout Replacement, _ work: inout Int
    ) -> Bool {
        if !replacement.isRouted {
            guard replacement.awaitsTable || work >= replacement.changeCount else {
                replacement.awaitsTable = true
                return true
            }
            replacement.buildTable(of: update)
            swap(&allowedIPs, &replacement.allowedIPs)
            (replacement.awaitsTable, replacement.isRouted) = (false, true)
            replacement.unchecked = peers.count
        }
        // From the last to the first, so that later peers get the free slots in ascending order.
        while replacement.unchecked > 0, work > 0 {
            work -= 1
            replacement.unchecked -= 1
            let slot = Int32(replacement.unchecked)
            guard let peer = peer(at: slot), !replacement.isNamed(slot) else { continue }
            removePeer(peer.publicKey)
        }
        return replacement.unchecked > 0
    }
}
