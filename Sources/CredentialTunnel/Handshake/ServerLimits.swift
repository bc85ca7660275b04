// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO

/// The limits of a server's memory and work, independent of the number of senders.
package struct ServerLimits: Sendable {
    /// The maximum number of clients with an accepted login.
    package var clients = 10_000
    /// The maximum number of handshakes that wait for a login. A further handshake replaces the oldest one, whose client
    /// notices that only when it times out. There is thus room for all clients of a restarted server.
    package var pending = 4096
    /// The maximum number of logins without a verdict. A further login is dropped, or replaces a waiting one
    /// (``LoginQueue``). The client of a dropped login repeats it.
    package var verifications = 64
    /// The maximum number of waiting logins of one source (an IPv4 address, or an IPv6 network of 64 bits).
    package var sourceVerifications = 16
    /// The maximum number of waiting logins of one network (24 bits of IPv4, 48 bits of IPv6).
    package var networkVerifications = 32
    /// The maximum number of waiting logins with the same name from sources where this name has not succeeded recently.
    package var loginVerifications = 16
    /// The maximum number of waiting logins with the same name from all sources where this name has succeeded recently.
    package var knownVerifications = 8
    /// The maximum number of logins that the driver verifies at the same time.
    package var verifiers = 1
    /// The maximum number of logins with a valid ticket that wait.
    package var resumptions = 4096
    /// The maximum number of logins with a ticket that the driver resumes at the same time.
    package var resumers = 32
    /// The minimum time between two tickets that a client gets in one session.
    package var ticketGap: Duration = .seconds(3600)
    /// The time for which a handshake waits for its login, and for which a refused client is kept so that the server
    /// can repeat the refusal.
    package var pendingLifetime: Duration = .seconds(10)
    /// The burst of valid client hellos above which the server requires cookies.
    package var helloBurst = 128
    package var hellosPerSecond = 1000
    /// The burst of hellos with a cookie from one source.
    package var sourceBurst = 5
    package var sourceHellosPerSecond = 20
    package var sources = 16_384
    /// The burst of unauthenticated notices (``PacketCode/error``) to one source.
    package var noticeBurst = 10
    package var noticesPerSecond = 20
    /// The number of buckets for these shares. Sources are distributed among them at random.
    package var noticeSources = 1024
    /// The minimum time between two answers to a client's empty packets.
    package var emptyAnswerGap: Duration = .seconds(1)
    /// The maximum number of waiting datagrams other than packets.
    package var answers = 1024
    /// The minimum time between two rekeys of one session.
    package var rekeyGap: Duration = .seconds(5)
    package var timing = SessionTiming()

    package init() {}
}

/// The numbers of datagrams that had no effect except to be counted, by cause.
package struct ServerStatistics: Equatable, Sendable {
    /// Datagrams that are not messages of the protocol, or that only servers send.
    package var malformed = 0
    /// Hellos that were not made with this server's keys.
    package var wrongKeys = 0
    /// Hellos that were answered with a cookie.
    package var cookies = 0
    /// Hellos that exceeded the rate limit of their source, and rekeys too soon after the previous one.
    package var limited = 0
    /// Handshakes that newer ones replaced.
    package var evicted = 0
    /// Sealed datagrams that belong to no session.
    package var unknownSessions = 0
    /// Sealed datagrams that are not authentic.
    package var forged = 0
    /// Sealed datagrams that were received before.
    package var replayed = 0
    /// Authentic datagrams that are not allowed yet, such as data before a login.
    package var outOfPlace = 0
    /// Logins that were dropped because the queue of verifications was full.
    package var verificationsFull = 0
    /// Logins that a later login replaced in the queue of verifications.
    package var verificationsReplaced = 0
    /// Logins that were not verified, because their clients had timed out.
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
