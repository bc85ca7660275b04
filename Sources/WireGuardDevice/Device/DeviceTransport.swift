// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
import TunnelIO
import WireGuardCore

/// Connects the engine to the lanes.
///
/// The engine's lock is held only for planning and committing; sealing and opening happen outside it. A lane takes the
/// lock once per batch when it sends, twice when it receives, and once at the end of a round for the next deadline. Waiting
/// messages need it more often.
final class DeviceTransport: TunnelTransport {
    private let engine: Mutex<Engine>
    /// A copy of the engine's filter for handshake messages, so that invalid ones do not take its lock.
    private let filter = Mutex<HandshakeFilter?>(nil)
    private let mtu: Atomic<Int>
    /// The unused states of batches, as a list.
    private let unusedSteps: Mutex<DeviceSteps?>
    private let batchCapacity: Int
    /// Whether packets that waited for a session are planned but not sent yet. It is set under the engine's lock.
    private let isDraining = Atomic<Bool>(false)
    /// Other lanes wait here until the waiting packets are sent, because later packets of the same flow must not
    /// overtake them.
    private let drainGate = Monitor(())
    /// The engine's number of changed endpoints when the handler was last called.
    private let knownEndpointChanges = Atomic<UInt64>(0)
    private let roamed = Mutex<(@Sendable () -> Void)?>(nil)

    /// - Parameter batchCapacity: The maximum number of packets in a lane's batch.
    init(engine: consuming Engine, mtu: Int, batchCapacity: Int) {
        self.engine = Mutex(engine)
        self.mtu = Atomic(mtu)
        self.batchCapacity = batchCapacity
        unusedSteps = Mutex(DeviceSteps(capacity: batchCapacity))
    }

    /// Exclusive access to the engine, for configuration and inspection.
    func withEngine<R: Sendable, E: Error>(_ body: (inout Engine) throws(E) -> R) throws(E) -> R {
        try engine.withLock { (engine: inout sending Engine) throws(E) -> R in
            defer {
                let current = engine.handshakeFilter
                filter.withLock { $0 = current }
            }
            return try body(&engine)
        }
    }

    /// Sets the new MTU of the interface.
    func setMTU(_ bytes: Int) {
        mtu.store(bytes, ordering: .relaxed)
    }

    /// Sets the handler for changed endpoints of peers.
    func onRoaming(_ handler: @escaping @Sendable () -> Void) {
        roamed.withLock { $0 = handler }
    }

    /// Calls the handler if the engine has changed an endpoint. Call it without the engine's lock.
    private func reportRoaming(_ changes: UInt64) {
        guard knownEndpointChanges.load(ordering: .relaxed) != changes else { return }
        // Two lanes that report at the same time may call the handler once more than needed.
        knownEndpointChanges.store(changes, ordering: .relaxed)
        roamed.withLock { $0 }?()
    }

    // MARK: TunnelTransport

    func seal(_ packets: PacketBatch, into datagrams: PacketBatch, at now: Int64) -> Bool {
        let steps = takeSteps()
        defer { giveBack(steps) }
        let hasPending = planSeal(packets, steps, at: Instant(nanoseconds: now))
        steps.seal(packets, into: datagrams)
        return hasPending
    }

    func open(_ datagrams: PacketBatch, at now: Int64, answer: () -> Void) -> Bool {
        let steps = takeSteps()
        defer { giveBack(steps) }
        // The clock is not read again after opening, which takes too little time to matter to the timers.
        let (now, hasPending) = planOpen(datagrams, steps, at: Instant(nanoseconds: now), answer: answer)
        steps.open(datagrams)
        return commitOpen(datagrams, steps, at: now) ?? hasPending
    }

    func drain(into datagrams: PacketBatch) -> Bool {
        let steps = takeSteps()
        defer { giveBack(steps) }
        let plan = steps.drain
        let start = datagrams.tail
        let free = unsafe datagrams.freeBytes
        let room = datagrams.packetCapacity - datagrams.count
        guard let out = free.baseAddress, room > 0, free.count > 0 else { return false }
        let mtu = mtu.load(ordering: .relaxed)
        let more = engine.withLock { engine in
            guard engine.hasPending else { return false }
            // Keep 64 KiB free, because a single packet may exceed the limit.
            engine.drain(
                into: plan, maximumMessages: room, maximumBytes: max(free.count - 65_600, 1), mtu: mtu,
                at: SystemTime.now(), wall: SystemTime.wall())
            if plan.hasPackets { isDraining.store(true, ordering: .relaxed) }
            return engine.hasPending
        }
        unsafe plan.write(into: out, capacity: free.count) { offset, byteCount, endpoint in
            datagrams.append(offset: start + offset, length: byteCount, endpoint: endpoint)
        }
        plan.clear()
        return more
    }

