// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// Reads and writes packets of a TUN device, one at a time or in batches, with or without waiting.
///
/// A ``Lane`` is the fast way to move packets; this is the convenient one, for tools, tests, and your own protocols. You can
/// call every method from any thread, several at once: each packet goes to one caller. While a port is in use, do not receive
/// from its device directly.
///
/// Packets, ``interrupt()``, ``close()``, the removal of the device and a timeout end a wait. Close the port, not the device:
/// closing the device wakes no waiter.
public final class PacketPort: Sendable {
    /// The device.
    public let device: any TunDevice

    /// Room for one packet. Further packets stay in the device, for the next caller.
    private let inbox: Mutex<Inbox>
    private let outbox: Mutex<Outbox>
    private let phase = Mutex(Phase())
    /// Readable while no caller should wait: briefly when a packet is available that no descriptor reports, and as long as
    /// the port is interrupted or closed.
    private let wake: WakeSignal
    let waiters: Waiters<TunnelIOError>

    private struct Phase {
        var isClosed = false
        var isInterrupted = false
        /// Threads that wait.
        var blocked = 0
        /// Whether `wake` is raised for a packet.
        var isHinted = false

        var mayWait: Bool { !isClosed && !isInterrupted }
    }

    private struct Inbox: ~Copyable, @unchecked Sendable {
        let batch: PacketBatch
    }

    private struct Outbox: ~Copyable, @unchecked Sendable {
        let batch: PacketBatch
    }

    /// Creates a port on `device`. It closes the device when it is closed or released.
    ///
    /// - Parameters:
    ///   - device: the source and the destination of the packets.
    ///   - loop: the event loop of the asynchronous calls. The caller runs it, and stops it only after the port was closed.
    ///     `nil`: the port starts a thread at the first such call.
    /// - Throws: `.outOfMemory`, or `.eventLoop` if the system has no descriptors left.
    public init(_ device: any TunDevice, loop: EventLoop? = nil) throws(TunnelIOError) {
        let inbox = try PacketBatch(packetCapacity: 1, byteCapacity: PacketBatch.minimumReadBytes)
        let outbox = try PacketBatch(packetCapacity: 1, byteCapacity: 1 << 16)
        wake = try WakeSignal()
        self.device = device
        self.inbox = Mutex(Inbox(batch: inbox))
        self.outbox = Mutex(Outbox(batch: outbox))
        waiters = Waiters(descriptors: [device.readiness], loop: loop) { $0 }
    }

    deinit {
        close()
    }

    // MARK: - Receiving

    /// The next packet, if there is one now.
    /// - Throws: `.interrupted`, `.closed`, `.deviceRemoved`.
    public func receiveNow() throws(TunnelIOError) -> [UInt8]? {
        try unsafe takeOne { unsafe Array($0) }
    }

    /// Waits for the next packet.
    /// - Parameter timeout: the longest wait; `nil` for no limit.
    /// - Returns: `nil` after the timeout.
    /// - Throws: `.interrupted`, `.closed` or `.deviceRemoved`, each immediately, even during the wait.
    public func receive(timeout: Duration? = nil) throws(TunnelIOError) -> [UInt8]? {
        try waiting(timeout) { () throws(TunnelIOError) in try receiveNow() }
    }

    /// Waits for the next packet and writes it to `buffer`.
    /// - Returns: the length of the packet, which exceeds that of the buffer if the packet was truncated; `nil` after
    ///   the timeout.
    /// - Throws: as ``receive(timeout:)``.
    public func receive(
        into buffer: UnsafeMutableRawBufferPointer, timeout: Duration? = nil
    ) throws(TunnelIOError) -> Int? {
        try unsafe receive(into: [buffer], timeout: timeout)
    }

