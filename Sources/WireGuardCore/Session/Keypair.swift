// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The keys of one session, which any thread may use: sealing and opening are pure functions of key, counter and bytes.
package final class SessionKeys: Sendable {
    /// Seals packets to the peer.
    package let sealing: TransportCipher
    /// Opens datagrams from the peer.
    package let opening: TransportCipher
    /// The receiver index of datagrams to us.
    package let localIndex: UInt32
    /// The receiver index of datagrams that go to the peer.
    package let remoteIndex: UInt32

    package init(sendKey: Bytes32, receiveKey: Bytes32, localIndex: UInt32, remoteIndex: UInt32) {
        sealing = TransportCipher(key: sendKey)
        opening = TransportCipher(key: receiveKey)
        self.localIndex = localIndex
        self.remoteIndex = remoteIndex
    }
}

/// One session of a peer: its keys, and the state that the engine alone touches.
final class Keypair {
    let keys: SessionKeys
    /// Whether this side sent the initiation; only that side renews the session by its age.
    let isInitiator: Bool
    let createdAt: Instant
    /// The peer that this session is with; -1 once the session is retired.
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

    /// Whether packets may still be sent and received under these keys (WireGuard paper, section 6.2).
    func isUsable(at now: Instant) -> Bool {
        now.nanoseconds &- createdAt.nanoseconds < TimerConstants.rejectAfterTime
    }

    /// Whether packets may still be sent: by age, and by counters left.
    func canSend(at now: Instant) -> Bool {
        isUsable(at: now) && sendCounter < ReplayWindow.rejectAfterMessages
    }

    /// Takes up to `wanted` counters in one step; fewer, or none, where the session's packets run out.
    func reserve(_ wanted: Int) -> (first: UInt64, count: Int) {
        let first = sendCounter
        guard first < ReplayWindow.rejectAfterMessages else { return (first, 0) }
        let left = ReplayWindow.rejectAfterMessages - first
        let count = UInt64(wanted) < left ? wanted : Int(left)
        sendCounter = first + UInt64(count)
        return (first, count)
    }

    /// Ends sending in the session; datagrams from the peer are accepted until it is replaced.
    func expireForSending() {
        sendCounter = ReplayWindow.rejectAfterMessages
    }
}
