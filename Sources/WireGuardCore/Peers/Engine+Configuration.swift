// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// Configuration of a running engine. A change ends only the sessions that it must end.
extension Engine {
    // MARK: Device

    /// This device's public key; `nil` while it has no private key.
    public var publicKey: PublicKey? { identity?.publicKey }

    /// This device's private key; `nil` while it has none.
    public var privateKey: PrivateKey? { identity?.privateKey }

    /// Sets or removes the static key, which is stored clamped (RFC 7748 section 5). Setting the same key again,
    /// clamped or not, changes nothing.
    ///
    /// A different key ends every handshake and makes every session unusable for sending, because peers identify this
    /// device by the key. A peer with the new public key is removed.
    public mutating func setPrivateKey(_ key: PrivateKey?) {
        guard setIdentity(key) else { return }
        if let own = identity?.publicKey { removePeer(own) }
        for peer in peers {
            guard let peer else { continue }
            endHandshakesOfFormerKey(of: peer)
            peer.current?.expireForSending()
            peer.next?.expireForSending()
        }
    }

    /// Sets or removes the static key. The caller ends the peers' sessions and handshakes if it differs.
    /// - Returns: Whether the key differs from the present one.
    mutating func setIdentity(_ key: PrivateKey?) -> Bool {
        let key = key?.clamped
        guard key != identity?.privateKey else { return false }
        identity = key.map { Identity($0) }
        identityNumber += 1
        cookieChecker.forget()
        return true
    }

    /// Ends a peer's handshake with a former key of this device. The next handshake can begin immediately.
    private mutating func endHandshakesOfFormerKey(of peer: Peer) {
        peer.identityNumber = identityNumber
        peer.staticStatic?.wipe()
        peer.staticStatic = nil
        endHandshake(of: peer)
        peer.lastHandshakeSent = nil
    }

    /// Ends a peer's sessions and handshake if they belong to a former key of this device. Packets continue to wait for the
    /// next session.
    ///
    /// An update that replaces many peers visits them in pieces. A handshake with a peer whose turn is not yet must
    /// already use the present key: with the DH of the former one it would fail, and the next attempt is 5 s later.
    mutating func adoptIdentity(_ peer: Peer) {
        guard peer.identityNumber != identityNumber else { return }
        endHandshakesOfFormerKey(of: peer)
        wipeSessions(of: peer)
        peer.lastHandshake = nil
    }

    /// Sets the device up or down.
    ///
    /// Setting it down ends all sessions and drops waiting packets. Setting it up makes persistent keepalives due:
    /// ``nextDeadline`` is then now, so that the timers start the handshakes in small groups.
    public mutating func setUp(_ up: Bool, at now: Instant, wall: WallTime) {
        guard up != isUp else { return }
        let now = advance(to: now)
        isUp = up
        if up {
            for peer in peers {
                guard let peer, peer.persistentKeepalive != 0 else { continue }
                peer.persistentKeepaliveAt = now.nanoseconds
                schedule(peer)
            }
        } else {
            for peer in peers {
                guard let peer else { continue }
                reset(peer)
                peer.isQueuedForDrain = false
            }
            outbox.removeAll()
            drainQueue = []
        }
    }

    /// Clears the local address at which each peer was last received. Call it when addresses, routes or sockets have
    /// changed.
    public mutating func forgetEndpointSources() {
        for peer in peers { peer?.endpoint?.source = .unspecified }
    }

    // MARK: Peers

    /// Whether there is such a peer.
    public func hasPeer(_ key: PublicKey) -> Bool { slot(of: key) != nil }

    /// Adds a peer, unless it exists.
    /// - Returns: `false` if `key` is this device's own, which cannot be a peer, or if the number of peers has reached
    ///   ``EngineLimits/peers``.
    @discardableResult
    public mutating func addPeer(_ key: PublicKey) -> Bool {
        guard key != identity?.publicKey else { return false }
        guard !hasPeer(key) else { return true }
        guard peerCount < limits.peers else { return false }
        _ = insertPeer(key)
        return true
    }

