// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The limits of an engine's memory, and of its work for unknown hosts.
///
/// Anything beyond them is dropped and counted in ``EngineStatistics``. A configuration beyond them is refused with an
/// ``EngineLimitError``.
public struct EngineLimits: Hashable, Sendable {
    /// Peers that can be configured.
    public var peers = 1 << 20
    /// Allowed IPs that can be configured, over all peers.
    public var allowedIPs = 1 << 24
    /// The number of packets that wait for a peer's session. Beyond it the oldest are dropped.
    public var stagedPacketsPerPeer = 128
    /// Packets that wait for sessions, over all peers.
    public var stagedPackets = 1 << 16
    /// Bytes that wait for sessions, over all peers.
    public var stagedBytes = 4 << 20
    /// Handshake messages that wait to be sent.
    public var outboxMessages = 1024
    /// Sources whose handshakes are counted under load.
    public var rateLimitedSources = 16_384
    /// Handshakes per second of one source under load.
    public var handshakesPerSecondAndSource = 20
    /// The burst of handshakes of one source under load.
    public var handshakeBurstPerSource = 5
    /// The rate of handshake messages without a session, over all sources, up to which the engine is not under load.
    /// These are messages of unknown hosts and repeated ones. Unless it is set, a device multiplies it by the number of
    /// its processors, at most four.
    ///
    /// If handling that many messages would need more than half of a processor's time, a device uses the number that
    /// needs half of it.
    public var handshakesPerSecond = 1_000
    /// The burst of handshake messages without a session up to which the engine is not under load.
    public var handshakeBurst = 128

    /// The defaults, sized for a gateway.
    public init() {}
}
