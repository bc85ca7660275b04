// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelIO
import WireGuardCore

/// The engine behind the face that lanes know.
///
/// The engine's lock is held for planning and committing only; sealing and opening happen outside of it. It is taken
/// once per batch on the way out and twice on the way in, and a few times per round for what waits and for deadlines.
final class DeviceTransport: TunnelTransport {
    private let engine: Mutex<Engine>
    private let mtu: Atomic<Int>
    private let scratchPool: Mutex<[BatchScratch]>
    private let batchCapacity: Int

    /// - Parameter batchCapacity: the most packets that a lane's batch has.
    init(engine: consuming Engine, mtu: Int, batchCapacity: Int) {
        self.engine = Mutex(engine)
        self.mtu = Atomic(mtu)
        self.batchCapacity = batchCapacity
        scratchPool = Mutex([BatchScratch(capacity: batchCapacity)])
    }

    /// Exclusive access to the engine, for configuration and inspection.
    func withEngine<R: Sendable, E: Error>(_ body: (inout Engine) throws(E) -> R) throws(E) -> R {
        try engine.withLock { (engine: inout sending Engine) throws(E) -> R in try body(&engine) }
    }

    /// Takes over the interface's new MTU.
    func setMTU(_ bytes: Int) {
        mtu.store(bytes, ordering: .relaxed)
    }

    // MARK: TunnelTransport

    func seal(_ packets: PacketBatch, into datagrams: PacketBatch) {
        let scratch = takeScratch()
        defer { giveBack(scratch) }
        let views = unsafe scratch.views(of: packets)
        let now = SystemTime.now()
        let wall = SystemTime.wall()
        let mtu = mtu.load(ordering: .relaxed)
        engine.withLock { engine in
            unsafe engine.planSend(views, mtu: mtu, at: now, wall: wall, into: scratch.send)
        }
        guard !scratch.send.isEmpty else { return }
        let start = datagrams.tail
        let free = unsafe datagrams.freeBytes
        guard let out = free.baseAddress else { return }
        unsafe scratch.send.seal(views, into: out, capacity: free.count) { offset, byteCount, endpoint in
            datagrams.append(offset: start + offset, length: byteCount, endpoint: DatagramEndpoint(endpoint))
        }
    }

    func open(_ datagrams: PacketBatch) {
        let scratch = takeScratch()
        defer { giveBack(scratch) }
        let views = unsafe scratch.views(of: datagrams)
        let now = SystemTime.now()
        let wall = SystemTime.wall()
        let plan = scratch.receive
        engine.withLock { engine in
            unsafe engine.planOpen(
                views, endpoints: { Endpoint(datagrams[endpoint: $0]) }, at: now, wall: wall, into: plan)
        }
        if !plan.isEmpty {
            unsafe plan.open(views)
            engine.withLock { engine in
                unsafe engine.commit(
                    plan, views, endpoints: { Endpoint(datagrams[endpoint: $0]) }, at: now, wall: wall)
            }
        }
        for index in 0..<datagrams.count {
            let datagram = datagrams[index]
            let byteCount = plan.packetByteCount(at: index)
            datagrams[index] = PacketDescriptor(
                offset: byteCount > 0 ? datagram.offset + UInt32(ReceivePlan.packetOffset) : datagram.offset,
                length: UInt32(byteCount))
        }
    }

    func drain(into datagrams: PacketBatch) -> Bool {
        let scratch = takeScratch()
        defer { giveBack(scratch) }
        let plan = scratch.drain
        let start = datagrams.tail
        let free = unsafe datagrams.freeBytes
        let room = datagrams.packetCapacity - datagrams.count
        guard let out = free.baseAddress, room > 0, free.count > 0 else { return false }
        let mtu = mtu.load(ordering: .relaxed)
        let more = engine.withLock { engine in
            guard engine.hasPending else { return false }
            // Sixty-four kilobytes are kept free, since one packet may go beyond the limit when it is alone.
            engine.drain(
                into: plan, maximumMessages: room, maximumBytes: max(free.count - 65_600, 1), mtu: mtu,
                at: SystemTime.now(), wall: SystemTime.wall())
            return engine.hasPending
        }
        unsafe plan.write(into: out, capacity: free.count) { offset, byteCount, endpoint in
            datagrams.append(offset: start + offset, length: byteCount, endpoint: DatagramEndpoint(endpoint))
        }
        plan.clear()
        return more
    }

    func deadlineReached() {
        engine.withLock { $0.deadlineReached(at: SystemTime.now(), wall: SystemTime.wall()) }
    }

    var nextDeadline: Int64? {
        engine.withLock { $0.nextDeadline?.nanoseconds }
    }

    // MARK: Scratch

    private func takeScratch() -> BatchScratch {
        scratchPool.withLock { $0.popLast() } ?? BatchScratch(capacity: batchCapacity)
    }

    private func giveBack(_ scratch: BatchScratch) {
        scratchPool.withLock { $0.append(scratch) }
    }
}

/// What one lane needs for one batch at a time. Made once per lane and used again and again.
@safe
private final class BatchScratch: @unchecked Sendable {
    // Unchecked: whoever took it from the pool is its only user.
    let send = SendPlan()
    let receive: ReceivePlan
    let drain = DrainPlan()
    private let storage: UnsafeMutablePointer<PacketView>
    private let capacity: Int

    init(capacity: Int) {
        self.capacity = capacity
        receive = ReceivePlan(capacity: capacity)
        unsafe storage = .allocate(capacity: capacity)
    }

    deinit { unsafe storage.deallocate() }

    /// Views of the batch's packets, valid until the next call.
    @unsafe
    func views(of batch: PacketBatch) -> UnsafeBufferPointer<PacketView> {
        let count = min(batch.count, capacity)
        for index in 0..<count {
            let descriptor = batch[index]
            unsafe (storage + index).initialize(
                to: PacketView(base: batch.base + Int(descriptor.offset), count: Int(descriptor.length)))
        }
        return unsafe UnsafeBufferPointer(start: storage, count: count)
    }
}
