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
    /// The number of repetitions of an initiation before it is abandoned: 90 s in total.
    package static let maximumHandshakeAttempts: UInt32 = 18
    /// The largest number of peers whose timers run in one call. Not part of the protocol: it bounds the time that the engine
    /// is busy.
    package static let maximumPeersPerDeadline = 64
    /// The largest number of handshakes that start in one call; each takes as long as thousands of packets.
    package static let maximumHandshakesPerDeadline: UInt64 = 4
    /// The work of received handshakes in one call, in units of a cookie reply: four handshakes, or 32 cookies.
    package static let handshakeWorkPerPiece = 4 * handshakeWork
    /// The work of a handshake message that is computed, in the same units.
    package static let handshakeWork = 8
    /// The largest number of sources of handshakes that are checked in one call, to remove quiet ones.
    package static let maximumSourcesPerDeadline = 1_024
    /// A session is renewed by its initiator after this many packets.
    package static let rekeyAfterMessages: UInt64 = 1 << 60
    /// The least gap between initiations of one peer, in nanoseconds; earlier ones are dropped.
    package static let minimumInitiationGap: Int64 = 20_000_000
}
