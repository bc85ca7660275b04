// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// What an engine counted since it was made: every datagram and packet that it dropped, by cause, and what it did.
public struct EngineStatistics: Hashable, Sendable {
    /// Datagrams that are no message of the protocol: unknown type, reserved bits set, wrong length.
    public var malformedDatagrams: UInt64 = 0
    /// Handshake messages whose mac1 does not fit our key.
    public var invalidMac1: UInt64 = 0
    /// Handshake messages that were answered with a cookie under load.
    public var cookieRepliesSent: UInt64 = 0
    /// Cookie replies that brought a cookie.
    public var cookieRepliesAccepted: UInt64 = 0
    /// Handshake messages with a valid mac2 of a source that sent too many under load.
    public var rateLimited: UInt64 = 0
    /// Handshake messages that are not authentic, replayed, or not of a peer of ours.
    public var rejectedHandshakes: UInt64 = 0
    /// Initiations that came closer to the one before than a peer may send them.
    public var initiationFloods: UInt64 = 0
    /// Initiations that were sent.
    public var initiationsSent: UInt64 = 0
    /// Responses that were sent.
    public var responsesSent: UInt64 = 0
    /// Handshakes that ended in a session, on either side.
    public var handshakesCompleted: UInt64 = 0
    /// Transport data whose receiver index names no session, or an expired one.
    public var unknownSession: UInt64 = 0
    /// Transport data that is not authentic.
    public var authenticationFailures: UInt64 = 0
    /// Transport data that was seen before, is too old, or is beyond the counter's limit.
    public var replayed: UInt64 = 0
    /// Authentic packets whose inside is no IP packet.
    public var malformedPackets: UInt64 = 0
    /// Authentic packets whose source address is not among the sender's allowed IPs.
    public var disallowedSource: UInt64 = 0
    /// Outgoing packets that are in no peer's allowed IPs, or no IP packets.
    public var noRoute: UInt64 = 0
    /// Outgoing packets for a peer without endpoint.
    public var noEndpoint: UInt64 = 0
    /// Outgoing packets that were dropped while they waited for a session, or instead of that: the sum of the three
    /// causes that follow.
    public var stagedDropped: UInt64 { stagedOverPeerLimit &+ stagedOverBudget &+ stagedAbandoned }
    /// Outgoing packets that gave way to newer ones, since as many of their peer waited as may.
    public var stagedOverPeerLimit: UInt64 = 0
    /// Outgoing packets that could not wait for a session, since those of all peers filled what they may.
    public var stagedOverBudget: UInt64 = 0
    /// Outgoing packets that waited in vain: the handshake was given up, or the peer or the device went.
    public var stagedAbandoned: UInt64 = 0
    /// Outgoing packets and incoming datagrams that came while the device was down.
    public var whileDown: UInt64 = 0
    /// Handshake messages that could not be queued for sending.
    public var outboxDropped: UInt64 = 0
    /// Keepalives that were received.
    public var keepalivesReceived: UInt64 = 0
    /// Times that an authentic packet moved a peer to another endpoint.
    public var endpointChanges: UInt64 = 0
    /// Packets that were opened and delivered.
    public var packetsReceived: UInt64 = 0
    /// Packets that were sealed, keepalives included.
    public var packetsSent: UInt64 = 0

    /// Nothing counted.
    public init() {}
}
