// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// Sends and handles handshake messages.
extension Engine {
    // MARK: Sending

    /// Queues an initiation, unless a handshake message was sent within the last five seconds (WireGuard paper,
    /// section 6.1).
    mutating func initiate(to peer: Peer, isRetry: Bool, at now: Instant, wall: WallTime) {
        guard isUp, let identity, let endpoint = peer.endpoint else { return }
        adoptIdentity(peer)
        if !isRetry { peer.handshakeAttempts = 0 }
        if let last = peer.lastHandshakeSent, now.nanoseconds &- last.nanoseconds < TimerConstants.rekeyTimeout {
            // Too early. The timer tries again at the end of the interval, unless there is a session by then.
            if peer.retransmitAt == Peer.never {
                peer.retransmitAt = last.nanoseconds + TimerConstants.rekeyTimeout + jitter()
                schedule(peer)
            }
            return
        }
        guard outbox.count < limits.outboxMessages else {
            // The outbox is full, so do not compute a message that cannot be sent. The timer tries again.
            statistics.outboxDropped += 1
            if peer.retransmitAt == Peer.never {
                peer.retransmitAt = now.nanoseconds + TimerConstants.rekeyTimeout + jitter()
                schedule(peer)
            }
            return
        }
        guard countInitiation(to: peer), var staticStatic = staticStatic(with: peer, identity) else { return }
        defer { staticStatic.wipe() }

        endHandshake(of: peer)
        let index = indices.insert(peer.slot, using: &random)
        var ephemeral = Bytes32(random: &random)
        defer { ephemeral.wipe() }
        let timestamp = TAI64N.next(after: peer.lastSentTimestamp, at: wall)
        var message = [UInt8](repeating: 0, count: Message.initiationByteCount)
        let handshake = unsafe message.withUnsafeMutableBytes { raw -> InitiatorHandshake? in
            guard let base = raw.baseAddress else { return nil }
            guard
                let handshake = unsafe InitiatorHandshake(
                    identity: identity, responder: peer.publicKey, staticStatic: staticStatic, localIndex: index,
                    ephemeral: ephemeral, timestamp: timestamp, into: base)
            else { return nil }
            unsafe peer.cookies.writeMACs(
                into: raw, mac1Key: NoiseConstants.mac1Key(for: Bytes32(peer.publicKey)), at: now)
            return handshake
        }
        guard let handshake else {
            _ = indices.remove(index)
            return
        }
        peer.handshake = handshake
        peer.handshakeBegunAt = now
        peer.lastSentTimestamp = timestamp
        peer.lastHandshakeSent = now
        peer.retransmitAt = now.nanoseconds + TimerConstants.rekeyTimeout + jitter()
        authenticatedPacketSent(to: peer)
        authenticatedPacketTraversed(peer, at: now)
        statistics.initiationsSent += 1
        peer.sentBytes += UInt64(message.count)
        outbox.append(message, to: endpoint)
        schedule(peer)
    }

    /// Counts an initiation against the limit of the peer's endpoint.
    /// - Returns: false if the endpoint had as many already; then it is forgotten.
    private mutating func countInitiation(to peer: Peer) -> Bool {
        guard let left = peer.initiationsLeft else { return true }
        guard left == 0 else {
            peer.initiationsLeft = left - 1
            return true
        }
        setEndpoint(nil, of: peer.publicKey)
        peer.retransmitAt = Peer.never
        endHandshake(of: peer)
        dropStaged(of: peer)
        return false
    }

    /// Returns the DH of both static keys, as a copy that the caller must wipe; `nil` if the peer's key is a low-order
    /// point.
    private func staticStatic(with peer: Peer, _ identity: Identity) -> Bytes32? {
        // Before the peer has proved itself, its sessions with a former key continue, and so does their DH.
        let isPresent = peer.identityNumber == identityNumber
        if isPresent, let known = peer.staticStatic { return known }
        guard !peer.isLowOrder else { return nil }
        guard let computed = identity.sharedSecret(with: Bytes32(peer.publicKey)) else {
            // Remember this, so that it is not computed again for every packet.
            peer.isLowOrder = true
            return nil
        }
        if isPresent { peer.staticStatic = computed }
        return computed
    }

