// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO

/// The bounds of a server's memory and work, for any senders.
package struct ServerLimits: Sendable {
    /// The most clients whose login is good.
    package var clients = 10_000
    /// The largest number of handshakes that wait for a login. One more replaces the oldest.
    package var pending = 1024
    /// The most logins without a verdict. A further login is dropped, or replaces a waiting one (``LoginQueue``). The client of a dropped
    /// login repeats it.
    package var verifications = 64
    /// The most logins of one source (an IPv4 address, or an IPv6 network of 64 bits) that wait.
    package var sourceVerifications = 16
    /// The most logins of one network (24 bits of IPv4, 48 bits of IPv6) that wait.
    package var networkVerifications = 32
    /// The most logins with the same name that wait, from sources where it has not succeeded recently.
    package var loginVerifications = 16
    /// The most logins with the same name that wait, from all sources where it has succeeded recently.
    package var knownVerifications = 8
    /// The most logins that the driver verifies at the same time.
    package var verifiers = 1
    /// How long a handshake waits for its login, and a refused one stays to repeat the refusal.
    package var pendingLifetime: Duration = .seconds(10)
    /// Client hellos, with both keys right, that a server copes with before it asks for cookies.
    package var helloBurst = 128
    package var hellosPerSecond = 1000
    /// Hellos of one source that showed a cookie.
    package var sourceBurst = 5
    package var sourceHellosPerSecond = 20
    package var sources = 16_384
    /// The burst of notices without a key (``PacketCode/error``), over all clients.
    package var noticeBurst = 20
    package var noticesPerSecond = 20
    /// The least time between two rekeys of one session.
    package var rekeyGap: Duration = .seconds(5)
    package var timing = SessionTiming()

    package init() {}
}

/// The counters of datagrams without another effect.
package struct ServerStatistics: Equatable, Sendable {
    /// No message of the protocol, or one that only servers send.
    package var malformed = 0
    /// Hellos that were not made with this server's keys.
    package var wrongKeys = 0
    /// Hellos that were answered with a cookie.
    package var cookies = 0
    /// Hellos of a source that sends too many.
    package var limited = 0
    /// Handshakes that were replaced by others.
    package var evicted = 0
    /// Sealed datagrams of no session.
    package var unknownSessions = 0
    /// Sealed datagrams that are not authentic.
    package var forged = 0
    /// Sealed datagrams that were received before.
    package var replayed = 0
    /// Authentic datagrams that are out of place, such as data before a login.
    package var outOfPlace = 0
    /// Logins that found the queue of verifications full.
    package var verificationsFull = 0
    /// Logins that lost their place in that queue to a later login.
    package var verificationsReplaced = 0
    /// Logins that were not verified because their clients had given up.
    package var verificationsExpired = 0

    package init() {}
}

extension ServerStatistics {
    /// The drop causes of the protocol: each counter has one.
    static let dropCauses: [DropCause<Self, Int>] = [
        (
            "malformed", \.malformed,
            "Datagrams that are not a message of the login tunnel, or one that only servers send."
        ),
        ("wrong keys", \.wrongKeys, "Hellos that were not made with this server's keys."),
        ("cookie demanded", \.cookies, "Hellos that were answered with a cookie under load."),
        ("rate limited", \.limited, "Hellos of a source that sent too many under load."),
        ("evicted", \.evicted, "Handshakes that were replaced by newer ones."),
        ("unknown session", \.unknownSessions, "Sealed datagrams that belong to no session."),
        ("forged", \.forged, "Sealed datagrams that are not authentic."),
        ("replayed", \.replayed, "Sealed datagrams that were received before."),
        ("out of place", \.outOfPlace, "Authentic datagrams that are not allowed yet, such as data before a login."),
        ("verifications full", \.verificationsFull, "Logins that exceeded the queue of verifications."),
        ("verifications replaced", \.verificationsReplaced, "Logins that a later login replaced in that queue."),
        (
            "verifications expired", \.verificationsExpired,
            "Logins that were not verified because their clients had timed out."
        ),
    ]
}
