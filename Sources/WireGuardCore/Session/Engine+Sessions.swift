// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The creation, replacement and end of a peer's sessions.
extension Engine {
    /// Creates a session from a completed handshake (WireGuard paper, section 5.4.5). The session keeps the handshake's
    /// local index.
    mutating func beginSession(
        with peer: Peer, _ result: consuming HandshakeResult, localIndex: UInt32, isInitiator: Bool, at now: Instant
    ) {
        let keys = SessionKeys(
            sendKey: result.sendKey, receiveKey: result.receiveKey, localIndex: localIndex,
            remoteIndex: result.remoteIndex)
        result.wipe()
        let keypair = Keypair(keys: keys, isInitiator: isInitiator, createdAt: now, peer: peer.slot)
        if isInitiator {
            // The peer has proved that it has these keys, so they are used immediately.
            if let next = peer.next {
                retire(peer.previous)
                retire(peer.current)
                peer.previous = next
                peer.next = nil
            } else {
                retire(peer.previous)
                peer.previous = peer.current
            }
            peer.current = keypair
        } else {
            // The peer may not have our response yet, so nothing is sent under these keys until the peer uses them.
            retire(peer.next)
            peer.next = keypair
            retire(peer.previous)
            peer.previous = nil
        }
        sessionDerived(of: peer, at: now)
    }

    /// Makes the session that we answered the current one, because the peer has used it.
    mutating func promoteNext(of peer: Peer) {
        guard let next = peer.next else { return }
        retire(peer.previous)
        peer.previous = peer.current
        peer.current = next
        peer.next = nil
    }

    /// Handles a peer that uses the session which is the previous one here. After crossing initiations each side would
    /// continue to send in the session that it started, and each renewal would retire the other side's session.
    ///
    /// Both sessions are proven, so the side with the greater key switches to the session that its peer started.
    func settleCrossedSessions(of peer: Peer) {
        guard let current = peer.current, let previous = peer.previous, let identity,
            current.isInitiator, !previous.isInitiator,
            abs(current.createdAt.nanoseconds &- previous.createdAt.nanoseconds) < TimerConstants.rekeyTimeout,
            peer.publicKey.bytes.lexicographicallyPrecedes(identity.publicKey.bytes)
        else { return }
        peer.current = previous
        peer.previous = current
    }

    mutating func retire(_ keypair: Keypair?) {
        guard let keypair else { return }
        _ = indices.remove(keypair.keys.localIndex)
        keypair.peer = -1
    }

    /// Wipes the keys of all sessions of a peer.
    mutating func wipeSessions(of peer: Peer) {
        retire(peer.current)
        retire(peer.previous)
        retire(peer.next)
        peer.current = nil
        peer.previous = nil
        peer.next = nil
    }

    /// Discards the handshake that this side started. A later response to it is ignored.
    mutating func endHandshake(of peer: Peer) {
        guard let handshake = peer.handshake else { return }
        _ = indices.remove(handshake.localIndex)
        peer.handshake = nil
    }

    /// Ends all activity with a peer. Its configuration and its timestamps stay.
    mutating func reset(_ peer: Peer) {
        wipeSessions(of: peer)
        endHandshake(of: peer)
        dropStaged(of: peer)
        peer.cookies.forget()
        peer.retransmitAt = Peer.never
        peer.sendKeepaliveAt = Peer.never
        peer.newHandshakeAt = Peer.never
        peer.wipeAt = Peer.never
        peer.persistentKeepaliveAt = Peer.never
        peer.handshakeAttempts = 0
        peer.sentLastMinuteHandshake = false
        peer.lastHandshakeSent = nil
        timers.remove(peer.slot)
    }

    // MARK: Waiting packets

    /// Stores a packet until there is a session. If the peer's limit is reached, its oldest packet is dropped.
    mutating func stage(_ packet: [UInt8], for peer: Peer) {
        // A keepalive is needed only if nothing else would be sent.
        if packet.isEmpty, !peer.staged.isEmpty { return }
        let oldest = peer.staged.count >= limits.stagedPacketsPerPeer ? peer.staged.first : nil
        let (freedBytes, freedPackets) = oldest.map { ($0.count, $0.isEmpty ? 0 : 1) } ?? (0, 0)
        guard stagedBytes - freedBytes + packet.count <= limits.stagedBytes,
            packet.isEmpty || stagedPackets - freedPackets < limits.stagedPackets
        else {
            statistics.stagedOverBudget += 1
            // Packets of other peers use the whole limit. Queue a keepalive, which does not count, in place of the
            // packet, so that later packets have a session.
            if peer.staged.isEmpty { peer.staged.append([]) }
            return
        }
        if let oldest {
            peer.staged.removeFirst()
            unstage(oldest)
            if !oldest.isEmpty { statistics.stagedOverPeerLimit += 1 }
        }
        if !packet.isEmpty { stagedPackets += 1 }
        stagedBytes += packet.count
        peer.staged.append(packet)
    }

    /// Releases the part of the limits that a waiting packet used.
    mutating func unstage(_ packet: [UInt8]) {
        guard !packet.isEmpty else { return }
        stagedBytes -= packet.count
        stagedPackets -= 1
    }

    mutating func dropStaged(of peer: Peer) {
        for packet in peer.staged {
            unstage(packet)
            if !packet.isEmpty { statistics.stagedAbandoned += 1 }
        }
        peer.staged = []
    }

    /// Drops the waiting packets whose destination is no longer the peer's, after a change of the allowed IPs.
    mutating func dropRerouted(of peer: Peer) {
        let before = peer.staged.count
        var position = 0
        while position < peer.staged.count {
            let packet = peer.staged[position]
            let owner = unsafe packet.withUnsafeBytes { unsafe allowedIPs.lookupDestination(of: $0) }
            guard !packet.isEmpty, owner != peer.slot else {
                position += 1
                continue
            }
            peer.staged.remove(at: position)
            unstage(packet)
            statistics.stagedAbandoned += 1
        }
        // The peer may wait for a message that proves the keys of the session.
        if peer.staged.isEmpty, before > 0 { stage([], for: peer) }
    }

    /// Sends staged packets in the current session, or starts a handshake if there is none.
    mutating func flushStaged(of peer: Peer, at now: Instant, wall: WallTime) {
        // Without an endpoint the packets wait until there is one. A new packet or a timer then calls this again.
        guard !peer.staged.isEmpty, peer.endpoint != nil else { return }
        if let current = peer.current, current.canSend(at: now) {
            guard !peer.isQueuedForDrain else { return }
            peer.isQueuedForDrain = true
            drainQueue.append(peer.slot)
        } else {
            initiate(to: peer, isRetry: false, at: now, wall: wall)
        }
    }
}
