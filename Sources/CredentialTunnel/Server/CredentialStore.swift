// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnel
import TunnelIO

/// Decides about logins, and assigns addresses to their clients: a file of users, a directory, an address pool behind either.
///
/// For every accepted login, ``ended(_:_:_:)`` follows once, so that the assignment can be released.
package protocol CredentialStore: Sendable {
    /// Whether a login is good. Called for at most ``ServerLimits/verifiers`` logins at the same time, and never for two with the same
    /// name; the address that it comes from is proven. It has to come to an end, and sooner than the client's ten seconds to be of use.
    func verdict(on attempt: LoginAttempt) async -> LoginVerdict

    /// Whether this login has succeeded from this address recently. Such logins are verified first. Called under the server's lock: it
    /// must not wait, nor call the server.
    func isKnown(_ login: String, from source: IPAddress) -> Bool

    /// Called when a session with an accepted login has ended, one call at a time: its client's assignment is free.
    /// - Parameter moved: The sum of its packets.
    func ended(_ session: ClientID, _ reason: EndReason, _ moved: SessionTraffic) async
}

extension CredentialStore {
    package func isKnown(_ login: String, from source: IPAddress) -> Bool { false }
}

/// IP packets of a session, and their bytes.
package struct SessionTraffic: Hashable, Sendable {
    /// Packets from the client.
    package var receivedPackets = 0
    package var receivedBytes = 0
    /// Packets to the client.
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
    /// The session that it would begin; no other ever has the same.
    package let session: ClientID
    /// The user's name.
    package let login: String
    /// The password in UTF-8, which is overwritten when its last owner releases it.
    package let password: SecretBytes
    /// The source of the login.
    package let source: Endpoint
}

/// A session of a server, as of now.
package struct ServerSession: Sendable {
    package let id: ClientID
    package let login: String
    /// The client's assignment.
    package let assignment: Body.Assignment
    /// The client's endpoint.
    package let endpoint: Endpoint
    /// How long it has been there.
    package let age: Duration
    package let moved: SessionTraffic
}

/// The counters of a server in addition to those of its sessions.
package struct ServerDeviceStatistics: Sendable {
    /// The counters of datagrams without another effect.
    package var protocolDrops = ServerStatistics()
    /// The traffic of all sessions since the start.
    package var moved = SessionTraffic()
    /// Sessions, and handshakes that wait for a login or its verdict.
    package var sessions = 0
    package var handshakes = 0
    /// Packets of the device to an address that no client has.
    package var noRoute = 0
    /// Packets of clients that are not from their own address.
    package var disallowedSource = 0
    /// Packets from the tunnel that are not IP packets.
    package var malformedPackets = 0
    /// Answers that were dropped because the send queue was full.
    package var answersDropped = 0
    /// Logins by their outcome.
    package var accepted = 0
    package var refused = 0
}

extension ServerDeviceStatistics {
    /// The drop causes of a server, without those of ``protocolDrops``.
    static let dropCauses: [DropCause<Self, Int>] = [
        ("no route", \.noRoute, "Packets to an address that no client has."),
        ("disallowed source", \.disallowedSource, "Packets of clients that are not from the client's own address."),
        ("malformed packets", \.malformedPackets, "Authentic packets that are not IP packets."),
        ("answers dropped", \.answersDropped, "Answers that exceeded the queue of messages to send."),
    ]
}