    /// Adds a peer, which must not exist.
    /// - Returns: Its slot.
    mutating func insertPeer(_ key: PublicKey) -> Int32 {
        let slot: Int32
        if let free = freeSlots.popLast() {
            slot = free
        } else {
            slot = Int32(peers.count)
            peers.append(nil)
        }
        slots.insert(slot, hash: key.tableHash)
        peers[Int(slot)] = Peer(publicKey: key, slot: slot, identityNumber: identityNumber)
        return slot
    }

    /// Removes a peer with its sessions and allowed IPs, if it exists.
    public mutating func removePeer(_ key: PublicKey) {
        guard let slot = slot(of: key), let peer = peer(at: slot) else { return }
        slots.remove(hash: key.tableHash) { $0 == slot }
        reset(peer)
        allowedIPs.removeAll(of: slot)
        peers[Int(slot)] = nil
        freeSlots.append(slot)
        if peerCount == 0 {
            // Start empty, so that setting a configuration again keeps its order.
            peers.removeAll()
            freeSlots.removeAll()
            drainQueue.removeAll()
        }
    }

    /// Removes all peers.
    public mutating func removeAllPeers() {
        allowedIPs = AllowedIPs()
        for peer in peers { if let peer { removePeer(peer.publicKey) } }
    }

    /// Sets the pre-shared key for later handshakes; the present session continues. `nil` or all zeros removes it.
    public mutating func setPresharedKey(_ key: PresharedKey?, of publicKey: PublicKey) {
        peer(publicKey)?.presharedKey = key.flatMap { $0.isZero ? nil : $0 }
    }

    /// Sets the peer's endpoint, until an authentic packet arrives from another one. Nothing is sent immediately; see
    /// ``setEndpoint(_:of:at:wall:)``.
    public mutating func setEndpoint(_ endpoint: Endpoint?, of publicKey: PublicKey) {
        guard let peer = peer(publicKey) else { return }
        peer.endpoint = endpoint
        peer.initiationsLeft = nil
    }

    /// Sets the peer's endpoint, and sends the packets that waited for it, such as a persistent keepalive.
    public mutating func setEndpoint(
        _ endpoint: Endpoint?, of publicKey: PublicKey, at now: Instant, wall: WallTime
    ) {
        setEndpoint(endpoint, of: publicKey)
        sendWaiting(to: publicKey, at: now, wall: wall)
    }

    /// Sends the packets that wait for a peer, after a change of its configuration that may have been necessary for
    /// sending.
    mutating func sendWaiting(to publicKey: PublicKey, at now: Instant, wall: WallTime) {
        guard isUp, let peer = peer(publicKey) else { return }
        let now = advance(to: now)
        flushStaged(of: peer, at: now, wall: wall)
        schedule(peer)
    }

    /// Sets the seconds between persistent keepalives; zero disables them. After enabling, one is due immediately:
    /// ``nextDeadline`` is now.
    public mutating func setPersistentKeepalive(
        _ seconds: UInt16, of publicKey: PublicKey, at now: Instant, wall: WallTime
    ) {
        guard let peer = peer(publicKey) else { return }
        let now = advance(to: now)
        let wasOff = peer.persistentKeepalive == 0
        peer.persistentKeepalive = seconds
        if seconds == 0 {
            peer.disablePersistentKeepalive()
        } else if isUp {
            peer.persistentKeepaliveAt =
                wasOff ? now.nanoseconds : now.nanoseconds + Int64(seconds) * TimerConstants.second
            schedule(peer)
        }
    }

    /// Assigns a network to a peer, and removes it from the peer that had it.
    /// - Returns: `false` if the peer does not exist, or if the number of networks has reached
    ///   ``EngineLimits/allowedIPs``.
    @discardableResult
    public mutating func addAllowedIP(_ prefix: IPPrefix, to publicKey: PublicKey) -> Bool {
        guard let slot = slot(of: publicKey) else { return false }
        return allowedIPs.insert(prefix, peer: slot, atMost: limits.allowedIPs)
    }

