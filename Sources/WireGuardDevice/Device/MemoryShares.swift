// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import WireGuardCore

/// The requirements of a budget, and their minimum memory.
struct MemoryDemand: Hashable {
    let peers: Int
    let allowedIPs: Int
    var lanes: Int

    static let mostPeers = 1 << 20
    static let mostAllowedIPs = 1 << 24
    static let mostLanes = 256

    init(peers: Int, allowedIPs: Int, lanes: Int) {
        self.peers = min(max(peers, 1), Self.mostPeers)
        self.allowedIPs = min(max(allowedIPs, 1), Self.mostAllowedIPs)
        self.lanes = min(max(lanes, 1), Self.mostLanes)
    }

    /// The parts that do not depend on the size of the budget.
    var fixed: MemoryBudget.Breakdown {
        var result = MemoryBudget.Breakdown()
        result.peers = peers * MemoryCost.peer
        result.allowedIPs = allowedIPs * MemoryCost.allowedIP
        result.management = ManagementLimits(peers: peers, allowedIPs: allowedIPs).byteCount
        result.reserve = MemoryCost.reserve
        return result
    }

    /// The minimum number of bytes.
    var minimumBytes: Int {
        fixed.total + lanes * MemoryCost.lane(MemoryShares.laneSizes[0]) + MemoryShares.leastStaged
            + MemoryShares.leastOutbox * MemoryCost.outboxMessage
            + MemoryShares.leastSources * MemoryCost.rateLimitedSource
    }

    /// The number of bytes for the largest batches, and queues that match them.
    var comfortableBytes: Int {
        let lane = MemoryCost.lane(MemoryShares.laneSizes[MemoryShares.laneSizes.count - 1])
        return fixed.total + lanes * lane * 5 / 2 + (8 << 20)
    }
}

/// The maximum memory of one item of each kind, in bytes, measured with glibc's allocator, including its overhead and
/// the growth of tables. A test compares them with measurements.
enum MemoryCost {
    /// A peer with three sessions, a handshake, its indices and its timer.
    static let peer = 8 << 10
    /// An entry of the table of allowed IPs.
    static let allowedIP = 336
    /// A waiting packet, without its bytes.
    static let stagedPacket = 64
    static let outboxMessage = 448
    static let rateLimitedSource = 224
    /// The used part of one thread's stack.
    static let stack = 96 << 10
    /// Loops, timers, the control thread, and the allocator.
    static let reserve = 512 << 10

    /// A lane with its thread and its memory for planning.
    static func lane(_ lane: LaneConfiguration) -> Int { lane.memoryByteCount + scratch(lane) }

    /// The views and runs of packets, and packets that no longer wait and are sealed as one batch.
    static func scratch(_ lane: LaneConfiguration) -> Int {
        lane.datagramCount * 120 + lane.packetCount * 880 + lane.outgoingRegionBytes + stack
    }
}

/// A budget's bytes, divided.
struct MemoryShares {
    private(set) var breakdown: MemoryBudget.Breakdown
    private(set) var limits = EngineLimits()
    private(set) var lane: LaneConfiguration
    let management: ManagementLimits

    static let leastStaged = 64 << 10
    static let mostStaged = 16 << 20
    static let leastOutbox = 64
    static let leastSources = 64

    /// The sizes of lanes, the smallest first.
    static let laneSizes = [
        LaneConfiguration(
            packetCount: 32, packetBytes: 128 << 10, datagramCount: 64,
            datagramBytes: 2 * LaneConfiguration.datagramSlotBytes),
        LaneConfiguration(
            packetCount: 64, packetBytes: 128 << 10, datagramCount: 128,
            datagramBytes: 4 * LaneConfiguration.datagramSlotBytes),
        LaneConfiguration(
            packetCount: 64, packetBytes: 192 << 10, datagramCount: 128,
            datagramBytes: 8 * LaneConfiguration.datagramSlotBytes),
        LaneConfiguration(
            packetCount: 135, packetBytes: 256 << 10, datagramCount: 256,
            datagramBytes: 16 * LaneConfiguration.datagramSlotBytes),
        LaneConfiguration(),
    ]

    /// - Parameter byteCount: At least the number of bytes that `demand` needs.
    init(dividing byteCount: Int, among demand: MemoryDemand) {
        management = ManagementLimits(peers: demand.peers, allowedIPs: demand.allowedIPs)
        breakdown = demand.fixed
        var left = byteCount - breakdown.total

        // Give the lanes more than half, because their batches determine the speed of the device.
        let share = left / 5 * 3 / demand.lanes
        let chosen = Self.laneSizes.last { MemoryCost.lane($0) <= share } ?? Self.laneSizes[0]
        lane = chosen
        // The sockets' queues are not part of this memory, but get a corresponding size: packets in them cause the same
        // delay as packets here.
        lane.socketQueueBytes = max(1 << 20, min(4 << 20, byteCount / 8))
        breakdown.packets = demand.lanes * chosen.packetRegionBytes
        breakdown.outgoing = demand.lanes * chosen.outgoingRegionBytes
        breakdown.incoming = demand.lanes * chosen.incomingRegionBytes
        breakdown.scratch = demand.lanes * (LaneConfiguration.systemBytes + MemoryCost.scratch(chosen))
        left -= demand.lanes * MemoryCost.lane(chosen)

        limits.peers = demand.peers
        limits.allowedIPs = demand.allowedIPs
        // If little memory is left, each queue gets its minimum, which is smaller than these fractions.
        limits.outboxMessages = max(Self.leastOutbox, min(1_024, left / 8 / MemoryCost.outboxMessage))
        limits.rateLimitedSources = max(Self.leastSources, min(16_384, left / 8 / MemoryCost.rateLimitedSource))
        breakdown.outbox = limits.outboxMessages * MemoryCost.outboxMessage
        breakdown.rateLimits = limits.rateLimitedSources * MemoryCost.rateLimitedSource
        left -= breakdown.outbox + breakdown.rateLimits

        breakdown.staged = max(Self.leastStaged, min(Self.mostStaged, left / 8 * 7))
        // Limit both the number and the bytes, because a small packet takes more memory than its bytes.
        limits.stagedPackets = breakdown.staged / (MemoryCost.stagedPacket + 256)
        limits.stagedBytes = breakdown.staged - limits.stagedPackets * MemoryCost.stagedPacket
    }
}
