// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Executes whole UAPI requests, so that each takes effect as a unit.
extension Engine {
    /// Applies the key and the peers of an update. The owner applies port and mark.
    public mutating func apply(_ update: UAPIDeviceUpdate, at now: Instant, wall: WallTime) {
        switch update.privateKey {
        case .unchanged: break
        case .clear: setPrivateKey(nil)
        case .set(let key): setPrivateKey(key.isZero ? nil : key)
        }
        // A peer that is removed and added again keeps its timestamps, so that a replayed initiation is still detected.
        var known: [PublicKey: Timestamps] = [:]
        if update.replacePeers {
            for peer in update.peers { known[peer.publicKey] = self.peer(peer.publicKey).map(Timestamps.init) }
            removeAllPeers()
        }
        for peer in update.peers { apply(peer, known[peer.publicKey], at: now, wall: wall) }
    }

    /// The newest timestamps that a peer proved and that were sent to it.
    private struct Timestamps {
        var received: TAI64N?
        var sent: TAI64N?

        init(_ peer: Peer) {
            (received, sent) = (peer.lastReceivedTimestamp, peer.lastSentTimestamp)
        }
    }

    private mutating func apply(
        _ update: UAPIPeerUpdate, _ known: Timestamps?, at now: Instant, wall: WallTime
    ) {
        let key = update.publicKey
        guard !update.remove else {
            removePeer(key)
            return
        }
        if update.updateOnly, !hasPeer(key) { return }
        // Accept our own key as a peer and ignore it, as other implementations do.
        guard addPeer(key) else { return }
        if let known, let peer = peer(key) {
            (peer.lastReceivedTimestamp, peer.lastSentTimestamp) = (
                peer.lastReceivedTimestamp ?? known.received, peer.lastSentTimestamp ?? known.sent
            )
        }
        switch update.presharedKey {
        case .unchanged: break
        case .clear: setPresharedKey(nil, of: key)
        case .set(let secret): setPresharedKey(secret, of: key)
        }
        if let endpoint = update.endpoint { setEndpoint(endpoint, of: key) }
        if update.replaceAllowedIPs { removeAllAllowedIPs(of: key) }
        for change in update.allowedIPs {
            switch change {
            case .add(let prefix): addAllowedIP(prefix, to: key)
            case .remove(let prefix): removeAllowedIP(prefix, from: key)
            }
        }
        // Set this last, because it may send immediately and needs the endpoint.
        if let seconds = update.persistentKeepalive {
            setPersistentKeepalive(seconds, of: key, at: now, wall: wall)
        }
        sendWaiting(to: key, at: now, wall: wall)
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