    /// Removes exactly this network from the peer, if the peer has it.
    public mutating func removeAllowedIP(_ prefix: IPPrefix, from publicKey: PublicKey) {
        guard let slot = slot(of: publicKey) else { return }
        _ = allowedIPs.remove(prefix, peer: slot)
    }

    /// Removes all networks from a peer.
    public mutating func removeAllAllowedIPs(of publicKey: PublicKey) {
        guard let slot = slot(of: publicKey) else { return }
        allowedIPs.removeAll(of: slot)
    }

    /// The peer to which packets to `address` are routed.
    public func peer(routing address: IPAddress) -> PublicKey? {
        guard let slot = allowedIPs.lookup(address) else { return nil }
        return peer(at: slot)?.publicKey
    }

    // MARK: Snapshots

    /// The state of a peer, or `nil` if there is no such peer.
    public func snapshot(of publicKey: PublicKey) -> PeerSnapshot? {
        peer(publicKey).map { snapshot($0) }
    }

    /// Calls `body` for each peer, in the order of addition unless peers were removed in between.
    public func forEachPeer(_ body: (PeerSnapshot) -> Void) {
        for peer in peers {
            guard let peer else { continue }
            body(snapshot(peer))
        }
    }

    /// Returns some of the peers, so that the engine's owner does not block other threads for the time that all of them
    /// need.
    /// - Parameters:
    ///   - place: The position to begin at: 0, and then the result of the previous call.
    ///   - work: The number of peers and allowed IPs to visit. At least one peer is visited.
    /// - Returns: The peers, and the position to continue at, or `nil` if none is left.
    package func snapshots(from place: Int, work: Int) -> (peers: [PeerSnapshot], next: Int?) {
        var (found, done, place): ([PeerSnapshot], Int, Int) = ([], 0, place)
        while place < peers.count {
            // Empty positions count as well.
            var cost = 1
            if let peer = peers[place] {
                cost += allowedIPs.count(of: peer.slot)
                guard found.isEmpty || done + cost <= work else { return (found, place) }
                found.append(snapshot(peer))
            } else if done >= work * 16 {
                return (found, place)
            }
            done += cost
            place += 1
        }
        return (found, nil)
    }

    private func snapshot(_ peer: Peer) -> PeerSnapshot {
        var prefixes: [IPPrefix] = []
        prefixes.reserveCapacity(allowedIPs.count(of: peer.slot))
        allowedIPs.forEach(of: peer.slot) { prefixes.append($0) }
        return PeerSnapshot(
            publicKey: peer.publicKey, presharedKey: peer.presharedKey, endpoint: peer.endpoint,
            persistentKeepalive: peer.persistentKeepalive, allowedIPs: prefixes, lastHandshake: peer.lastHandshake,
            sentBytes: peer.sentBytes, receivedBytes: peer.receivedBytes,
            hasSession: peer.current.map { $0.canSend(at: latest) } ?? false)
    }
}

/// A snapshot of a peer's state.
public struct PeerSnapshot: Sendable {
    /// The peer's public key.
    public var publicKey: PublicKey
    /// The pre-shared key, or `nil` if there is none.
    public var presharedKey: PresharedKey?
    /// The peer's configured endpoint, or the one from which it was last received.
    public var endpoint: Endpoint?
    /// Seconds between persistent keepalives; zero is off.
    public var persistentKeepalive: UInt16
    /// The networks that packets to and from the peer may use.
    public var allowedIPs: [IPPrefix]
    /// The last time when both sides were known to share a new session.
    public var lastHandshake: WallTime?
    /// Bytes of datagrams sent to the peer, handshakes included.
    public var sentBytes: UInt64
    /// Bytes of authentic datagrams received from the peer, handshakes included.
    public var receivedBytes: UInt64
    /// Whether there is a session that packets can be sent through, as of the engine's latest event.
    public var hasSession: Bool
}
