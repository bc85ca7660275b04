// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The timers of the WireGuard paper, section 6: their conditions and actions.
///
/// Each peer has one entry in the deadline queue, for the earliest of its timers. Disarming or postponing a timer does
/// not change the entry. When that entry is due too early, it has no effect and is moved. So the fast path only writes
/// a field.
extension Engine {
    /// Runs the due timers.
    ///
    /// A timer may start a handshake, which is slow. So one call handles at most 64 peers and starts at most four
    /// handshakes. If more are due, ``nextDeadline`` stays in the past. The owner then calls again, after it has
    /// released the engine to other threads and, after 64 peers, sent the messages.
    /// - Parameters:
    ///   - now: The present time of the owner's clock.
    ///   - wall: The wall clock, for the timestamps of handshakes.
    /// - Returns: The number of handled peers; 0 if none was due.
    @discardableResult
    public mutating func deadlineReached(at now: Instant, wall: WallTime) -> Int {
        let now = advance(to: now)
        forgetStaleSources(at: now)
        let mostInitiations = statistics.initiationsSent &+ TimerConstants.maximumHandshakesPerDeadline
        var served = 0
        while served < TimerConstants.maximumPeersPerDeadline, statistics.initiationsSent < mostInitiations,
            let slot = timers.popExpired(now.nanoseconds)
        {
            served += 1
            guard let peer = peer(at: slot) else { continue }
            runTimers(of: peer, at: now, wall: wall)
            schedule(peer)
        }
        return served
    }

    /// Removes sources that were counted while the engine was under load. It checks some of them in each call, and all
    /// of them at most once a second.
    private mutating func forgetStaleSources(at now: Instant) {
        guard rateLimiter.count > 0, now >= staleSourcesDue else { return }
        let isDone = rateLimiter.removeStale(at: now, lookingAt: TimerConstants.maximumSourcesPerDeadline)
        if isDone { staleSourcesDue = now + .seconds(1) }
    }

    private mutating func runTimers(of peer: Peer, at now: Instant, wall: WallTime) {
        let time = now.nanoseconds
        if peer.retransmitAt <= time {
            peer.retransmitAt = Peer.never
            retransmitHandshake(of: peer, at: now, wall: wall)
        }
        if peer.sendKeepaliveAt <= time {
            peer.sendKeepaliveAt = Peer.never
            sendKeepalive(to: peer, at: now, wall: wall)
        }
        if peer.newHandshakeAt <= time {
            peer.newHandshakeAt = Peer.never
            peer.endpoint?.source = .unspecified
            initiate(to: peer, isRetry: false, at: now, wall: wall)
        }
        if peer.wipeAt <= time {
            peer.wipeAt = Peer.never
            wipeSessions(of: peer)
            // A handshake in progress is recent and ends by itself. One without waiting packets is removed too.
            if peer.retransmitAt == Peer.never { endHandshake(of: peer) }
        }
        if peer.persistentKeepaliveAt <= time {
            // Sending postpones this timer. If nothing can be sent now, it tries again later.
            peer.persistentKeepaliveAt = Peer.never
            if peer.persistentKeepalive != 0 {
                peer.persistentKeepaliveAt = time + Int64(peer.persistentKeepalive) * TimerConstants.second
                sendKeepalive(to: peer, at: now, wall: wall)
            }
        }
    }

    /// Moves the peer's entry in the queue to its earliest timer, unless the entry is already early enough.
    @inline(__always)
    mutating func schedule(_ peer: Peer) {
        let earliest = peer.earliestDeadline
        guard earliest != Peer.never else { return }
        if let present = timers.deadline(of: peer.slot), present <= earliest { return }
        timers.set(peer.slot, earliest)
    }

