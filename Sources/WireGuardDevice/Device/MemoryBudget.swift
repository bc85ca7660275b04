// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import TunnelIO
public import WireGuardCore

/// The most memory that a device takes, beyond the program itself, fixed when the device is made.
///
/// Batches, queues, tables and the management socket's buffers are sized from it, and none of them grows beyond its part:
/// packets that find a queue full are dropped and counted (see ``DropCounters``), and a configuration that would not fit
/// is refused with ``WireGuardDeviceError/Code-swift.enum/beyondBudget(_:)`` before any of it takes effect. After a burst,
/// pages that are not needed for now go back to the system.
///
/// Counted is what the process allocates. The sockets' queues are the kernel's memory and not part of it.
public struct MemoryBudget: Hashable, Sendable {
    /// The whole, in bytes: at least ``Breakdown/total`` of ``breakdown``.
    public let byteCount: Int
    /// The most peers that can be configured.
    public let peers: Int
    /// The most allowed IPs that can be configured, over all peers.
    public let allowedIPs: Int
    /// The most allowed IPs that ``withRoom(forAllowedIPs:)`` gives it room for, with more bytes.
    public let mostAllowedIPs: Int
    /// The most lanes that there is room for.
    public let lanes: Int
    /// What each part has.
    public let breakdown: Breakdown
    /// The engine's share, as limits.
    public let limits: EngineLimits
    /// The share of each lane, as batch sizes.
    public let lane: LaneConfiguration
    /// The management socket's share.
    let management: ManagementLimits

    /// For an app extension: 8 MiB, with room for 240 peers and 512 allowed IPs. Tunnels that are started with more allowed IPs,
    /// 4,096 at most, get as much more as those take: 12 MiB then.
    public static let `extension` = MemoryBudget(
        atLeast: 8 << 20, MemoryDemand(peers: 240, allowedIPs: 512, lanes: 1), mostAllowedIPs: 4_096)

    /// For a client on a desktop or a small server: 24 MiB, with room for 512 peers and 2,048 allowed IPs. Tunnels that are started
    /// with more allowed IPs, 20,000 at most, get as much more as those take: 42 MiB then.
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

    /// A budget of `bytes` with room for so many peers.
    /// - Parameters:
    ///   - bytes: the whole.
    ///   - peers: the most peers that can be configured, 1 to 1,048,576.
    ///   - allowedIPs: the most allowed IPs, over all peers; nil for two of each peer and 256 more.
    ///   - lanes: the most lanes; as many as there is room for, but one at least.
    /// - Throws: `.tooSmall`, which says how many bytes are needed.
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

    /// Divides `byteCount`, or what `demand` needs at least where that is more.
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

    /// The same budget with room for so many allowed IPs, ``mostAllowedIPs`` at most: larger by what they take, and everything else
    /// as it was. Lists of a country's networks have thousands, and most tunnels a few.
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
    /// What the parts of a budget have, in bytes. Regions of packets are counted whole, though pages of them that were
    /// never touched cost nothing.
    public struct Breakdown: Hashable, Sendable {
        /// Packets read from the device, of all lanes.
        public var packets = 0
        /// Datagrams to be sent, of all lanes.
        public var outgoing = 0
        /// Datagrams received, of all lanes.
        public var incoming = 0
        /// What lanes need for planning, with packets that just stopped waiting; superframes that are being split; the
        /// headers of system calls; the threads' stacks as far as they are used.
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
        /// Event loops, timers, and what the allocator needs beyond what it is asked for.
        public var reserve = 0

        /// The sum.
        public var total: Int {
            packets + outgoing + incoming + scratch + peers + allowedIPs + staged + outbox + rateLimits + management
                + reserve
        }
    }
}

/// Why there is no such budget.
public enum MemoryBudgetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// So many bytes have no room for so many peers; `needed` have.
    case tooSmall(byteCount: Int, needed: Int, peers: Int)

    /// What is too small, and what would be enough.
    public var description: String {
        switch self {
        case .tooSmall(let byteCount, let needed, let peers):
            "\(byteCount) bytes are too few for \(peers) peers; at least \(needed) bytes are needed"
        }
    }
}
