// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The timers of the WireGuard paper, section 6: what arms them, and what they do.
///
/// Each peer has one entry in the deadline queue, for the earliest of its timers. Disarming or postponing a timer leaves
/// the entry where it is: the deadline then comes early, does nothing and moves. So the hot path only ever writes a field.
extension Engine {
    /// Runs the timers whose time has come.
    ///
    /// A timer may begin a handshake, which takes long, so one call serves no more than 64 peers, and begins no more than four
    /// handshakes. Where more are due, ``nextDeadline`` stays in the past, and the owner calls again once it has let others at
    /// the engine and, after 64 peers, sent what there is.
    /// - Parameters:
    ///   - now: the present time of the owner's clock.
    ///   - wall: the wall clock, for the timestamps of handshakes.
    /// - Returns: how many peers it has served; zero when none was due.
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

    /// Gives back the memory of sources that were counted while the engine was under load; looks at all of them once a second at
    /// most, and at some of them in one go.
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
            // A handshake that is under way is young, and ends by itself; one that nobody waits for goes too.
            if peer.retransmitAt == Peer.never { endHandshake(of: peer) }
        }
        if peer.persistentKeepaliveAt <= time {
            // What is sent puts it off; where nothing can be sent for now, it is tried again all the same.
            peer.persistentKeepaliveAt = Peer.never
            if peer.persistentKeepalive != 0 {
                peer.persistentKeepaliveAt = time + Int64(peer.persistentKeepalive) * TimerConstants.second
                sendKeepalive(to: peer, at: now, wall: wall)
            }
        }
    }

    /// Puts the peer's entry in the queue where its earliest timer wants it, unless it is early already.
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
        // Given up: nothing more is sent until there is something new to send.
        peer.sendKeepaliveAt = Peer.never
        dropStaged(of: peer)
        endHandshake(of: peer)
        if peer.wipeAt == Peer.never { peer.wipeAt = now.nanoseconds + TimerConstants.wipeAfterTime }
    }

    /// Sends a keepalive, or begins a handshake where there is no session to send it through.
    mutating func sendKeepalive(to peer: Peer, at now: Instant, wall: WallTime) {
        if peer.staged.isEmpty { stage([], for: peer) }
        flushStaged(of: peer, at: now, wall: wall)
    }

    // MARK: Events that arm and disarm

    /// Data was sent: a peer that stays silent is to be asked for a new session.
    @inline(__always)
    mutating func dataSent(to peer: Peer, at now: Instant) {
        if peer.newHandshakeAt == Peer.never {
            peer.newHandshakeAt =
                now.nanoseconds + TimerConstants.keepaliveTimeout + TimerConstants.rekeyTimeout + jitter()
        }
    }

    /// Data was received: if we have nothing to send, the peer is to hear from us all the same.
    ///
    /// One keepalive answers everything that came before it, so data that comes while the timer runs asks for no
    /// second one.
    @inline(__always)
    func dataReceived(from peer: Peer, at now: Instant) {
        if peer.sendKeepaliveAt == Peer.never {
            peer.sendKeepaliveAt = now.nanoseconds + TimerConstants.keepaliveTimeout
        }
    }

    /// An authenticated packet of any kind was sent.
    @inline(__always)
    func authenticatedPacketSent(to peer: Peer) {
        peer.sendKeepaliveAt = Peer.never
    }

    /// An authenticated packet of any kind was received.
    @inline(__always)
    func authenticatedPacketReceived(from peer: Peer) {
        peer.newHandshakeAt = Peer.never
    }

    /// An authenticated packet of any kind went either way: the path needs no persistent keepalive yet.
    @inline(__always)
    func authenticatedPacketTraversed(_ peer: Peer, at now: Instant) {
        guard peer.persistentKeepalive != 0 else { return }
        peer.persistentKeepaliveAt = now.nanoseconds + Int64(peer.persistentKeepalive) * TimerConstants.second
    }

    /// Both sides are known to have the keys of a new session.
    func handshakeCompleted(with peer: Peer, wall: WallTime) {
        peer.retransmitAt = Peer.never
        peer.handshakeAttempts = 0
        peer.sentLastMinuteHandshake = false
        peer.lastHandshake = wall
    }

    /// The keys of a session were derived.
    func sessionDerived(of peer: Peer, at now: Instant) {
        peer.wipeAt = now.nanoseconds + TimerConstants.wipeAfterTime
    }

    // MARK: Renewal

    /// After sending: the initiator renews a session that is 120 s old or has sent 2^60 packets.
    @inline(__always)
    mutating func keepFreshSending(_ keypair: Keypair, of peer: Peer, at now: Instant, wall: WallTime) {
        let isOld =
            keypair.isInitiator
            && now.nanoseconds &- keypair.createdAt.nanoseconds >= TimerConstants.rekeyAfterTime
        if isOld || keypair.sendCounter > TimerConstants.rekeyAfterMessages {
            initiate(to: peer, isRetry: false, at: now, wall: wall)
        }
    }

    /// After receiving: the initiator renews, once, a session that is about to be rejected.
    @inline(__always)
    mutating func keepFreshReceiving(_ peer: Peer, at now: Instant, wall: WallTime) {
        guard !peer.sentLastMinuteHandshake, let current = peer.current, current.isInitiator,
            now.nanoseconds &- current.createdAt.nanoseconds >= TimerConstants.rekeyAfterTimeReceiving
        else { return }
        peer.sentLastMinuteHandshake = true
        initiate(to: peer, isRetry: false, at: now, wall: wall)
    }
}
