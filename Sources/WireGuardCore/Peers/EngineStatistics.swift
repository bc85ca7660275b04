// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The counters of an engine since its creation: every dropped datagram and packet, by cause, and its work.
public struct EngineStatistics: Hashable, Sendable {
    /// Datagrams that are not a message of the protocol: unknown type, reserved bits set, wrong length.
    public var malformedDatagrams: UInt64 = 0
    /// Handshake messages whose mac1 is not valid for our key.
    public var invalidMac1: UInt64 = 0
    /// Handshake messages that were answered with a cookie under load.
    public var cookieRepliesSent: UInt64 = 0
    /// Accepted cookie replies.
    public var cookieRepliesAccepted: UInt64 = 0
    /// Handshake messages with a valid mac2 from a source that sent too many under load.
    public var rateLimited: UInt64 = 0
    /// Handshake messages that are not authentic, replayed, or not from a peer.
    public var rejectedHandshakes: UInt64 = 0
    /// Initiations that arrived within the minimum gap after the previous one of the same peer.
    public var initiationFloods: UInt64 = 0
    /// Initiations that were sent.
    public var initiationsSent: UInt64 = 0
    /// Responses that were sent.
    public var responsesSent: UInt64 = 0
    /// Handshakes that ended in a session, on either side.
    public var handshakesCompleted: UInt64 = 0
    /// Transport data whose receiver index belongs to no session, or to an expired one.
    public var unknownSession: UInt64 = 0
    /// Transport data that is not authentic.
    public var authenticationFailures: UInt64 = 0
    /// Transport data that was seen before, is too old, or is beyond the counter's limit.
    public var replayed: UInt64 = 0
    /// Authentic datagrams whose content is not an IP packet.
    public var malformedPackets: UInt64 = 0
    /// Authentic packets whose source address is not among the sender's allowed IPs.
    public var disallowedSource: UInt64 = 0
    /// Outgoing packets that are not IP packets or whose destination is in no peer's allowed IPs.
    public var noRoute: UInt64 = 0
    /// Outgoing packets for a peer without endpoint.
    public var noEndpoint: UInt64 = 0
    /// Outgoing packets that were dropped before or while they waited for a session: the sum of the next three
    /// counters.
    public var stagedDropped: UInt64 { stagedOverPeerLimit &+ stagedOverBudget &+ stagedAbandoned }
    /// Outgoing packets that were dropped for newer ones, because the peer's limit of waiting packets was reached.
    public var stagedOverPeerLimit: UInt64 = 0
    /// Outgoing packets that could not wait for a session, because the waiting packets of all peers had reached the
    /// limit.
    public var stagedOverBudget: UInt64 = 0
    /// Waiting packets that were dropped because the handshake was abandoned, the peer or the device was removed, or the
    /// destination moved to another peer.
    public var stagedAbandoned: UInt64 = 0
    /// Outgoing packets and incoming datagrams that were dropped because the device was down.
    public var whileDown: UInt64 = 0
    /// Handshake messages that could not be queued for sending.
    public var outboxDropped: UInt64 = 0
    /// Keepalives that were received.
    public var keepalivesReceived: UInt64 = 0
    /// The number of times that an authentic packet changed a peer's endpoint.
    public var endpointChanges: UInt64 = 0
    /// Packets that were opened and delivered.
    public var packetsReceived: UInt64 = 0
    /// Packets that were sealed, keepalives included.
    public var packetsSent: UInt64 = 0

    /// Creates counters that are all zero.
    public init() {}
}

extension EngineStatistics {
    /// The drop causes of an engine: the name in text and JSON, the counter, and a sentence for users.
    package static let dropCauses: [(name: String, counter: any KeyPath<Self, UInt64> & Sendable, summary: String)] = [
        ("no peer", \.noRoute, "Packets to an address that is in no peer's allowed IPs, or that are not IP packets."),
        ("no endpoint", \.noEndpoint, "Packets for a peer whose endpoint is not known."),
        (
            "staged over peer limit", \.stagedOverPeerLimit,
            "Packets without a session that were replaced by newer ones of the same peer."
        ),
        (
            "staged over budget", \.stagedOverBudget,
            "Packets without a session that exceeded the memory for waiting packets of all peers."
        ),
        (
            "staged abandoned", \.stagedAbandoned,
            "Packets that waited for a session until the handshake failed, or the peer, its route or the device was removed."
        ),
        ("outbox full", \.outboxDropped, "Handshake messages that exceeded the queue of messages to send."),
        ("while down", \.whileDown, "Packets and datagrams that arrived while the device was down."),
        ("malformed", \.malformedDatagrams, "Datagrams that are not a message of WireGuard."),
        ("invalid mac1", \.invalidMac1, "Handshake messages that were not made with this end's public key."),
        ("cookie demanded", \.cookieRepliesSent, "Handshake messages that were answered with a cookie under load."),
        ("rate limited", \.rateLimited, "Handshake messages of a source that sent too many under load."),
        (
            "rejected handshakes", \.rejectedHandshakes,
            "Handshake messages that are not authentic, were replayed, or are not from a known peer."
        ),
        (
            "initiation floods", \.initiationFloods,
            "Initiations that arrived sooner after the previous one than a peer may send them."
        ),
        ("unknown session", \.unknownSession, "Transport data of a session that does not exist or has expired."),
        ("decryption failures", \.authenticationFailures, "Transport data that is not authentic."),
        ("replayed", \.replayed, "Transport data that was received before, or too late."),
        ("malformed packets", \.malformedPackets, "Authentic packets whose content is not an IP packet."),
        (
            "disallowed source", \.disallowedSource,
            "Authentic packets from an address that is not in the sender's allowed IPs."
        ),
    ]
}
