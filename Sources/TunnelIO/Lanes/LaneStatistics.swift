// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The packets that a lane has moved and dropped since it was created.
public struct LaneStatistics: Hashable, Sendable {
    /// The counters of one direction.
    public struct Flow: Hashable, Sendable {
        /// Packets or datagrams.
        public var packets = 0
        /// Their bytes.
        public var bytes = 0
        /// The batches of these packets.
        public var batches = 0

        /// Nothing yet.
        public init() {}
    }

    /// Packets read from the device.
    public var fromDevice = Flow()
    /// Packets that the device accepted. The bytes are those of all packets offered to it.
    public var toDevice = Flow()
    /// Datagrams received.
    public var fromNetwork = Flow()
    /// Datagrams sent.
    public var toNetwork = Flow()
    /// Packets that the device refused.
    public var droppedByDevice = 0
    /// Datagrams that the system did not send.
    public var droppedByNetwork = 0
    /// Datagrams of an address family for which the lane has no socket.
    public var droppedWithoutSocket = 0
    /// Datagrams that were dropped before they reached a batch: the socket's queue was full, or they were too long.
    public var droppedBySocket = 0
    /// Inconsistent frames from the device, which were skipped.
    public var malformedFromDevice = 0
    /// The number of times that the lane returned memory to the system after a burst.
    public var pageReturns = 0
    /// The `errno` of the last datagram that was not sent, or zero if all were sent.
    public var lastSendError: Int32 = 0

    /// Nothing yet.
    public init() {}

    /// Adds the counters of another lane.
    package mutating func add(_ other: LaneStatistics) {
        fromDevice.add(other.fromDevice)
        toDevice.add(other.toDevice)
        fromNetwork.add(other.fromNetwork)
        toNetwork.add(other.toNetwork)
        droppedByDevice &+= other.droppedByDevice
        droppedByNetwork &+= other.droppedByNetwork
        droppedWithoutSocket &+= other.droppedWithoutSocket
        droppedBySocket &+= other.droppedBySocket
        malformedFromDevice &+= other.malformedFromDevice
        pageReturns &+= other.pageReturns
        if other.lastSendError != 0 { lastSendError = other.lastSendError }
    }
}

extension LaneStatistics {
    /// The drop causes of lanes. ``droppedBySocket`` is not one of them: the sockets count it by cause.
    package static let dropCauses: [DropCause<Self, Int>] = [
        ("malformed frames", \.malformedFromDevice, "Inconsistent frames from the TUN device."),
        (
            "refused by device", \.droppedByDevice,
            "Packets that the TUN device refused, such as when its queue was full."
        ),
        (
            "refused by network", \.droppedByNetwork,
            "Datagrams that the system refused to send: no buffers, no route, or too large for the path."
        ),
        ("no socket", \.droppedWithoutSocket, "Datagrams to send in an address family without a socket."),
    ]
}

extension LaneStatistics.Flow {
    fileprivate mutating func add(_ other: LaneStatistics.Flow) {
        packets &+= other.packets
        bytes &+= other.bytes
        batches &+= other.batches
    }
}

/// The counters of a lane. Only its thread changes them, so that no packet waits for a reader. Any thread reads them.
struct LaneCounts: ~Copyable {
    /// A number that one thread changes.
    struct Counter: ~Copyable {
        private let value = Atomic<Int>(0)

        var count: Int { value.load(ordering: .relaxed) }

        @inline(__always)
        func add(_ amount: Int) { set(count &+ amount) }

        @inline(__always)
        func set(_ count: Int) { value.store(count, ordering: .relaxed) }
    }

    /// The counters of one direction.
    struct Flow: ~Copyable {
        let packets = Counter()
        let bytes = Counter()
        let batches = Counter()

        var statistics: LaneStatistics.Flow {
            var flow = LaneStatistics.Flow()
            flow.packets = packets.count
            flow.bytes = bytes.count
            flow.batches = batches.count
            return flow
        }
    }

    let fromDevice = Flow()
    let toDevice = Flow()
    let fromNetwork = Flow()
    let toNetwork = Flow()
    let droppedByDevice = Counter()
    let droppedByNetwork = Counter()
    let droppedWithoutSocket = Counter()
    let pageReturns = Counter()
    let lastSendError = Counter()

    /// The present numbers, without those that the device and the sockets count.
    var statistics: LaneStatistics {
        var statistics = LaneStatistics()
        statistics.fromDevice = fromDevice.statistics
        statistics.toDevice = toDevice.statistics
        statistics.fromNetwork = fromNetwork.statistics
        statistics.toNetwork = toNetwork.statistics
        statistics.droppedByDevice = droppedByDevice.count
        statistics.droppedByNetwork = droppedByNetwork.count
        statistics.droppedWithoutSocket = droppedWithoutSocket.count
        statistics.pageReturns = pageReturns.count
        statistics.lastSendError = Int32(truncatingIfNeeded: lastSendError.count)
        return statistics
    }
}
