// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import WireGuardCore

/// Finds out which peers have owed an answer for too long.
///
/// A peer that gets data answers within 15 s, with a keepalive if with nothing else; otherwise WireGuard asks it for a
/// handshake, every 5 s. Who answers none of that is silent, whatever others send. Where nothing is sent, nothing is owed:
/// a peer that nobody talks to is not judged.
struct PeerWatch: Sendable {
    private struct Entry {
        var sent: UInt64
        var received: UInt64
        var lookedAt: Duration
        var heardAt: Duration?
        /// Since when something was sent that is not answered.
        var owedSince: Duration?
    }

    private var entries: [PublicKey: Entry] = [:]

    /// The bytes of a keepalive's datagram. Keepalives are not answered, so they are not counted.
    private static let keepaliveBytes: UInt64 = 32

    /// Notes what was sent to and received from each peer.
    /// - Parameter interval: the seconds between a peer's persistent keepalives; zero for none.
    mutating func look(at peers: [DataPlanePeer], now: Duration, keepaliveInterval interval: (PublicKey) -> UInt16) {
        var next: [PublicKey: Entry] = [:]
        for peer in peers {
            var entry =
                entries[peer.publicKey]
                ?? Entry(sent: peer.sentBytes, received: peer.receivedBytes, lookedAt: now)
            if peer.receivedBytes != entry.received {
                entry.heardAt = now
                entry.owedSince = nil
            } else if peer.sentBytes > entry.sent, entry.owedSince == nil {
                let (time, seconds) = (now - entry.lookedAt, interval(peer.publicKey))
                // One that answers data of theirs, and those that come by the clock.
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

    /// Forgets what is owed: after a pause it counts anew.
    mutating func forget() { entries = [:] }

    /// Whether the peer has owed an answer for `patience`.
    func isSilent(_ key: PublicKey, now: Duration, patience: Duration) -> Bool {
        guard let since = entries[key]?.owedSince else { return false }
        return now - since >= patience
    }

    /// Whether something came from the peer within the last `time`.
    func wasHeard(_ key: PublicKey, within time: Duration, now: Duration) -> Bool {
        guard let heardAt = entries[key]?.heardAt else { return false }
        return now - heardAt < time
    }
}
