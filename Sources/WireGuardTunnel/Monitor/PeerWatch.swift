// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// Finds the peers that have owed an answer for too long.
///
/// A peer that receives data answers within 15 s, at least with a keepalive; otherwise WireGuard requests a handshake from it
/// every 5 s. A peer that answers none of that is silent, even if other peers send. A peer that is sent nothing owes no
/// answer, and is not checked.
struct PeerWatch: Sendable {
    private struct Entry {
        var sent: UInt64
        var received: UInt64
        var lookedAt: Duration
        var heardAt: Duration?
        /// The time of the first packet that is not answered yet.
        var owedSince: Duration?
    }

    private var entries: [PublicKey: Entry] = [:]
    /// Whether the last update found a new peer, or bytes that were sent or received since the update before.
    private(set) var hasTraffic = true

    /// The size of a keepalive's datagram. Keepalives are not answered, so they are not counted.
    private static let keepaliveBytes: UInt64 = 32

    /// Updates each peer's record with its traffic counters.
    /// - Parameter interval: the seconds between a peer's persistent keepalives; 0 if they are off.
    mutating func update(with peers: [DataPlanePeer], now: Duration, keepaliveInterval interval: (PublicKey) -> UInt16)
    {
        var next: [PublicKey: Entry] = [:]
        hasTraffic = false
        for peer in peers {
            if let old = entries[peer.publicKey] {
                if peer.sentBytes != old.sent || peer.receivedBytes != old.received { hasTraffic = true }
            } else {
                hasTraffic = true
            }
            var entry =
                entries[peer.publicKey]
                ?? Entry(sent: peer.sentBytes, received: peer.receivedBytes, lookedAt: now)
            if peer.receivedBytes != entry.received {
                entry.heardAt = now
                entry.owedSince = nil
            } else if peer.sentBytes > entry.sent, entry.owedSince == nil {
                let (time, seconds) = (now - entry.lookedAt, interval(peer.publicKey))
                // One keepalive that answers the peer's data, and the periodic ones.
                let keepalives = 1 + (seconds == 0 ? 0 : UInt64(max(time / .seconds(Int(seconds)), 0)) + 1)
                if peer.sentBytes - entry.sent > keepalives * Self.keepaliveBytes { entry.owedSince = now }
            }
            (entry.sent, entry.received, entry.lookedAt) = (peer.sentBytes, peer.receivedBytes, now)
            next[peer.publicKey] = entry
        }
        entries = next
    }

    /// Whether any peer owes an answer.
    var isOwed: Bool { entries.values.contains { $0.owedSince != nil } }

    /// Clears all owed answers, so that counting restarts after a pause.
    mutating func forget() { entries = [:] }

    /// Whether the peer has owed an answer for `patience`.
    func isSilent(_ key: PublicKey, now: Duration, patience: Duration) -> Bool {
        guard let since = entries[key]?.owedSince else { return false }
        return now - since >= patience
    }

    /// Whether data arrived from the peer within the last `time`.
    func wasHeard(_ key: PublicKey, within time: Duration, now: Duration) -> Bool {
        guard let heardAt = entries[key]?.heardAt else { return false }
        return now - heardAt < time
    }
}
