// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
public import TunnelIO

/// The packets of a tunnel. A provider reads the packets that the system sends into the tunnel, and writes the packets
/// that it delivers to the system.
///
/// A provider uses it in one of four ways. ``packets`` and ``write(_:)-([UInt8])`` transfer single packets in tasks, which
/// is the simplest. ``read(into:)`` and ``write(_:)-(PacketBatch)`` transfer batches, which is faster. ``leaseDevice()``
/// returns the interface itself, for a `PacketPort` or a data plane with its own threads such as a `Lane` or a
/// `WireGuardDevice`. ``leaseDescriptor(_:)`` returns a file descriptor, for a protocol in C or Rust.
///
/// All of them need applied settings. Before that, reading waits and the others throw `.settingsMissing`. The flow has
/// no queue of its own: unread packets stay in the interface's bounded queue, and a write accepts as much of a batch as
/// there is room for.
public final class PacketFlow: Sendable {
    private struct State {
        var device: (any TunDevice)?
        var lease: TapTun?
        var descriptor: LeasedDescriptor?
        var isClosed = false
        var dropped = 0
    }

    private let state = Mutex(State())
    private let waiters = Waiters<TunnelError> { PacketFlow.failure($0) }
    /// The writer of single packets, or `nil` before the first.
    private let outbox = Mutex<Outbox?>(nil)

    private struct Outbox: ~Copyable, @unchecked Sendable {
        let batch: PacketBatch
    }

    /// A flow without an interface yet.
    package init() {}

    /// A flow over `device`. Closing the flow closes the device.
    package convenience init(device: any TunDevice) {
        self.init()
        attach(device)
    }

    deinit { close() }

    // MARK: - For hosts

    /// Attaches the interface. Closing the flow closes it. If the flow has an interface already or is closed, the call
    /// has no effect and the caller still owns the device.
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

    /// Ends the flow and closes its interface. Waiting readers and a data plane get `.closed`. It may be called
    /// repeatedly.
    package func close() {
        let (device, lease, descriptor) = state.withLock { state in
            defer { (state.isClosed, state.device, state.lease, state.descriptor) = (true, nil, nil, nil) }
            return (state.device, state.lease, state.descriptor)
        }
        waiters.close()
        descriptor?.end()
        lease?.close()
        device?.close()
    }

    // MARK: - For providers

    /// Whether the tunnel has ended.
    public var isClosed: Bool { state.withLock { $0.isClosed } }

    /// The largest packet size in bytes.
    /// - Throws: `.settingsMissing`, `.closed`.
    public func currentMTU() throws(TunnelError) -> Int {
        let device = try requireDevice()
        return try carryOut { () throws(TunnelIOError) in try device.currentMTU() }
    }

    /// The number of written packets that the interface refused, because they were malformed or too long or the
    /// interface was down.
    public var droppedCount: Int { state.withLock { $0.dropped } }

    /// Replaces the contents of `batch` with packets that the system sent, and waits until there is at least one.
    /// - Parameter batch: A batch of at least `PacketBatch.minimumReadBytes` (128 KiB), on every host, because the MTU
    ///   may be raised while the tunnel is up. `try PacketBatch()` creates a suitable one.
    /// - Returns: The number of packets.
    /// - Throws: `.closed` if the tunnel has ended, the task is cancelled or a data plane has leased the interface;
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

    /// Writes packets to the system, from the front of the batch, while there is room. It does not wait.
    ///
    /// Afterwards written and dropped packets have length zero. Write the batch again to write the others.
    /// - Returns: The number of packets that were accepted.
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
            // A kernel's interface has its own queue and accepts or drops every packet immediately.
            let result = try device.send(batch)
            if result.dropped > 0 { state.withLock { $0.dropped += result.dropped } }
            for index in 0..<batch.count { batch[index].length = 0 }
            return result.sent + result.dropped
        }
    }

    /// Writes one packet to the system, and waits until there is room. A packet that the system refuses, such as one
    /// that is longer than the MTU, is dropped and counted.
    /// - Throws: `.settingsMissing`; `.closed` if the tunnel has ended or the task is cancelled.
    public func write(_ packet: [UInt8]) async throws(TunnelError) {
        try await waiters.next(isReader: false, unless: mayHaveRoom) { () throws(TunnelError) -> Void? in
            try writeNow(packet) ? () : nil
        }
    }

    /// - Returns: `false` if there was no room; `true` if the packet was accepted or dropped.
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

    /// Writes all packets to the system, and waits whenever there is no room.
    /// - Throws: `.settingsMissing`; `.closed` if the tunnel has ended or the task is cancelled.
    public func writeAll(_ batch: PacketBatch) async throws(TunnelError) {
        var next = 0
        try await waiters.next(isReader: false, unless: mayHaveRoom) { () throws(TunnelError) -> Void? in
            try write(batch)
            while next < batch.count, batch[next].length == 0 { next += 1 }
            return next == batch.count ? () : nil
        }
    }

    /// Lends the interface to a data plane. Meanwhile reading and writing here throws `.closed`. The data plane returns
    /// the interface with `close()`, which leaves it open for the next one.
    /// - Throws: `.settingsMissing`, `.closed`; `.alreadyRunning` while another data plane has the interface.
    public func leaseDevice() throws(TunnelError) -> any TunDevice { try leaseTap() }

    /// Lends the packets to a protocol in C, Rust or another language, as a file descriptor. Until
    /// ``LeasedDescriptor/close()``, reading and writing here throws `.closed`.
    ///
    /// If the host moves packets through the interface's descriptor (on Linux, and in an extension with
    /// `NetworkExtensionOptions.packetAccess` set to `.descriptor`), this is a duplicate of it. Otherwise, such as for the
    /// system's packet flow, it is one end of a socket pair, and a thread moves packets between its other end and the
    /// interface. The flow keeps a strong reference, so the descriptor stays valid while the tunnel is up.
    /// - Parameter format: The layout of packets that the protocol needs; `nil` if it accepts both, as `culvert.h` does.
    /// - Throws: `.settingsMissing`, `.closed`; `.alreadyRunning` while another data plane has the interface;
    ///   `.hostFailed` if the host has no descriptor of this format or the system refuses the sockets.
    public func leaseDescriptor(_ format: LeasedDescriptor.Format? = nil) throws(TunnelError) -> LeasedDescriptor {
        let lease = try leaseTap()
        let descriptor: LeasedDescriptor
        do throws(TunnelIOError) {
            descriptor = try LeasedDescriptor(lease.device, lease: lease, format)
        } catch {
            lease.close()
            throw TunnelError(.hostFailed, error.description)
        }
        let isOpen = state.withLock { state in
            if !state.isClosed { state.descriptor = descriptor }
            return !state.isClosed
        }
        guard isOpen else {
            descriptor.close()
            throw Self.ended
        }
        return descriptor
    }

    private func leaseTap() throws(TunnelError) -> TapTun {
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
        // Without this, waiting readers would wait forever.
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
