// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
public import TunnelIO
public import WireGuardCore

/// Every packet and datagram that a device did not pass on, by cause. Each is counted once.
public struct DropCounters: Hashable, Sendable {
    /// Packets for an address that is in no peer's allowed IPs, or no IP packets.
    public var noPeer: UInt64 = 0
    /// Packets for a peer whose endpoint is not known.
    public var noEndpoint: UInt64 = 0
    /// Packets without a session that gave way to newer ones of the same peer.
    public var stagedOverPeerLimit: UInt64 = 0
    /// Packets without a session that found the budget of all that wait used up.
    public var stagedOverBudget: UInt64 = 0
    /// Packets that waited for a session in vain.
    public var stagedAbandoned: UInt64 = 0
    /// Handshake messages that found the queue of those to be sent full.
    public var outboxFull: UInt64 = 0
    /// Packets and datagrams that came while the device was down.
    public var whileDown: UInt64 = 0
    /// Frames from the TUN device that contradicted themselves.
    public var malformedFrames: UInt64 = 0
    /// Opened packets that the TUN device refused, for example because its queue was full.
    public var refusedByDevice: UInt64 = 0
    /// Datagrams that the system refused to send: no buffers, no route, too large for the path.
    public var refusedByNetwork: UInt64 = 0
    /// Datagrams to be sent in a family that the device has no socket of.
    public var noSocket: UInt64 = 0
    /// Datagrams that came while the socket's queue in the system was full.
    public var socketQueueFull: UInt64 = 0
    /// Datagrams that were larger than there was room for.
    public var oversize: UInt64 = 0
    /// Datagrams that are no message of the protocol.
    public var malformed: UInt64 = 0
    /// Handshake messages that were not made with our public key.
    public var invalidMac1: UInt64 = 0
    /// Handshake messages that were answered with a cookie instead, under load.
    public var cookieDemanded: UInt64 = 0
    /// Handshake messages of a source that sent too many, under load.
    public var rateLimited: UInt64 = 0
    /// Handshake messages that are not authentic, replayed, or not of a peer of ours.
    public var rejectedHandshakes: UInt64 = 0
    /// Initiations that came closer to the one before than a peer may send them.
    public var initiationFloods: UInt64 = 0
    /// Transport data of a session that there is not, or no more.
    public var unknownSession: UInt64 = 0
    /// Transport data that is not authentic.
    public var decryptionFailures: UInt64 = 0
    /// Transport data that came before, or too late.
    public var replayed: UInt64 = 0
    /// Authentic packets whose inside is no IP packet.
    public var malformedPackets: UInt64 = 0
    /// Authentic packets from an address that is not among the sender's allowed IPs.
    public var disallowedSource: UInt64 = 0

    /// Nothing dropped.
    public init() {}

    init(engine: EngineStatistics, lane: LaneStatistics, sockets: SocketDrops) {
        noPeer = engine.noRoute
        noEndpoint = engine.noEndpoint
        stagedOverPeerLimit = engine.stagedOverPeerLimit
        stagedOverBudget = engine.stagedOverBudget
        stagedAbandoned = engine.stagedAbandoned
        outboxFull = engine.outboxDropped
        whileDown = engine.whileDown
        malformedFrames = UInt64(clamping: lane.malformedFromDevice)
        refusedByDevice = UInt64(clamping: lane.droppedByDevice)
        refusedByNetwork = UInt64(clamping: lane.droppedByNetwork)
        noSocket = UInt64(clamping: lane.droppedWithoutSocket)
        socketQueueFull = UInt64(clamping: sockets.overflowed)
        oversize = UInt64(clamping: sockets.oversize)
        malformed = engine.malformedDatagrams
        invalidMac1 = engine.invalidMac1
        cookieDemanded = engine.cookieRepliesSent
        rateLimited = engine.rateLimited
        rejectedHandshakes = engine.rejectedHandshakes
        initiationFloods = engine.initiationFloods
        unknownSession = engine.unknownSession
        decryptionFailures = engine.authenticationFailures
        replayed = engine.replayed
        malformedPackets = engine.malformedPackets
        disallowedSource = engine.disallowedSource
    }

    /// Each cause by its name, in a fixed order.
    public var byCause: [(cause: String, count: UInt64)] {
        [
            ("no peer", noPeer), ("no endpoint", noEndpoint), ("staged over peer limit", stagedOverPeerLimit),
            ("staged over budget", stagedOverBudget), ("staged abandoned", stagedAbandoned),
            ("outbox full", outboxFull), ("while down", whileDown), ("malformed frames", malformedFrames),
            ("refused by device", refusedByDevice), ("refused by network", refusedByNetwork), ("no socket", noSocket),
            ("socket queue full", socketQueueFull), ("oversize", oversize), ("malformed", malformed),
            ("invalid mac1", invalidMac1), ("cookie demanded", cookieDemanded), ("rate limited", rateLimited),
            ("rejected handshakes", rejectedHandshakes), ("initiation floods", initiationFloods),
            ("unknown session", unknownSession), ("decryption failures", decryptionFailures),
            ("replayed", replayed), ("malformed packets", malformedPackets), ("disallowed source", disallowedSource),
        ]
    }

    /// All that was dropped.
    public var total: UInt64 { byCause.reduce(0) { $0 &+ $1.count } }
}

extension DropCounters: CustomStringConvertible {
    /// The causes that there were, in one line.
    public var description: String {
        let causes = byCause.filter { $0.count > 0 }.map { "\($0.cause) \($0.count)" }
        return causes.isEmpty ? "none" : causes.joined(separator: ", ")
    }
}

/// What a device counted since it was made.
public struct DeviceStatistics: Hashable, Sendable {
    /// What the protocol engine counted.
    public var engine: EngineStatistics
    /// What was moved between device and network.
    public var lane: LaneStatistics
    /// What was dropped, by cause.
    public var drops: DropCounters
}

extension DeviceStatistics: CustomStringConvertible {
    /// Packets and bytes each way, and what was dropped, in one line.
    public var description: String {
        "sent \(lane.toNetwork.packets) datagrams of \(lane.toNetwork.bytes) bytes, received "
            + "\(lane.fromNetwork.packets) of \(lane.fromNetwork.bytes); handshakes \(engine.handshakesCompleted); "
            + "dropped: \(drops)"
    }
}

extension WireGuardDevice {
    /// What the device counted since it was made. Any thread may ask; it costs nothing per packet.
    public var statistics: DeviceStatistics {
        let sockets = operations.withLock { state in
            var drops = state.socketDrops
            for sockets in state.sockets { drops.add(sockets) }
            return drops
        }
        let engine = engineStatistics
        let lane = laneStatistics
        return DeviceStatistics(
            engine: engine, lane: lane, drops: DropCounters(engine: engine, lane: lane, sockets: sockets))
    }
}