    /// Waits for the next packet and writes it to `buffers`, each filled before the next one.
    /// - Returns: the length of the packet, which exceeds that of all buffers if the packet was truncated; `nil` after
    ///   the timeout.
    /// - Throws: as ``receive(timeout:)``.
    package func receive(
        into buffers: [UnsafeMutableRawBufferPointer], timeout: Duration? = nil
    ) throws(TunnelIOError) -> Int? {
        try waiting(timeout) { () throws(TunnelIOError) in
            try unsafe takeOne { packet in
                var rest = unsafe packet[...]
                for index in unsafe buffers.indices {
                    let buffer = unsafe buffers[index]
                    let part = unsafe rest.prefix(buffer.count)
                    unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: part))
                    unsafe rest = rest.dropFirst(part.count)
                }
                return packet.count
            }
        }
    }

    /// Waits for packets, and appends as many as are available and fit into the batch.
    /// - Parameters:
    ///   - batch: at least ``PacketBatch/minimumReadBytes`` large.
    ///   - timeout: the longest wait for the first packet; `nil` for no limit, zero for no wait.
    /// - Returns: the number of packets; zero after the timeout, or if the batch has no room for another packet of any size.
    /// - Throws: as ``receive(timeout:)``; `.invalidBatch` if the batch is too small.
    public func receive(into batch: PacketBatch, timeout: Duration? = nil) throws(TunnelIOError) -> Int {
        try batch.checkReadable()
        // Without room, the wait would never end: the device stays readable, but cannot append a packet.
        guard batch.nextStart() != nil else { return 0 }
        return try waiting(timeout) { () throws(TunnelIOError) in try receive(into: batch) } ?? 0
    }

    /// - Returns: `nil` if there is none.
    private func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int? {
        try check()
        let count = try inbox.withLock { _ throws(TunnelIOError) in try device.receive(into: batch) }
        passOn()
        return count > 0 ? count : nil
    }

    @unsafe
    private func takeOne<Result>(
        _ body: (UnsafeRawBufferPointer) -> Result
    ) throws(TunnelIOError) -> Result? {
        try check()
        let result = try inbox.withLock { inbox throws(TunnelIOError) -> Result? in
            inbox.batch.removeAll()
            guard try device.receive(into: inbox.batch) > 0 else { return nil }
            return unsafe body(UnsafeRawBufferPointer(inbox.batch.bytes(of: 0)))
        }
        passOn()
        return result
    }

    /// Wakes other waiters if the device has packets that no descriptor reports.
    private func passOn() {
        guard device.hasBufferedPackets else { return }
        phase.withLock { phase in
            guard phase.mayWait, phase.blocked > 0, !phase.isHinted else { return }
            phase.isHinted = true
            wake.raise()
        }
        waiters.wakeAll()
    }

    func check() throws(TunnelIOError) {
        let (isClosed, isInterrupted) = phase.withLock { ($0.isClosed, $0.isInterrupted) }
        if isClosed { throw TunnelIOError(.closed) }
        if isInterrupted { throw TunnelIOError(.interrupted) }
    }

    /// Calls `attempt` until it returns a result or the time is over, and waits between the calls.
    private func waiting<Result>(
        _ timeout: Duration?, _ attempt: () throws(TunnelIOError) -> Result?
    ) throws(TunnelIOError) -> Result? {
        let deadline = timeout.map { LaneClock.deadline(after: $0) }
        while true {
            if let result = try attempt() { return result }
            if timeout == .zero { return nil }
            // `waitOnce` ends this thread's wait before the next attempt, so `passOn` offers the packets that the
            // attempt leaves to the other waiting threads.
            guard try waitOnce(until: deadline) else { return try attempt() }
        }
    }

    /// - Returns: false if the deadline has passed.
    private func waitOnce(until deadline: Int64?) throws(TunnelIOError) -> Bool {
        phase.withLock { $0.blocked += 1 }
        defer { endWait() }
        // Another thread may have left packets before this thread was counted as waiting.
        if device.hasBufferedPackets { return true }
        return try DescriptorWait.wait(device.readiness, wake.descriptor, until: deadline)
    }

    /// Threads that wait, or are about to.
    var blockedThreads: Int { phase.withLock { $0.blocked } }

    private func endWait() {
        phase.withLock { phase in
            phase.blocked -= 1
            guard phase.isHinted else { return }
            phase.isHinted = false
            if phase.mayWait { wake.clear() }
        }
    }

    // MARK: - Sending

    /// Sends a packet. It never waits: a TUN device accepts a packet immediately or not at all.
    /// - Returns: false if the system refused it: the interface is down, its queue is full, or it is not an IP packet.
    /// - Throws: `.closed`, `.deviceRemoved`.
    @discardableResult
    public func send(_ packet: [UInt8]) throws(TunnelIOError) -> Bool {
        try unsafe sendPieces(packet.count) { out in unsafe out.copyBytes(from: packet) }
    }

    /// Sends a packet that is in several pieces of memory, as ``send(_:)-([UInt8])`` does.
    @discardableResult
    package func send(
        gathering pieces: [UnsafeRawBufferPointer]
    ) throws(TunnelIOError) -> Bool {
        var count = 0
        for index in unsafe pieces.indices { count += unsafe pieces[index].count }
        return try unsafe sendPieces(count) { out in
            var rest = unsafe out[...]
            for index in unsafe pieces.indices {
                let piece = unsafe pieces[index]
                unsafe UnsafeMutableRawBufferPointer(rebasing: rest).copyMemory(from: piece)
                unsafe rest = rest.dropFirst(piece.count)
            }
        }
    }

    /// Sends every packet of nonzero length.
    /// - Returns: the numbers of packets that the system accepted and refused.
    /// - Throws: `.closed`, `.deviceRemoved`.
    public func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        try checkOpen()
        return try outbox.withLock { _ throws(TunnelIOError) in try device.send(batch) }
    }

    private func sendPieces(
        _ count: Int, _ fill: (UnsafeMutableRawBufferPointer) -> Void
    ) throws(TunnelIOError) -> Bool {
        try checkOpen()
        return try outbox.withLock { outbox throws(TunnelIOError) in
            outbox.batch.removeAll()
            // Nothing longer is an IP packet.
            guard count > 0, count <= 65_535, outbox.batch.append(offset: 0, length: count) != nil else { return false }
            unsafe fill(outbox.batch.bytes(of: 0))
            return try device.send(outbox.batch).sent == 1
        }
    }

    private func checkOpen() throws(TunnelIOError) {
        if phase.withLock({ $0.isClosed }) { throw TunnelIOError(.closed) }
    }

    // MARK: - Stopping

    /// Makes current and later receive calls throw `.interrupted`, until ``resetInterrupt()``.
    ///
    /// No packet is lost. Sending continues.
    public func interrupt() {
        phase.withLock { phase in
            guard phase.mayWait else { return }
            phase.isInterrupted = true
            wake.raise()
        }
        waiters.wakeAll()
    }

    /// Allows receiving again. A call that is being woken may still throw.
    public func resetInterrupt() {
        phase.withLock { phase in
            guard phase.isInterrupted else { return }
            phase.isInterrupted = false
            if !phase.isClosed, !phase.isHinted { wake.clear() }
        }
    }

    /// Whether receiving is interrupted.
    public var isInterrupted: Bool { phase.withLock { $0.isInterrupted } }

    /// Closes the port and its device. Waiting calls throw `.closed` immediately. You can call it more than once.
    public func close() {
        let isFirst = phase.withLock { phase in
            guard !phase.isClosed else { return false }
            phase.isClosed = true
            wake.raise()
            return true
        }
        guard isFirst else { return }
        // Before the device is closed, since another file may then get its descriptor number.
        waiters.close()
        device.close()
    }
}

extension LaneClock {
    /// The time `duration` from now; the latest representable time if that overflows.
    package static func deadline(after duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        let (whole, isTooLong) = seconds.multipliedReportingOverflow(by: nanosecondsPerSecond)
        guard !isTooLong else { return seconds < 0 ? .min : .max }
        let (sum, isOver) = now().addingReportingOverflow(whole)
        guard !isOver else { return seconds < 0 ? .min : .max }
        let (deadline, isLate) = sum.addingReportingOverflow(attoseconds / 1_000_000_000)
        return isLate ? .max : deadline
    }
}
