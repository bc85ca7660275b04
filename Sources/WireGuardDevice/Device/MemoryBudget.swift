// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import TunnelIO
public import WireGuardCore

/// The memory limit of a device, without the program itself. It is fixed when the device is created.
///
/// The sizes of batches, queues, tables and the management socket's buffers follow from it, and none of them exceeds
/// its part. Packets for a full queue are dropped and counted (see ``DropCounters``). A configuration that would not
/// fit is refused with ``WireGuardDeviceError/Code-swift.enum/beyondBudget(_:)`` before any of it takes effect. After a
/// burst, unused pages are returned to the system.
///
/// While an update replaces the peers, the former peers and the former table of allowed IPs exist in addition to the new
/// ones, and only the new ones count. The device releases them before the update returns.
///
/// The budget counts allocations of the process. The sockets' queues are kernel memory and do not count.
public struct MemoryBudget: Hashable, Sendable {
    /// The total in bytes, at least ``Breakdown/total`` of ``breakdown``.
    public let byteCount: Int
    /// The maximum number of configured peers.
    public let peers: Int
    /// The maximum number of configured allowed IPs, over all peers.
    public let allowedIPs: Int
    /// The maximum number of allowed IPs for which ``withRoom(forAllowedIPs:)`` adds memory.
    public let mostAllowedIPs: Int
    /// The largest number of lanes.
    public let lanes: Int
    /// The memory of each part.
    public let breakdown: Breakdown
    /// The limits of the engine.
    public let limits: EngineLimits
    /// The batch sizes of each lane.
    public let lane: LaneConfiguration
    /// The limits of the management socket.
    let management: ManagementLimits

    /// For an app extension: 8 MiB, for at most 240 peers and 512 allowed IPs. Tunnels with more allowed IPs, up to
    /// 4,096, get the additional memory that these need: up to 12 MiB.
    public static let `extension` = MemoryBudget(
        atLeast: 8 << 20, MemoryDemand(peers: 240, allowedIPs: 512, lanes: 1), mostAllowedIPs: 4_096)

    /// For a client on a desktop or a small server: 24 MiB, for at most 512 peers and 2,048 allowed IPs. Tunnels with
    /// more allowed IPs, up to 20,000, get the additional memory that these need: up to 42 MiB.
    public static let client = MemoryBudget(
        atLeast: 24 << 20, MemoryDemand(peers: 512, allowedIPs: 2_048, lanes: 1), mostAllowedIPs: 20_000)

    /// For a gateway with this many peers and four allowed IPs for each: the memory that they need, and large batches
    /// and queues.
    ///
    /// That is about 23 MiB for each lane and 16 KiB for each peer.
    /// - Parameters:
    ///   - peers: The maximum number of configured peers.
    ///   - lanes: The maximum number of lanes.
    public static func gateway(peers: Int, lanes: Int = 1) -> MemoryBudget {
        let demand = MemoryDemand(
            peers: peers, allowedIPs: 4 * max(min(peers, MemoryDemand.mostPeers), 1), lanes: lanes)
        return MemoryBudget(atLeast: demand.comfortableBytes, demand)
    }

    /// Makes a budget of `bytes` for this number of peers.
    /// - Parameters:
    ///   - bytes: The total.
    ///   - peers: The largest number of configured peers, 1 to 1,048,576.
    ///   - allowedIPs: The maximum number of allowed IPs, over all peers; `nil` for two per peer and 256 more.
    ///   - lanes: The maximum number of lanes. It is reduced to the number that fits, but is at least one.
    /// - Throws: `.tooSmall`, with the number of bytes that are needed.
    public static func custom(
        bytes: Int, peers: Int, allowedIPs: Int? = nil, lanes: Int = 1
    ) throws(MemoryBudgetError) -> MemoryBudget {
        let networks = allowedIPs ?? 2 * max(min(peers, MemoryDemand.mostPeers), 1) + 256
        var demand = MemoryDemand(peers: peers, allowedIPs: networks, lanes: lanes)
        while demand.lanes > 1, demand.minimumBytes > bytes { demand.lanes -= 1 }
        guard demand.minimumBytes <= bytes else {
            throw .tooSmall(byteCount: bytes, needed: demand.minimumBytes, peers: demand.peers)
        }
        return MemoryBudget(atLeast: bytes, demand)
    }

    /// Divides `byteCount`, or the minimum of `demand` if that is larger.
    private init(atLeast byteCount: Int, _ demand: MemoryDemand, mostAllowedIPs: Int = 0) {
        self.byteCount = max(byteCount, demand.minimumBytes)
        let shares = MemoryShares(dividing: self.byteCount, among: demand)
        peers = demand.peers
        allowedIPs = demand.allowedIPs
        self.mostAllowedIPs = max(mostAllowedIPs, allowedIPs)
        lanes = demand.lanes
        breakdown = shares.breakdown
        limits = shares.limits
        lane = shares.lane
        management = shares.management
    }

    /// Returns the budget for this number of allowed IPs, at most ``mostAllowedIPs``: larger by the memory that they
    /// need, and otherwise unchanged. A list of a country's networks has thousands; most tunnels have a few.
    public func withRoom(forAllowedIPs count: Int) -> MemoryBudget {
        let count = min(count, mostAllowedIPs)
        guard count > allowedIPs else { return self }
        let before = MemoryDemand(peers: peers, allowedIPs: allowedIPs, lanes: lanes)
        let demand = MemoryDemand(peers: peers, allowedIPs: count, lanes: lanes)
        return MemoryBudget(
            atLeast: byteCount + demand.fixed.total - before.fixed.total, demand, mostAllowedIPs: mostAllowedIPs)
    }
}

extension MemoryBudget {
    /// The parts of a budget, in bytes. Packet regions count completely, although pages that were never touched need no
    /// memory.
    public struct Breakdown: Hashable, Sendable {
        /// Packets read from the device, of all lanes.
        public var packets = 0
        /// Datagrams to be sent, of all lanes.
        public var outgoing = 0
        /// Datagrams received, of all lanes.
        public var incoming = 0
        /// The memory of lanes for planning, including packets that no longer wait; superframes that are being split or
        /// joined; the headers of system calls; and the used part of the threads' stacks.
        public var scratch = 0
        /// Peers with three sessions and a handshake each.
        public var peers = 0
        /// The table of allowed IPs.
        public var allowedIPs = 0
        /// Packets that wait for sessions.
        public var staged = 0
        /// Handshake messages that wait to be sent.
        public var outbox = 0
        /// Sources whose handshakes are counted under load.
        public var rateLimits = 0
        /// Requests and replies of the management socket.
        public var management = 0
        /// Event loops, timers, and the allocator's overhead.
        public var reserve = 0

        /// The sum.
        public var total: Int {
            packets + outgoing + incoming + scratch + peers + allowedIPs + staged + outbox + rateLimits + management
                + reserve
        }
    }
}

/// The error of an impossible budget.
public enum MemoryBudgetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The bytes do not suffice for the peers; `needed` bytes would suffice.
    case tooSmall(byteCount: Int, needed: Int, peers: Int)

    /// The insufficient value, and a sufficient one.
    public var description: String {
        switch self {
        case .tooSmall(let byteCount, let needed, let peers):
            "\(byteCount) bytes are too few for \(peers) peers; at least \(needed) bytes are needed"
        }
    }
}
