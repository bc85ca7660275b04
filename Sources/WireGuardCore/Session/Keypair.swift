// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The keys of one session. Any thread may use them, because sealing and opening are pure functions of key, counter and
/// bytes.
package final class SessionKeys: Sendable {
    /// Seals packets to the peer.
    package let sealing: TransportCipher
    /// Opens datagrams from the peer.
    package let opening: TransportCipher
    /// The receiver index of datagrams to this device.
    package let localIndex: UInt32
    /// The receiver index of datagrams to the peer.
    package let remoteIndex: UInt32

    package init(sendKey: Bytes32, receiveKey: Bytes32, localIndex: UInt32, remoteIndex: UInt32) {
        sealing = TransportCipher(key: sendKey)
        opening = TransportCipher(key: receiveKey)
        self.localIndex = localIndex
        self.remoteIndex = remoteIndex
    }
}

/// A session of a peer: its keys, and the state that only the engine accesses.
final class Keypair {
    let keys: SessionKeys
    /// Whether this side sent the initiation. Only that side renews a session because of its age.
    let isInitiator: Bool
    let createdAt: Instant
    /// The slot of the session's peer; -1 after the session is retired.
    var peer: Int32
    /// The counter of the next packet to be sent.
    var sendCounter: UInt64 = 0
    var replay = ReplayWindow()

    init(keys: SessionKeys, isInitiator: Bool, createdAt: Instant, peer: Int32) {
        self.keys = keys
        self.isInitiator = isInitiator
        self.createdAt = createdAt
        self.peer = peer
    }

    /// Whether the keys may still be used to send and receive (WireGuard paper, section 6.2).
    func isUsable(at now: Instant) -> Bool {
        now.nanoseconds &- createdAt.nanoseconds < TimerConstants.rejectAfterTime
    }

    /// Whether packets may still be sent, according to the age and the remaining counters.
    func canSend(at now: Instant) -> Bool {
        isUsable(at: now) && sendCounter < ReplayWindow.rejectAfterMessages
    }

    /// Reserves up to `wanted` consecutive counters; fewer, or none, if the session's counters are used up.
    func reserve(_ wanted: Int) -> (first: UInt64, count: Int) {
        let first = sendCounter
        guard first < ReplayWindow.rejectAfterMessages else { return (first, 0) }
        let left = ReplayWindow.rejectAfterMessages - first
        let count = UInt64(wanted) < left ? wanted : Int(left)
        sendCounter = first + UInt64(count)
        return (first, count)
    }

    /// Ends sending in the session. Datagrams from the peer are still accepted until the session is replaced.
    func expireForSending() {
        sendCounter = ReplayWindow.rejectAfterMessages
    }
}
