// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The times, in nanoseconds, and the counts of the protocol (WireGuard paper, section 6.1).
package enum TimerConstants {
    package static let second: Int64 = 1_000_000_000
    /// The initiator renews a session when it sends after this time.
    package static let rekeyAfterTime: Int64 = 120 * second
    /// A session is not used after this time.
    package static let rejectAfterTime: Int64 = 180 * second
    /// The time after which an initiation without a response is repeated, plus jitter.
    package static let rekeyTimeout: Int64 = 5 * second
    /// The time after which a side that received data and has sent nothing sends a keepalive.
    package static let keepaliveTimeout: Int64 = 10 * second
    /// The age at which the initiator renews a session when it receives, so that the session does not expire while it
    /// only receives.
    package static let rekeyAfterTimeReceiving = rejectAfterTime - keepaliveTimeout - rekeyTimeout
    /// The time without a new session after which all keys of a peer are wiped.
    package static let wipeAfterTime = 3 * rejectAfterTime
    /// The maximum jitter.
    package static let maximumJitter: Int64 = 333_000_000
    /// The maximum age of an initiation. A response to an older one is refused.
    package static let rekeyAttemptTime: Int64 = 90 * second
    /// The number of repetitions of an initiation before it is abandoned: 90 s in total.
    package static let maximumHandshakeAttempts: UInt32 = 18
    /// The maximum number of peers whose timers run in one call. It is not part of the protocol; it bounds the time for
    /// which the engine is busy.
    package static let maximumPeersPerDeadline = 64
    /// The maximum number of handshakes that start in one call. Each takes as long as thousands of packets.
    package static let maximumHandshakesPerDeadline: UInt64 = 4
    /// The maximum work of received handshakes in one call, in units of a cookie reply: four handshakes, or 32 cookie
    /// replies.
    package static let handshakeWorkPerPiece = 4 * handshakeWork
    /// The work of a handshake message with key computations, in the same units.
    package static let handshakeWork = 8
    /// The maximum number of sources of handshakes that are checked in one call in order to remove inactive ones.
    package static let maximumSourcesPerDeadline = 1_024
    /// The number of packets after which the initiator renews a session.
    package static let rekeyAfterMessages: UInt64 = 1 << 60
    /// The minimum gap between initiations of one peer, in nanoseconds; earlier ones are dropped.
    package static let minimumInitiationGap: Int64 = 20_000_000
}
