// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
public import TunnelIO

/// The packets of a tunnel: what the system sends into it is read here, and what came out of it is written here.
///
/// A provider uses it in one of three ways. ``packets`` and ``write(_:)-([UInt8])`` move one packet at a time in tasks, which is
/// the least to know. ``read(into:)`` and ``write(_:)-(PacketBatch)`` move batches, which is faster. ``takeDevice()`` gives
/// the interface itself, for a `PacketPort` or a data plane with threads of its own such as a `Lane` or a `WireGuardDevice`.
///
/// All need settings in force: before, reading waits and the others throw `.settingsMissing`. Nothing is queued here:
/// what is not read stays in the interface's own bounded queue, and a batch is written as far as there is room.
public final class PacketFlow: Sendable {
    private struct State {
        var device: (any TunDevice)?
        var lease: TapTun?
        var isClosed = false
        var dropped = 0
    }

    private let state = Mutex(State())
    private let waiters = Waiters<TunnelError> { PacketFlow.failure($0) }
    /// What single packets are written with; nil before the first.
    private let outbox = Mutex<Outbox?>(nil)

    private struct Outbox: ~Copyable, @unchecked Sendable {
        let batch: PacketBatch
    }

    /// A flow without an interface yet.
    package init() {}

    /// A flow over `device`, which it closes when it is closed.
    package convenience init(device: any TunDevice) {
        self.init()
        attach(device)
    }

    deinit { close() }

    // MARK: - For hosts

    /// Gives the flow its interface; the flow closes it when it is closed. Another time, or on a flow that is closed, it
    /// changes nothing and the device stays the caller's.
    package func attach(_ device: any TunDevice) {
        let isAttached = state.withLock { state in
            guard !state.isClosed, state.device == nil else { return false }
            state.device = device
            return true
        }
        guard isAttached else { return }
        (device as? any FlowControlledTun)?.setRoomHandler { [waiters] in waiters.wakeAll() }
        waiters.watch([device.readiness])
    }

    /// Ends the flow and closes its interface: who waits gets `.closed`, and so does a data plane. Safe to repeat.
    package func close() {
        let (device, lease) = state.withLock { state in
            defer { (state.isClosed, state.device, state.lease) = (true, nil, nil) }
            return (state.device, state.lease)
        }
        waiters.close()
        lease?.close()
        device?.close()
    }

    // MARK: - For providers

    /// Whether the tunnel has ended.
    public var isClosed: Bool { state.withLock { $0.isClosed } }

    /// The most bytes of one packet.
    /// - Throws: `.settingsMissing`, `.closed`.
    public func currentMTU() throws(TunnelError) -> Int {
        let device = try requireDevice()
        return try carryOut { () throws(TunnelIOError) in try device.currentMTU() }
    }

    /// Packets that were written and that the interface refused: malformed, too long, or it was down.
    public var droppedCount: Int { state.withLock { $0.dropped } }

    /// Fills `batch`, which is emptied first; waits until there is at least one packet.
    /// - Parameter batch: one of at least `PacketBatch.minimumReadBytes` (128 KiB), on every host: the MTU may be
    ///   raised while the tunnel is up. `try PacketBatch()` makes one that suits.
    /// - Returns: the number of packets.
    /// - Throws: `.closed` once the tunnel has ended, or when the task is cancelled or a data plane has the device;
    ///   `.batchTooSmall`.
    public func read(into batch: PacketBatch) async throws(TunnelError) -> Int {
        do throws(TunnelIOError) {
            try batch.checkReadable()
        } catch {
            throw TunnelError(.batchTooSmall, error.description, fix: "make it with PacketBatch()")
        }
        batch.removeAll()
        return try await waiters.next(unless: isUnavailable) { () throws(TunnelError) in
            guard let device = try freeDevice() else { return nil }
            let count = try carryOut { () throws(TunnelIOError) in try device.receive(into: batch) }
            return count > 0 ? count : nil
        }
    }

    /// Hands packets to the system, from the front of the batch for as long as there is room. Does not wait.
    ///
    /// Packets that were taken, dropped ones among them, have length zero afterwards; write the batch again for the rest.
    /// - Returns: how many were taken.
    /// - Throws: `.settingsMissing`, `.closed`.
    @discardableResult
    public func write(_ batch: PacketBatch) throws(TunnelError) -> Int {
        guard let device = try freeDevice() else { throw Self.missing }
        return try carryOut { () throws(TunnelIOError) in
            if let bounded = device as? any FlowControlledTun {
                let result = try bounded.sendUntilFull(batch)
                if result.dropped > 0 { state.withLock { $0.dropped += result.dropped } }
                return result.sent + result.dropped
            }
            // A kernel's interface has a queue of its own and takes or drops everything at once.
            let result = try device.send(batch)
            if result.dropped > 0 { state.withLock { $0.dropped += result.dropped } }
            for index in 0..<batch.count { batch[index].length = 0 }
            return result.sent + result.dropped
        }
    }

