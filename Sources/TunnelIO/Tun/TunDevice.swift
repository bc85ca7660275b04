// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A virtual network interface whose other side is this process: the process reads the packets that the system routes to it.
///
/// You can call all methods from any thread, but ``receive(into:)`` and ``send(_:)`` each from one thread at a time. None of
/// them blocks; a lane waits on ``readiness``.
public protocol TunDevice: AnyObject, Sendable {
    /// The interface's current name. The system may rename a device, so each call asks the system.
    func currentName() throws(TunnelIOError) -> String

    /// The most bytes that one IP packet may have on this interface.
    func currentMTU() throws(TunnelIOError) -> Int

    /// Whether the interface is up, and its MTU in bytes, right now.
    func currentLinkState() throws(TunnelIOError) -> LinkState

    /// A descriptor that polls readable when ``receive(into:)`` has something to give. Owned by the device.
    var readiness: Int32 { get }

    /// Appends packets, each one IP packet, until the device has no more or the batch has no room for another.
    ///
    /// Each packet has at least 32 free bytes before and after it in the batch's region.
    /// - Parameter batch: at least ``PacketBatch/minimumReadBytes`` large.
    /// - Returns: the number of packets appended; zero if there was none.
    /// - Throws: `.deviceRemoved` if the interface was removed, `.closed` after ``close()``, `.invalidBatch` if the batch is
    ///   too small.
    func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int

    /// Whether ``receive(into:)`` has packets that ``readiness`` does not report: packets of a superframe that did not fit
    /// into the batch.
    var hasBufferedPackets: Bool { get }

    /// Sends every packet of nonzero length.
    ///
    /// A packet that the system refuses (interface down, queue full, malformed) is dropped and counted.
    /// - Returns: the numbers of sent and dropped packets.
    /// - Throws: `.deviceRemoved` if the interface was removed, `.closed` after ``close()``.
    func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult

    /// A descriptor that is readable while ``drainLinkEvents()`` has events; `nil` if the device has none.
    var linkReadiness: Int32? { get }

    /// The changes of the interface since the last call, oldest first. Does not block.
    func drainLinkEvents() -> [LinkEvent]

    /// Another queue of the same interface, a separate device for another thread.
    ///
    /// The system distributes packets over the queues, all packets of a flow to one of them. The interface is removed with
    /// its last queue.
    /// - Throws: `.unsupported` if the device has only one queue; `.deviceRemoved`, `.closed`.
    func makeQueue() throws(TunnelIOError) -> any TunDevice

    /// The counters since the device was opened.
    var statistics: TunStatistics { get }

    /// Closes the device, and removes an interface that this process created and that is not persistent. You can call it more
    /// than once.
    func close()
}

extension TunnelIOError {
    /// The error of ``TunDevice/makeQueue()`` for a device with one queue.
    public static var oneQueue: TunnelIOError { TunnelIOError(.unsupported("another queue of this tunnel device")) }
}

/// A device in front of another one, to which it forwards every call that it does not implement.
///
/// It forwards everything except `makeQueue()`, since only the conforming type can wrap the new queue. A requirement
/// that is added to ``TunDevice`` must be forwarded here too; otherwise conforming types do not compile.
package protocol ForwardingTun: TunDevice {
    /// The device behind this one.
    var device: any TunDevice { get }

    /// - Throws: if this device no longer sends or receives.
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

/// Errors of frames since a ``TunDevice`` was opened; each queue has separate counters. Packets and bytes are not counted.
public struct TunStatistics: Hashable, Sendable {
    /// Inconsistent frames from the system, which were skipped.
    public var malformedFrames = 0
    /// Superframes that the system refused. After a refusal, the device pauses joining packets of that kind.
    public var refusedSuperframes = 0

    /// All zero.
    public init() {}
}

/// The result of one ``TunDevice/send(_:)``.
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

/// The state of an interface at one moment.
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