    // MARK: Receiving

    /// Handles an initiation, a response or a cookie reply of valid length.
    /// - Returns: Its cost, in units of a cookie reply: an initiation or response costs at least eight.
    mutating func receiveHandshake(
        _ kind: MessageKind, _ message: UnsafeRawBufferPointer, from source: Endpoint, at now: Instant, wall: WallTime
    ) -> Int {
        guard let identity, let base = message.baseAddress else { return 0 }
        if kind == .cookieReply {
            unsafe receiveCookieReply(base, at: now)
            return 1
        }
        guard unsafe CookieChecker.isMac1Valid(message, identity: identity) else {
            statistics.invalidMac1 += 1
            return 0
        }
        if load.isUnderLoad(at: now) {
            guard unsafe cookieChecker.isMac2Valid(message, from: source, at: now) else {
                // Keep room for verified handshakes, even during a flood.
                guard outbox.count < limits.outboxMessages, outbox.cookieReplies < max(1, limits.outboxMessages / 2)
                else {
                    statistics.outboxDropped += 1
                    return 0
                }
                var reply = [UInt8](repeating: 0, count: Message.cookieReplyByteCount)
                unsafe reply.withUnsafeMutableBytes { raw in
                    guard let out = raw.baseAddress else { return }
                    unsafe cookieChecker.reply(
                        to: message, from: source, identity: identity, at: now, random: &random, into: out)
                }
                statistics.cookieRepliesSent += 1
                outbox.append(reply, to: source, isCookieReply: true)
                return 1
            }
            guard rateLimiter.allow(source.address, at: now) else {
                statistics.rateLimited += 1
                return 1
            }
        }
        let bringsSession: Bool
        switch kind {
        case .initiation:
            // Check this before any computation and before the peer's state changes, because the same initiation may be
            // sent again.
            guard outbox.count < limits.outboxMessages else {
                statistics.outboxDropped += 1
                return 0
            }
            bringsSession = unsafe receiveInitiation(base, identity, from: source, at: now, wall: wall)
        case .response:
            bringsSession = unsafe receiveResponse(base, identity, from: source, at: now, wall: wall)
        case .cookieReply, .data: return 0
        }
        // Messages that create a session do not count as load, in any number. Other messages do.
        if !bringsSession { load.messageArrived(at: now) }
        return TimerConstants.handshakeWork
    }