    /// Hands one packet to the system, and waits while the system has no room. A packet that the system refuses, such as one
    /// longer than the MTU, is dropped and counted.
    /// - Throws: `.settingsMissing`, `.closed`; also when the task is cancelled.
    public func write(_ packet: [UInt8]) async throws(TunnelError) {
        try await waiters.next(isReader: false, unless: mayHaveRoom) { () throws(TunnelError) -> Void? in
            try writeNow(packet) ? () : nil
        }
    }

    /// - Returns: whether the packet was taken, or dropped.
    private func writeNow(_ packet: [UInt8]) throws(TunnelError) -> Bool {
        try outbox.withLock { (outbox) throws(TunnelError) in
            let batch: PacketBatch
            if let present = outbox?.batch {
                batch = present
            } else {
                batch = try Self.makeBatch(PacketBatch.longestPacket)
                outbox = Outbox(batch: batch)
            }
            batch.removeAll()
            guard !packet.isEmpty, batch.append(copying: packet) != nil else {
                state.withLock { $0.dropped += 1 }
                return true
            }
            return try write(batch) > 0
        }
    }

    /// Hands all packets to the system, and waits while the system has no room.
    /// - Throws: `.settingsMissing`, `.closed`; also when the task is cancelled.
    public func writeAll(_ batch: PacketBatch) async throws(TunnelError) {
        var next = 0
        try await waiters.next(isReader: false, unless: mayHaveRoom) { () throws(TunnelError) -> Void? in
            try write(batch)
            while next < batch.count, batch[next].length == 0 { next += 1 }
            return next == batch.count ? () : nil
        }
    }

    /// The interface, for a data plane to run on. While it has it, reading and writing here throws `.closed`; it gives it
    /// back with `close()`, which leaves the interface open for the next.
    /// - Throws: `.settingsMissing`, `.closed`; `.alreadyRunning` while another data plane has it.
    public func takeDevice() throws(TunnelError) -> any TunDevice {
        let lease = try state.withLock { (state) throws(TunnelError) -> TapTun in
            if state.isClosed { throw Self.ended }
            guard let device = state.device else { throw Self.missing }
            if let lease = state.lease, !lease.isEnded {
                throw TunnelError(
                    .alreadyRunning, "a data plane has the tunnel's interface already", fix: "close it first")
            }
            let lease = TapTun(device, lease: true)
            state.lease = lease
            return lease
        }
        // Tasks that read would wait forever.
        waiters.wakeAll()
        return lease
    }

    // MARK: - Waiting

    private static let ended = TunnelError(.closed, "the tunnel has ended")
    private static let cancelled = TunnelError(.closed, "the task was cancelled")
    private static let missing = TunnelError(
        .settingsMissing, "the tunnel has no interface yet", fix: "apply settings first")

    private func requireDevice() throws(TunnelError) -> any TunDevice {
        try state.withLock { (state) throws(TunnelError) in
            if state.isClosed { throw Self.ended }
            guard let device = state.device else { throw Self.missing }
            return device
        }
    }

    /// The device, unless there is none yet.
    private func freeDevice() throws(TunnelError) -> (any TunDevice)? {
        try state.withLock { (state) throws(TunnelError) in
            if state.isClosed { throw Self.ended }
            if let lease = state.lease, !lease.isEnded {
                throw TunnelError(.closed, "a data plane has the tunnel's interface")
            }
            return state.device
        }
    }

    private func carryOut<Result>(_ body: () throws(TunnelIOError) -> Result) throws(TunnelError) -> Result {
        do throws(TunnelIOError) {
            return try body()
        } catch {
            throw Self.failure(error)
        }
    }

    private static func failure(_ error: TunnelIOError) -> TunnelError {
        error.code == .cancelled ? cancelled : TunnelError(.closed, error.description)
    }

    /// Whether reading and writing throw: the tunnel has ended, or a data plane has the device.
    private func isUnavailable() -> Bool {
        state.withLock { $0.isClosed || $0.lease?.isEnded == false }
    }

    private func mayHaveRoom() -> Bool {
        if isUnavailable() { return true }
        let device = state.withLock { $0.device }
        return (device as? any FlowControlledTun)?.hasRoom != false
    }
}
