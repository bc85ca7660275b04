// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// Requests of the owner, without a packet from the interface.
extension Engine {
    /// Starts a handshake with a peer, regardless of its session; the present session continues until there is a new one.
    ///
    /// A handshake within 5 s of the previous one is delayed until then. Without an endpoint nothing happens.
    public mutating func requestHandshake(with publicKey: PublicKey, at now: Instant, wall: WallTime) {
        guard isUp, let peer = peer(publicKey) else { return }
        let now = advance(to: now)
        initiate(to: peer, isRetry: false, at: now, wall: wall)
        schedule(peer)
    }

    /// Queues an IP packet of the owner's own for the peer whose allowed IPs have `destination`, as if it had come from the
    /// interface.
    /// - Returns: false if no peer has the destination, or the engine is down.
    public mutating func submit(_ packet: [UInt8], to destination: IPAddress, at now: Instant, wall: WallTime) -> Bool {
        guard isUp, let slot = allowedIPs.lookup(destination), let peer = peer(at: slot) else { return false }
        let now = advance(to: now)
        stage(packet, for: peer)
        flushStaged(of: peer, at: now, wall: wall)
        schedule(peer)
        return true
    }
}
