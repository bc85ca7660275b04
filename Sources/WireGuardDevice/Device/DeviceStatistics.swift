// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
public import TunnelIO
public import WireGuardCore

/// The counters of a device since it was made.
public struct DeviceStatistics: Hashable, Sendable {
    /// The counters of the protocol engine.
    public var engine: EngineStatistics
    /// The packets that were moved between device and network.
    public var lane: LaneStatistics
    /// The datagrams that the sockets dropped before a lane read them.
    public var sockets: DatagramReceiveDrops

    package init(
        engine: EngineStatistics = EngineStatistics(), lane: LaneStatistics = LaneStatistics(),
        sockets: DatagramReceiveDrops = DatagramReceiveDrops()
    ) {
        (self.engine, self.lane, self.sockets) = (engine, lane, sockets)
    }

    /// The packets and datagrams that the device dropped, by cause.
    public var drops: DropCounters {
        var drops = DropCounters()
        drops.add(engine, by: EngineStatistics.dropCauses)
        drops.add(lane, by: LaneStatistics.dropCauses)
        drops.add(sockets, by: DatagramReceiveDrops.dropCauses)
        return drops
    }
}

extension DeviceStatistics: CustomStringConvertible {
    /// Packets and bytes each way, and the drops by cause, in one line.
    public var description: String {
        "sent \(lane.toNetwork.packets) datagrams of \(lane.toNetwork.bytes) bytes, received "
            + "\(lane.fromNetwork.packets) of \(lane.fromNetwork.bytes); handshakes \(engine.handshakesCompleted); "
            + "dropped: \(drops)"
    }
}

extension WireGuardDevice {
    /// The counters since the device was created. Any thread may read them; they cost nothing per packet.
    public var statistics: DeviceStatistics {
        let sockets = operations.withLock { state in
            var drops = state.socketDrops
            for sockets in state.sockets { drops.add(sockets) }
            return drops
        }
        return DeviceStatistics(engine: engineStatistics, lane: laneStatistics, sockets: sockets)
    }
}
