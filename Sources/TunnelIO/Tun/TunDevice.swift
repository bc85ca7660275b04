// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A virtual network interface whose other side is this process: what the system routes to it, this process reads.
///
/// All methods may be called from any thread, but ``receive(into:)`` from one at a time and ``send(_:)`` from one at a
/// time. None of them blocks; a lane waits on ``readiness``.
public protocol TunDevice: AnyObject, Sendable {
    /// The interface's present name. The system may rename a device, so it is asked each time.
    func currentName() throws(TunnelIOError) -> String

    /// The most bytes that one IP packet may have on this interface.
    func currentMTU() throws(TunnelIOError) -> Int

    /// Whether the interface is up, and its MTU in bytes, right now.
    func currentLinkState() throws(TunnelIOError) -> LinkState

    /// A descriptor that polls readable when ``receive(into:)`` has something to give. Owned by the device.
    var readiness: Int32 { get }

    /// Appends packets, each one IP packet, until the device has no more or the batch has no room for another.
    ///
    /// Each packet has at least 32 free bytes in front of it and behind it in the batch's region.
    /// - Parameter batch: one of at least ``PacketBatch/minimumReadBytes``.
    /// - Returns: the number of packets appended; zero when there was none to be had.
    /// - Throws: `.deviceRemoved` when the interface is gone for good, `.closed` after ``close()``, `.invalidBatch` for a
    ///   batch that is too small.
    func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int

    /// Whether ``receive(into:)`` has something to give that ``readiness`` does not tell of: packets that arrived in one
    /// piece with others and found no room in the batch.
    var hasBufferedPackets: Bool { get }

    /// Hands every packet of nonzero length to the system.
    ///
    /// A packet that the system refuses (interface down, queue full, malformed) is dropped and counted.
    /// - Returns: how many packets were taken and how many dropped.
    /// - Throws: `.deviceRemoved` when the interface is gone for good, `.closed` after ``close()``.
    func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult

    /// A descriptor that polls readable when ``drainLinkEvents()`` has something to give; nil where the device has none.
    var linkReadiness: Int32? { get }

    /// The changes of the interface since the last call, oldest first. Does not block.
    func drainLinkEvents() -> [LinkEvent]

    /// Another queue of the same interface, a device of its own that may be used on another thread.
    ///
    /// What the system routes to the interface is spread over its queues, all packets of a flow to one of them. The
    /// interface goes when its last queue is closed.
    /// - Throws: `.unsupported` where the device has one queue only; `.deviceRemoved`, `.closed`.
    func makeQueue() throws(TunnelIOError) -> any TunDevice

    /// What the device has counted since it was opened.
    var statistics: TunStatistics { get }

    /// Closes the device; an interface that this process made and that is not persistent goes with it. Safe to repeat.
    func close()
}

extension TunnelIOError {
    /// What ``TunDevice/makeQueue()`` throws where there is one queue only.
    public static var oneQueue: TunnelIOError { TunnelIOError(.unsupported("another queue of this tunnel device")) }
}

/// A device in front of another one, to which it hands on all that it does not do itself.
///
/// All is handed on but `makeQueue()`: the new queue wants the same in front of it, which only that knows how to make. What
/// joins ``TunDevice`` one day is handed on here too, or no such device can be built.
package protocol ForwardingTun: TunDevice {
    /// The device behind this one.
    var device: any TunDevice { get }

    /// - Throws: when this one gives nothing and takes nothing any more.
    func check() throws(TunnelIOError)
}

extension ForwardingTun {
    package func currentName() throws(TunnelIOError) -> String {
        try check()
        return try device.currentName()
    }

    package func currentMTU() throws(TunnelIOError) -> Int {
        try check()
        return try device.currentMTU()
    }

    package func currentLinkState() throws(TunnelIOError) -> LinkState {
        try check()
        return try device.currentLinkState()
    }

    package func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try check()
        return try device.receive(into: batch)
    }

    package func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        try check()
        return try device.send(batch)
    }

    package var readiness: Int32 { device.readiness }
    package var hasBufferedPackets: Bool { device.hasBufferedPackets }
    package var linkReadiness: Int32? { device.linkReadiness }
    package func drainLinkEvents() -> [LinkEvent] { device.drainLinkEvents() }
    package var statistics: TunStatistics { device.statistics }
    package func close() { device.close() }
}

/// A device that reports when it is full, instead of dropping packets.
package protocol FlowControlledTun: TunDevice {
    /// Sends packets from the front of the batch until the device is full, and sets the length of each to zero. A packet that
    /// can never be sent is dropped.
    func sendUntilFull(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult

    /// Whether ``sendUntilFull(_:)`` may send a packet.
    var hasRoom: Bool { get }

    /// Sets the function that is called, on any thread, when there is room again after there was none.
    func setRoomHandler(_ handler: @escaping @Sendable () -> Void)
}

/// What went wrong with frames since a ``TunDevice`` was opened; each queue counts for itself. Packets and bytes are not counted.
public struct TunStatistics: Hashable, Sendable {
    /// Frames from the system that contradicted themselves, and were skipped.
    public var malformedFrames = 0
    /// Joined packets that the system refused, after which no more of that kind are joined.
    public var refusedSuperframes = 0

    /// All zero.
    public init() {}
}

/// What became of the packets of one ``TunDevice/send(_:)``.
public struct TunSendResult: Hashable, Sendable {
    /// Packets that the system took.
    public var sent: Int
    /// Packets that the system refused.
    public var dropped: Int

    /// A result.
    public init(sent: Int, dropped: Int) {
        self.sent = sent
        self.dropped = dropped
    }
}

/// A change of a network interface.
public enum LinkEvent: Hashable, Sendable {
    /// The interface was brought up.
    case up
    /// The interface was taken down.
    case down
    /// The interface's MTU is now this many bytes.
    case mtu(Int)
    /// The interface was deleted.
    case removed
}

/// What an interface is at one moment.
public struct LinkState: Hashable, Sendable {
    /// Whether the interface is up.
    public var isUp: Bool
    /// The most bytes of one IP packet.
    public var mtu: Int

    /// A state.
    public init(isUp: Bool, mtu: Int) {
        self.isUp = isUp
        self.mtu = mtu
    }
}