    /// - Returns: Whether the initiation came from a peer and was answered.
    private mutating func receiveInitiation(
        _ base: UnsafeRawPointer, _ identity: Identity, from source: Endpoint, at now: Instant, wall: WallTime
    ) -> Bool {
        guard var initiation = unsafe ReceivedInitiation(opening: base, identity: identity) else {
            statistics.rejectedHandshakes += 1
            return false
        }
        defer { initiation.wipe() }
        guard let peer = peer(initiation.initiator), var staticStatic = staticStatic(with: peer, identity) else {
            statistics.rejectedHandshakes += 1
            return false
        }
        defer { staticStatic.wipe() }
        guard let timestamp = unsafe initiation.openTimestamp(staticStatic: staticStatic, from: base) else {
            statistics.rejectedHandshakes += 1
            return false
        }
        // A replayed initiation has a timestamp that was seen before.
        if let last = peer.lastReceivedTimestamp, timestamp <= last {
            statistics.rejectedHandshakes += 1
            return false
        }
        if let last = peer.lastInitiationReceived,
            now.nanoseconds &- last.nanoseconds < TimerConstants.minimumInitiationGap
        {
            statistics.initiationFloods += 1
            return false
        }
        adoptIdentity(peer)
        peer.lastReceivedTimestamp = timestamp
        peer.lastInitiationReceived = now
        // A handshake of our own would cross the peer's handshake.
        peer.lastHandshakeSent = now

        let index = indices.insert(peer.slot, using: &random)
        var ephemeral = Bytes32(random: &random)
        defer { ephemeral.wipe() }
        var message = [UInt8](repeating: 0, count: Message.responseByteCount)
        let result = unsafe message.withUnsafeMutableBytes { raw -> HandshakeResult? in
            guard let out = raw.baseAddress else { return nil }
            let result = unsafe initiation.respond(
                localIndex: index, ephemeral: ephemeral, presharedKey: peer.presharedKey, into: out)
            unsafe peer.cookies.writeMACs(
                into: raw, mac1Key: NoiseConstants.mac1Key(for: Bytes32(peer.publicKey)), at: now)
            return result
        }
        guard let result else {
            _ = indices.remove(index)
            statistics.rejectedHandshakes += 1
            return false
        }
        beginSession(with: peer, result, localIndex: index, isInitiator: false, at: now)
        roam(peer, to: source)
        peer.receivedBytes += UInt64(Message.initiationByteCount)
        peer.sentBytes += UInt64(message.count)
        authenticatedPacketReceived(from: peer)
        authenticatedPacketSent(to: peer)
        authenticatedPacketTraversed(peer, at: now)
        statistics.responsesSent += 1
        outbox.append(message, to: source)
        schedule(peer)
        return true
    }

    /// - Returns: Whether the response completed a handshake.
    private mutating func receiveResponse(
        _ base: UnsafeRawPointer, _ identity: Identity, from source: Endpoint, at now: Instant, wall: WallTime
    ) -> Bool {
        let index = unsafe base.loadLittleEndian32(at: Message.Response.receiver)
        guard let slot = indices[index], let peer = peer(at: slot), let handshake = peer.handshake,
            handshake.localIndex == index,
            now.nanoseconds &- peer.handshakeBegunAt.nanoseconds < TimerConstants.rekeyAttemptTime,
            let result = unsafe handshake.finish(
                response: base, identity: identity, presharedKey: peer.presharedKey)
        else {
            statistics.rejectedHandshakes += 1
            return false
        }
        // The session keeps the index.
        peer.handshake = nil
        beginSession(with: peer, result, localIndex: index, isInitiator: true, at: now)
        roam(peer, to: source)
        peer.receivedBytes += UInt64(Message.responseByteCount)
        authenticatedPacketReceived(from: peer)
        authenticatedPacketTraversed(peer, at: now)
        handshakeCompleted(with: peer, wall: wall)
        statistics.handshakesCompleted += 1
        // The responder must not send until it receives a message under the new keys.
        sendKeepalive(to: peer, at: now, wall: wall)
        schedule(peer)
        return true
    }

    private mutating func receiveCookieReply(_ base: UnsafeRawPointer, at now: Instant) {
        let index = unsafe base.loadLittleEndian32(at: Message.CookieReply.receiver)
        guard let slot = indices[index], let peer = peer(at: slot),
            unsafe peer.cookies.accept(
                reply: base, cookieKey: NoiseConstants.cookieKey(for: Bytes32(peer.publicKey)), at: now)
        else {
            statistics.rejectedHandshakes += 1
            return
        }
        // A cookie reply is sealed under a public value, so it neither changes the peer's endpoint nor proves that the
        // peer is alive.
        statistics.cookieRepliesAccepted += 1
    }

    /// Makes `source` the peer's endpoint, because an authenticated packet came from it (WireGuard paper, section 2.1).
    @inline(__always)
    mutating func roam(_ peer: Peer, to source: Endpoint) {
        if peer.endpoint != source { statistics.endpointChanges += 1 }
        peer.endpoint = source
        peer.initiationsLeft = nil
    }
}
