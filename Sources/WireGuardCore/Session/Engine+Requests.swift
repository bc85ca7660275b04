// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// Requests of the owner that are not caused by a packet from the interface.
extension Engine {
    /// Starts a handshake with a peer even if it has a session. The present session continues until the new one exists.
    ///
    /// If the previous handshake is less than 5 s ago, the new one is delayed accordingly. Without an endpoint nothing
    /// happens.
    public mutating func requestHandshake(with publicKey: PublicKey, at now: Instant, wall: WallTime) {
        guard isUp, let peer = peer(publicKey) else { return }
        let now = advance(to: now)
        initiate(to: peer, isRetry: false, at: now, wall: wall)
        schedule(peer)
    }

    /// Starts a handshake with a peer at the endpoint that it had in an earlier process, to replace the session that the peer
    /// still has.
    ///
    /// The endpoint gets at most `attempts` initiations, 5 s apart, even if packets for the peer arrive. If no authentic message
    /// has arrived from the peer 5 s after the last one, the engine forgets the endpoint.
    /// - Returns: false, without an effect, if the peer has an endpoint, there is no such peer, or the engine is down.
    package mutating func requestHandshake(
        with publicKey: PublicKey, atFormer endpoint: Endpoint, attempts: Int, at now: Instant, wall: WallTime
    ) -> Bool {
        guard isUp, let peer = peer(publicKey), peer.endpoint == nil else { return false }
        setEndpoint(endpoint, of: publicKey)
        peer.initiationsLeft = attempts
        requestHandshake(with: publicKey, at: now, wall: wall)
        return true
    }

    /// Queues an IP packet of the owner for the peer whose allowed IPs contain `destination`, as if the packet had come
    /// from the interface.
    /// - Returns: `false` if no peer has the destination, or the engine is down.
    public mutating func submit(_ packet: [UInt8], to destination: IPAddress, at now: Instant, wall: WallTime) -> Bool {
        guard isUp, let slot = allowedIPs.lookup(destination), let peer = peer(at: slot) else { return false }
        let now = advance(to: now)
        stage(packet, for: peer)
        flushStaged(of: peer, at: now, wall: wall)
        schedule(peer)
        return true
    }
}
