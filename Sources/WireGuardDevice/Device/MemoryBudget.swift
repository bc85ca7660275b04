// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import TunnelIO
public import WireGuardCore

/// The memory limit of a device, without the program itself, fixed when the device is made.
///
/// Batches, queues, tables and the management socket's buffers are sized from it, and none of them grows beyond its part:
/// packets for a full queue are dropped and counted (see ``DropCounters``), and a configuration that would not fit is refused
/// with ``WireGuardDeviceError/Code-swift.enum/beyondBudget(_:)`` before any of it takes effect. After a burst, unused pages
/// are returned to the system.
///
/// The budget counts the allocations of the process. The sockets' queues are the kernel's memory and do not count.
public struct MemoryBudget: Hashable, Sendable {
    /// The whole, in bytes: at least ``Breakdown/total`` of ``breakdown``.
    public let byteCount: Int
    /// The most peers that can be configured.
    public let peers: Int
    /// The most allowed IPs that can be configured, over all peers.
    public let allowedIPs: Int
    /// The most allowed IPs that ``withRoom(forAllowedIPs:)`` gives it room for, with more bytes.
    public let mostAllowedIPs: Int
    /// The largest number of lanes.
    public let lanes: Int
    /// The memory of each part.
    public let breakdown: Breakdown
    /// The engine's share, as limits.
    public let limits: EngineLimits
    /// The share of each lane, as batch sizes.
    public let lane: LaneConfiguration
    /// The management socket's share.
    let management: ManagementLimits

    /// For an app extension: 8 MiB, with room for 240 peers and 512 allowed IPs. Tunnels with more allowed IPs, 4,096 at
    /// most, get the additional memory for these: up to 12 MiB.
    public static let `extension` = MemoryBudget(
        atLeast: 8 << 20, MemoryDemand(peers: 240, allowedIPs: 512, lanes: 1), mostAllowedIPs: 4_096)

    /// For a client on a desktop or a small server: 24 MiB, with room for 512 peers and 2,048 allowed IPs. Tunnels with more
    /// allowed IPs, 20,000 at most, get the additional memory for these: up to 42 MiB.
    public static let client = MemoryBudget(
        atLeast: 24 << 20, MemoryDemand(peers: 512, allowedIPs: 2_048, lanes: 1), mostAllowedIPs: 20_000)

    /// For a gateway with this many peers and four allowed IPs for each: as much as they need, and large batches and queues.
    ///
    /// That is about 23 MiB for each lane and 16 KiB for each peer.
    /// - Parameters:
    ///   - peers: the most peers that can be configured.
    ///   - lanes: the most lanes.
    public static func gateway(peers: Int, lanes: Int = 1) -> MemoryBudget {
        let demand = MemoryDemand(
            peers: peers, allowedIPs: 4 * max(min(peers, MemoryDemand.mostPeers), 1), lanes: lanes)
        return MemoryBudget(atLeast: demand.comfortableBytes, demand)
    }

    /// Makes a budget of `bytes` for this number of peers.
    /// - Parameters:
    ///   - bytes: The total.
    ///   - peers: The largest number of configured peers, 1 to 1,048,576.
    ///   - allowedIPs: The largest number of allowed IPs, over all peers; `nil` for two for each peer and 256 more.
    ///   - lanes: The largest number of lanes; reduced to the available room, but at least one.
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

    /// Returns the budget with room for this number of allowed IPs, ``mostAllowedIPs`` at most: larger by their memory, and
    /// otherwise unchanged. Lists of a country's networks have thousands, and most tunnels a few.
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
    /// The parts of a budget, in bytes. Packet regions count as a whole, though pages that were never touched cost nothing.
    public struct Breakdown: Hashable, Sendable {
        /// Packets read from the device, of all lanes.
        public var packets = 0
        /// Datagrams to be sent, of all lanes.
        public var outgoing = 0
        /// Datagrams received, of all lanes.
        public var incoming = 0
        /// Memory of lanes for planning, with packets that stopped waiting; superframes that are being split; the headers of
        /// system calls; the used part of the threads' stacks.
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
    /// The bytes do not suffice for the peers; `needed` would.
    case tooSmall(byteCount: Int, needed: Int, peers: Int)

    /// The insufficient value, and a sufficient one.
    public var description: String {
        switch self {
        case .tooSmall(let byteCount, let needed, let peers):
            "\(byteCount) bytes are too few for \(peers) peers; at least \(needed) bytes are needed"
        }
    }
}
