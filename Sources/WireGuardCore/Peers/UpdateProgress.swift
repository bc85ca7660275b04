// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The position in an update that an engine applies in pieces.
///
/// An update of at most ``mostWhole`` peers and changes of allowed IPs is one piece, unless it sends many handshakes.
/// Packets wait while it is applied, for about a millisecond, and none is dropped.
package struct UpdateProgress: ~Copyable {
    /// The parts of a peer's changes, in their order.
    enum Step {
        case settings
        /// The removal of all allowed IPs.
        case removal
        case changes
    }

    /// The work of a handshake, in changes of allowed IPs. It is charged after a peer's changes if they made the engine
    /// send an initiation to the peer, because packets waited for an endpoint, for example.
    static let handshakeWork = 64
    /// The most peers, and changes of allowed IPs, of an update that is applied as a whole. Peers and allowed IPs that the
    /// update removes also count, but the allowed IPs of peers that it replaces do not.
    let mostWhole: Int

    /// The next position in the engine's table of peers, while all peers are removed.
    var slot = 0
    /// Whether the peers were removed that must be removed, and the key is set.
    var isPrepared = false
    /// Whether no piece was applied.
    var isAtStart: Bool { !isPrepared && slot == 0 }
    /// The position in the list of the update's peers.
    private(set) var peer = 0
    var step = Step.settings
    /// The position in the list of that peer's changes of allowed IPs.
    var change = 0
    /// The allowed IPs of an update that replaces the peers, until it is complete.
    var allowedIPs = AllowedIPs()
    /// The newest timestamps that removed peers proved, and that were sent to them.
    private var timestamps: [PublicKey: (received: TAI64N?, sent: TAI64N?)] = [:]

    /// The beginning of any update.
    package init(mostWhole: Int = 1_000) {
        self.mostWhole = mostWhole
    }

    // This empty deinit is necessary; see ``Engine``.
    deinit {}

    mutating func nextPeer() {
        (peer, step, change) = (peer + 1, .settings, 0)
    }

    /// Keeps the timestamps of a peer that may be added again, so that a replayed initiation is still detected.
    mutating func keepTimestamps(of peer: Peer) {
        guard peer.lastReceivedTimestamp != nil || peer.lastSentTimestamp != nil else { return }
        timestamps[peer.publicKey] = (peer.lastReceivedTimestamp, peer.lastSentTimestamp)
    }

    /// Gives a peer the timestamps that it had before it was removed, unless it has newer ones.
    func restoreTimestamps(of peer: Peer) {
        guard let known = timestamps[peer.publicKey] else { return }
        peer.lastReceivedTimestamp = peer.lastReceivedTimestamp ?? known.received
        peer.lastSentTimestamp = peer.lastSentTimestamp ?? known.sent
    }
}
