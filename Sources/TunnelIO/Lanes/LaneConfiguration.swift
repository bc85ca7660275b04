// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The memory of a lane, and the time that it spends on one source.
///
/// A lane raises values that are too small: at least one packet and one datagram at a time, and
/// ``PacketBatch/minimumReadBytes``.
public struct LaneConfiguration: Hashable, Sendable {
    /// The most packets that are read from the device, sealed and sent at a time.
    ///
    /// Linux takes at most 65,507 bytes of joined datagrams in one message. These are 45 datagrams of an MTU of 1420, so
    /// the default fills three messages.
    public var packetCount: Int
    /// The bytes for those packets.
    public var packetBytes: Int
    /// The most datagrams that are received and opened at a time. With fewer than 64, Linux sockets do not take joined
    /// datagrams.
    public var datagramCount: Int
    /// The bytes of address space for those datagrams: 65,600 for each message of the system, which may contain one datagram
    /// or several joined ones. Only pages that were used cost memory.
    public var datagramBytes: Int
    /// The number of batches of one source that the lane moves before it serves the others, whose packets wait
    /// meanwhile. With two batches, each direction is served again after less than a millisecond.
    public var batchesPerTurn: Int
    /// The limit of each queue of a socket in the system, in bytes by the system's count; `nil` for the socket's default.
    /// Under overload, a packet waits for the whole queue: at 1 Gb/s, 1 MiB takes 8 milliseconds.
    public var socketQueueBytes: Int?
    /// The time that a lane with little traffic keeps the memory of a burst, before it returns the memory to the system.
    public var pageReturnDelay: Duration = .seconds(1)

    /// A configuration; the defaults suit a desktop or a server.
    public init(
        packetCount: Int = 135, packetBytes: Int = 256 << 10, datagramCount: Int = 512,
        datagramBytes: Int = 64 * LaneConfiguration.datagramSlotBytes, batchesPerTurn: Int = 2
    ) {
        self.packetCount = packetCount
        self.packetBytes = packetBytes
        self.datagramCount = datagramCount
        self.datagramBytes = datagramBytes
        self.batchesPerTurn = batchesPerTurn
    }

    /// The most packets or datagrams that one batch has.
    public var largestBatch: Int { max(packetCount, datagramCount, 1) }

    /// The configuration with values that a lane can work with.
    var workable: LaneConfiguration {
        var result = self
        result.packetCount = max(packetCount, 1)
        result.packetBytes = max(packetBytes, PacketBatch.minimumReadBytes)
        result.datagramCount = max(datagramCount, 1)
        result.datagramBytes = max(datagramBytes, Self.datagramSlotBytes)
        result.batchesPerTurn = max(batchesPerTurn, 1)
        return result
    }

    /// Bytes that the protocol may put around one packet.
    static let overhead = 64
    /// The bytes reserved for one datagram of any length.
    static let largestDatagram = datagramSlotBytes
    /// The address space of one message of the system.
    public static let datagramSlotBytes = 65_536 + 64

    /// Room for each packet with its overhead, and for one datagram of any size.
    var outgoingBytes: Int { packetBytes + packetCount * Self.overhead + Self.largestDatagram }
    /// A slot for each datagram that is not joined.
    var incomingBytes: Int { slotCount * Self.largestDatagram }
    private var slotCount: Int { min(datagramCount, 64, datagramBytes / Self.datagramSlotBytes) }
    /// A batch with fewer datagrams than this shows that the socket has no more.
    var fewDatagrams: Int { min(slotCount, 16) }
    /// The number of datagrams after which the lane serves the other direction.
    var datagramsPerTurn: Int { batchesPerTurn * min(datagramCount, 64) }
}
