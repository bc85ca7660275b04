// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The protocol's times in nanoseconds and its counts (WireGuard paper, section 6.1).
package enum TimerConstants {
    package static let second: Int64 = 1_000_000_000
    /// A session is renewed by its initiator when it sends after this time.
    package static let rekeyAfterTime: Int64 = 120 * second
    /// A session is not used after this time.
    package static let rejectAfterTime: Int64 = 180 * second
    /// An initiation that stays without response is repeated after this time, plus jitter.
    package static let rekeyTimeout: Int64 = 5 * second
    /// A peer that received data and has nothing to send answers with a keepalive after this time.
    package static let keepaliveTimeout: Int64 = 10 * second
    /// The initiator renews a session of this age when it receives, so that it does not run out while it only listens.
    package static let rekeyAfterTimeReceiving = rejectAfterTime - keepaliveTimeout - rekeyTimeout
    /// All keys of a peer are wiped after this time without a new session.
    package static let wipeAfterTime = 3 * rejectAfterTime
    /// The most that jitter adds.
    package static let maximumJitter: Int64 = 333_000_000
    /// A response is refused when the initiation that it answers is older than this.
    package static let rekeyAttemptTime: Int64 = 90 * second
    /// How often an initiation is repeated before it is given up: 90 s in all.
    package static let maximumHandshakeAttempts: UInt32 = 18
    /// The most peers whose timers run in one go. Not of the protocol: it bounds how long the engine is busy at once.
    package static let maximumPeersPerDeadline = 64
    /// The most handshakes that are begun in one go, each of which takes as long as thousands of packets.
    package static let maximumHandshakesPerDeadline: UInt64 = 4
    /// The work of handshakes that arrived which is done in one go, in units of a cookie reply: four handshakes, or 32 cookies.
    package static let handshakeWorkPerPiece = 4 * handshakeWork
    /// The work of a handshake message that is computed, in the same units.
    package static let handshakeWork = 8
    /// The most sources of handshakes that are looked at in one go, to forget those that have been quiet.
    package static let maximumSourcesPerDeadline = 1_024
    /// A session is renewed by its initiator after this many packets.
    package static let rekeyAfterMessages: UInt64 = 1 << 60
    /// Initiations of one peer that come closer together than this are dropped.
    package static let minimumInitiationGap: Int64 = 20_000_000
}