    func drainEnded() {
        // Only the lane that calls this function sets the flag.
        guard isDraining.load(ordering: .relaxed) else { return }
        drainGate.update { _ in
            isDraining.store(false, ordering: .sequentiallyConsistent)
            return true
        }
    }

    var waitingWork: TransportWork {
        engine.withLock { TransportWork(hasDatagrams: $0.hasPending, deadline: $0.nextDeadline?.nanoseconds) }
    }

    func deadlineReached() {
        // Each new handshake is queued for sending, and the queue has room for this many.
        var served = 0
        while served < TimerConstants.maximumPeersPerDeadline {
            let piece = engine.withLock { $0.deadlineReached(at: SystemTime.now(), wall: SystemTime.wall()) }
            guard piece > 0 else { return }
            served += piece
        }
    }

    // MARK: Steps

    /// - Returns: Whether the engine has messages to send.
    private func planSeal(_ packets: PacketBatch, _ steps: DeviceSteps, at now: Instant) -> Bool {
        let views = unsafe steps.views(of: packets, slack: SendPlan.mostPadding)
        let mtu = mtu.load(ordering: .relaxed)
        while true {
            let hasPending = engine.withLock { engine -> Bool? in
                guard !isDraining.load(ordering: .relaxed) else { return nil }
                unsafe engine.planSend(views, mtu: mtu, at: now, wall: SystemTime.wall(), into: steps.send)
                return engine.hasPending
            }
            if let hasPending { return hasPending }
            drainGate.wait { _ in isDraining.load(ordering: .sequentiallyConsistent) ? nil : () }
        }
    }

    /// Plans the opening of datagrams, and answers handshakes a few at a time. A handshake costs thousands of times as
    /// much as planning data, so neither established sessions nor earlier peers must wait for all of them.
    /// - Returns: The time of the last plan, and whether the engine has messages to send.
    private func planOpen(
        _ datagrams: PacketBatch, _ steps: DeviceSteps, at now: Instant, answer: () -> Void
    ) -> (now: Instant, hasPending: Bool) {
        let views = unsafe steps.views(of: datagrams)
        var refused = steps.refuseHandshakes { filter.withLock { $0 } }
        var position = 0
        var now = now
        while true {
            let (changes, hasPending): (UInt64, Bool)
            (position, changes, hasPending) = engine.withLock { engine in
                if refused > 0 { engine.countRefusedHandshakes(refused) }
                let position = unsafe engine.planOpen(
                    views, from: position, endpoints: { datagrams[endpoint: $0] }, at: now,
                    wall: SystemTime.wall(), into: steps.receive)
                return (position, engine.statistics.endpointChanges, engine.hasPending)
            }
            reportRoaming(changes)
            guard position < views.count else { return (now, hasPending) }
            refused = 0
            answer()
            now = SystemTime.now()
        }
    }

    /// - Returns: Whether the engine has messages to send; `nil` if it was not asked.
    private func commitOpen(_ datagrams: PacketBatch, _ steps: DeviceSteps, at now: Instant) -> Bool? {
        let plan = steps.receive
        var hasPending: Bool?
        if !plan.isEmpty {
            let views = unsafe steps.views
            let (changes, isPending) = engine.withLock { engine in
                unsafe engine.commit(
                    plan, views, endpoints: { datagrams[endpoint: $0] }, at: now, wall: SystemTime.wall())
                return (engine.statistics.endpointChanges, engine.hasPending)
            }
            hasPending = isPending
            reportRoaming(changes)
        }
        for index in 0..<datagrams.count {
            let datagram = datagrams[index]
            let byteCount = plan.packetByteCount(at: index)
            datagrams[index] = PacketDescriptor(
                offset: byteCount > 0 ? datagram.offset + UInt32(ReceivePlan.packetOffset) : datagram.offset,
                length: UInt32(byteCount))
        }
        return hasPending
    }

    private func takeSteps() -> DeviceSteps {
        let unused = unusedSteps.withLock { first in
            defer { first = first?.next }
            return first
        }
        return unused ?? DeviceSteps(capacity: batchCapacity)
    }

    private func giveBack(_ steps: DeviceSteps) {
        unusedSteps.withLock { first in
            steps.next = first
            first = steps
        }
    }
}