    private mutating func retransmitHandshake(of peer: Peer, at now: Instant, wall: WallTime) {
        guard peer.handshakeAttempts > TimerConstants.maximumHandshakeAttempts else {
            peer.handshakeAttempts += 1
            peer.endpoint?.source = .unspecified
            initiate(to: peer, isRetry: true, at: now, wall: wall)
            return
        }
        // The handshake is abandoned. Nothing more is sent until there is a new packet.
        peer.sendKeepaliveAt = Peer.never
        dropStaged(of: peer)
        endHandshake(of: peer)
        if peer.wipeAt == Peer.never { peer.wipeAt = now.nanoseconds + TimerConstants.wipeAfterTime }
    }

    /// Sends a keepalive, or starts a handshake if there is no session.
    mutating func sendKeepalive(to peer: Peer, at now: Instant, wall: WallTime) {
        if peer.staged.isEmpty { stage([], for: peer) }
        flushStaged(of: peer, at: now, wall: wall)
    }

    // MARK: Events that arm and disarm

    /// Called when data was sent. If the peer does not answer, a new session must be requested.
    @inline(__always)
    mutating func dataSent(to peer: Peer, at now: Instant) {
        if peer.newHandshakeAt == Peer.never {
            peer.newHandshakeAt =
                now.nanoseconds + TimerConstants.keepaliveTimeout + TimerConstants.rekeyTimeout + jitter()
        }
    }

    /// Called when data was received. If there is no packet to send, a keepalive must be sent.
    ///
    /// One keepalive acknowledges all earlier data, so data that arrives while the timer runs needs no further
    /// keepalive.
    @inline(__always)
    func dataReceived(from peer: Peer, at now: Instant) {
        if peer.sendKeepaliveAt == Peer.never {
            peer.sendKeepaliveAt = now.nanoseconds + TimerConstants.keepaliveTimeout
        }
    }

    /// Called when an authenticated packet of any kind was sent.
    @inline(__always)
    func authenticatedPacketSent(to peer: Peer) {
        peer.sendKeepaliveAt = Peer.never
    }

    /// Called when an authenticated packet of any kind was received.
    @inline(__always)
    func authenticatedPacketReceived(from peer: Peer) {
        peer.newHandshakeAt = Peer.never
    }

    /// Called when an authenticated packet of any kind was sent or received. It postpones the persistent keepalive.
    @inline(__always)
    func authenticatedPacketTraversed(_ peer: Peer, at now: Instant) {
        guard peer.persistentKeepalive != 0 else { return }
        peer.persistentKeepaliveAt = now.nanoseconds + Int64(peer.persistentKeepalive) * TimerConstants.second
    }

    /// Called when both sides are known to have the keys of a new session.
    func handshakeCompleted(with peer: Peer, wall: WallTime) {
        peer.retransmitAt = Peer.never
        peer.handshakeAttempts = 0
        peer.sentLastMinuteHandshake = false
        peer.lastHandshake = wall
    }

    /// Called when the keys of a session were derived.
    func sessionDerived(of peer: Peer, at now: Instant) {
        peer.wipeAt = now.nanoseconds + TimerConstants.wipeAfterTime
    }

    // MARK: Renewal

    /// Called after sending. The initiator renews a session that is 120 s old or has sent 2^60 packets.
    @inline(__always)
    mutating func keepFreshSending(_ keypair: Keypair, of peer: Peer, at now: Instant, wall: () -> WallTime) {
        let isOld =
            keypair.isInitiator
            && now.nanoseconds &- keypair.createdAt.nanoseconds >= TimerConstants.rekeyAfterTime
        if isOld || keypair.sendCounter > TimerConstants.rekeyAfterMessages {
            initiate(to: peer, isRetry: false, at: now, wall: wall())
        }
    }

    /// Called after receiving. The initiator renews a session that will soon be rejected, but only once.
    @inline(__always)
    mutating func keepFreshReceiving(_ peer: Peer, at now: Instant, wall: () -> WallTime) {
        guard !peer.sentLastMinuteHandshake, let current = peer.current, current.isInitiator,
            now.nanoseconds &- current.createdAt.nanoseconds >= TimerConstants.rekeyAfterTimeReceiving
        else { return }
        peer.sentLastMinuteHandshake = true
        initiate(to: peer, isRetry: false, at: now, wall: wall())
    }
}
