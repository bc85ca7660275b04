// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import NetworkAddresses
package import PacketTunnel
import TunnelIO

/// Says which logins are good, and what their clients get: a file of users, a directory, an address pool behind either.
///
/// For every login that was accepted, ``ended(_:_:_:)`` follows once, so that what was given out can be taken back.
package protocol CredentialStore: Sendable {
    /// Whether a login is good. Called for at most ``ServerLimits/verifiers`` logins at the same time, and never for two with the same
    /// name; the address that it comes from is proven. It has to come to an end, and sooner than the client's ten seconds to be of use.
    func verdict(on attempt: LoginAttempt) async -> LoginVerdict

    /// Whether this login has succeeded from this address recently. Such logins are verified first. Called under the server's lock: it
    /// must not wait, nor call the server.
    func isKnown(_ login: String, from source: IPAddress) -> Bool

    /// A session whose login was accepted is over: what its client had is free. Called for one at a time.
    /// - Parameter moved: all of its packets.
    func ended(_ session: ClientID, _ reason: EndReason, _ moved: SessionTraffic) async
}

extension CredentialStore {
    package func isKnown(_ login: String, from source: IPAddress) -> Bool { false }
}

/// IP packets of a session, and their bytes.
package struct SessionTraffic: Hashable, Sendable {
    /// From the client.
    package var receivedPackets = 0
    package var receivedBytes = 0
    /// To the client.
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
    /// The password in UTF-8, which is overwritten once nobody has it any more.
    package let password: SecretBytes
    /// Where it comes from.
    package let source: Endpoint
}

/// A session of a server, as of now.
package struct ServerSession: Sendable {
    package let id: ClientID
    package let login: String
    /// What its client was given.
    package let assignment: Body.Assignment
    /// Where the client is.
    package let endpoint: Endpoint
    /// How long it has been there.
    package let age: Duration
    package let moved: SessionTraffic
}

/// What a server did beside what each session did.
package struct ServerDeviceStatistics: Sendable {
    /// What happened to datagrams that had no other effect.
    package var protocolDrops = ServerStatistics()
    /// What all sessions have moved since the start.
    package var moved = SessionTraffic()
    /// Sessions, and handshakes that wait for a login or its verdict.
    package var sessions = 0
    package var handshakes = 0
    /// Packets of the device to an address that no client has.
    package var noRoute = 0
    /// Packets of clients that are not from their own address.
    package var disallowedSource = 0
    /// What came out of the tunnel and is no IP packet.
    package var malformedPackets = 0
    /// Answers that found the queue of what is to be sent full.
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
