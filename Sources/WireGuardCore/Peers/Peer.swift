// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// The engine's state of one peer. Only the engine accesses it.
final class Peer {
    let publicKey: PublicKey
    /// The peer's index in the engine's table, which never changes.
    let slot: Int32
    var presharedKey: PresharedKey?
    var endpoint: Endpoint?
    /// The number of initiations that ``endpoint`` may still get, or `nil` for no limit. Set while the endpoint is one of an
    /// earlier process and no authentic message has arrived from the peer.
    var initiationsLeft: Int?
    /// Seconds between persistent keepalives; zero is off.
    var persistentKeepalive: UInt16 = 0

    // MARK: Handshake

    /// The engine's ``Engine/identityNumber`` at which the handshake and the sessions of this peer began. If it is not the
    /// present one, they belong to a former key of this device, and end in the peer's turn of the update or earlier.
    var identityNumber: UInt64
    /// The DH of both static keys, computed when it is first needed.
    var staticStatic: Bytes32?
    /// Whether the public key is a low-order point, with which no private key results in a secret.
    var isLowOrder = false
    var handshake: InitiatorHandshake?
    /// The start time of ``handshake``; undefined if there is none.
    var handshakeBegunAt = Instant(nanoseconds: 0)
    var cookies = CookieJar()
    /// The newest timestamp in an authentic initiation of this peer.
    var lastReceivedTimestamp: TAI64N?
    /// The newest timestamp that we sent to this peer.
    var lastSentTimestamp: TAI64N?
    var lastInitiationReceived: Instant?
    /// The time of the last sent initiation or response.
    var lastHandshakeSent: Instant?

    // MARK: Sessions

    var current: Keypair?
    var previous: Keypair?
    /// A session that this side answered. It becomes the current one when the peer uses it, and so proves that it has
    /// the keys.
    var next: Keypair?
    /// The packets that wait for a session. An empty packet is a keepalive.
    var staged: [[UInt8]] = [] { didSet { hasStaged = !staged.isEmpty } }
    /// Whether ``staged`` has a packet. Each batch reads this in place of the array, to which each access is checked at run time.
    private(set) var hasStaged = false
    var isQueuedForDrain = false

    // MARK: Timers, as the engine's nanoseconds; `never` when not armed

    static let never = Int64.max
    var retransmitAt = Peer.never
    var sendKeepaliveAt = Peer.never
    var newHandshakeAt = Peer.never
    var wipeAt = Peer.never
    var persistentKeepaliveAt = Peer.never
    var handshakeAttempts: UInt32 = 0
    var sentLastMinuteHandshake = false

    // MARK: Statistics

    var receivedBytes: UInt64 = 0
    var sentBytes: UInt64 = 0
    var lastHandshake: WallTime?

    init(publicKey: PublicKey, slot: Int32, identityNumber: UInt64) {
        self.publicKey = publicKey
        self.slot = slot
        self.identityNumber = identityNumber
    }

    deinit {
        staticStatic?.wipe()
        cookies.forget()
    }

    /// The earliest of the armed timers.
    var earliestDeadline: Int64 {
        min(min(retransmitAt, sendKeepaliveAt), min(min(newHandshakeAt, wipeAt), persistentKeepaliveAt))
    }

    func disablePersistentKeepalive() {
        persistentKeepalive = 0
        persistentKeepaliveAt = Peer.never
    }

    /// The session whose datagrams to us have the receiver index `index`.
    func keypair(withLocalIndex index: UInt32) -> Keypair? {
        if let current, current.keys.localIndex == index { return current }
        if let next, next.keys.localIndex == index { return next }
        if let previous, previous.keys.localIndex == index { return previous }
        return nil
    }
}
