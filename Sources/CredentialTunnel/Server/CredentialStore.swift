// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnel
import TunnelIO

/// Verifies logins and assigns addresses: for example, a file of users or a directory, with an address pool.
///
/// ``ended(_:_:_:)`` is called once for each accepted login, to release the assignment.
package protocol CredentialStore: Sendable {
    /// Verifies a login, or resumes it if it has a ``LoginAttempt/resumption``. Called for at most
    /// ``ServerLimits/verifiers`` and ``ServerLimits/resumers`` logins at the same time, and never for two with the same
    /// name. The source address is proven. It must return, and should do so before the client times out after
    /// ten seconds.
    func verdict(on attempt: LoginAttempt) async -> LoginVerdict

    /// Whether this login has succeeded from this address recently. Such logins are verified first. Called under the
    /// server's lock: it must neither wait nor call the server.
    func isKnown(_ login: String, from source: IPAddress) -> Bool

    /// Releases the assignment of an ended session. Not called concurrently.
    /// - Parameter moved: The traffic of the session.
    func ended(_ session: ClientID, _ reason: EndReason, _ moved: SessionTraffic) async
}

extension CredentialStore {
    package func isKnown(_ login: String, from source: IPAddress) -> Bool { false }
}

/// The IP packets of a session, and their bytes.
package struct SessionTraffic: Hashable, Sendable {
    /// The packets and bytes from the client.
    package var receivedPackets = 0
    package var receivedBytes = 0
    /// The packets and bytes to the client.
    package var sentPackets = 0
    package var sentBytes = 0

    package init() {}

    mutating func add(_ other: SessionTraffic) {
        receivedPackets &+= other.receivedPackets
        receivedBytes &+= other.receivedBytes
        sentPackets &+= other.sentPackets
        sentBytes &+= other.sentBytes
    }
}

/// A login that waits for its verdict.
package struct LoginAttempt: Sendable {
    /// The ID of the session that an accepted login begins. It is never reused.
    package let session: ClientID
    /// The user's name.
    package let login: String
    /// The password in UTF-8, which is overwritten when the last reference is released.
    package let password: SecretBytes
    /// The sender's address.
    package let source: Endpoint
    /// The content of a valid ticket (``TicketGrant/content``), or `nil` to verify the password. If the store answers
    /// ``LoginVerdict/notResumed``, the same login follows without it.
    package var resumption: [UInt8]?
}

/// A snapshot of a server's session.
package struct ServerSession: Sendable {
    package let id: ClientID
    package let login: String
    /// The assignment to its client.
    package let assignment: Body.Assignment
    /// The client's address.
    package let endpoint: Endpoint
    /// The age of the session.
    package let age: Duration
    package let moved: SessionTraffic
}

/// The statistics of a server for all sessions.
package struct ServerDeviceStatistics: Sendable {
    /// The numbers of datagrams that had no effect except to be counted, by cause.
    package var protocolDrops = ServerStatistics()
    /// The traffic of all sessions since the start.
    package var moved = SessionTraffic()
    /// The number of sessions, and the number of handshakes that wait for a login or its verdict.
    package var sessions = 0
    package var handshakes = 0
    /// Packets from the TUN device to an address that no client has.
    package var noRoute = 0
    /// Packets to a client that has not answered from its new address yet.
    package var unprovenAddress = 0
    /// Packets of clients whose source is not the client's address.
    package var disallowedSource = 0
    /// Authentic packets that are not IP packets.
    package var malformedPackets = 0
    /// Responses that were dropped because the queue of messages to send was full.
    package var answersDropped = 0
    /// Logins by their outcome.
    package var accepted = 0
    package var refused = 0
}

extension ServerDeviceStatistics {
    /// The drop causes of a server, without those of ``protocolDrops``.
    static let dropCauses: [DropCause<Self, Int>] = [
        ("no route", \.noRoute, "Packets to an address that no client has."),
        ("unproven address", \.unprovenAddress, "Packets to a client that has not answered from its new address yet."),
        ("disallowed source", \.disallowedSource, "Packets of clients that are not from the client's own address."),
        ("malformed packets", \.malformedPackets, "Authentic packets that are not IP packets."),
        ("answers dropped", \.answersDropped, "Answers that exceeded the queue of messages to send."),
    ]
}
