// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import TunnelIO
import WireGuardCore

/// The part of a client or server that lanes use. All calls are made under the transport's lock, so they must be fast.
protocol TunnelEnd: AnyObject, Sendable {
    /// Plans the packets to send.
    func planSeal(_ plan: BatchPlan, at now: Instant)
    /// Plans the datagrams to open, and handles all datagrams other than data.
    func planOpen(_ plan: BatchPlan, of datagrams: PacketBatch, at now: Instant)
    /// Determines the packets to deliver.
    func commitOpen(_ plan: BatchPlan, of datagrams: PacketBatch, at now: Instant)
    /// Performs the due actions.
    func deadlineReached(at now: Instant)
    /// The time of the next due action.
    var nextDeadline: Instant? { get }
    /// The waiting messages other than packets.
    var outbox: Outbox { get set }
}

/// Adapts an end to the interface of lanes.
///
/// The lock is held only to plan and to commit: once per outgoing batch, twice per incoming batch. Batches are sealed
/// and opened without the lock.
final class LaneTransport<End: TunnelEnd>: TunnelTransport {
    private let end: Mutex<End>
    private let plans: Mutex<[BatchPlan]>
    private let batchCapacity: Int

    /// - Parameter batchCapacity: The maximum number of packets in a lane's batch.
    init(_ end: End, batchCapacity: Int) {
        self.end = Mutex(end)
        self.batchCapacity = batchCapacity
        plans = Mutex([BatchPlan(capacity: batchCapacity)])
    }

    /// The lanes' clock, which counts while the machine sleeps.
    static var now: Instant { Instant(nanoseconds: LaneClock.now()) }

    /// Calls `body` with exclusive access to the end. If `body` adds messages to send, the caller must wake the lanes.
    func withEnd<R: Sendable>(_ body: (End, Instant) -> R) -> R {
        end.withLock { body($0, Self.now) }
    }

    // MARK: TunnelTransport

    func seal(_ packets: PacketBatch, into datagrams: PacketBatch) {
        withPlan { plan in
            planSeal(packets, plan)
            plan.seal(into: datagrams)
        }
    }

    func open(_ datagrams: PacketBatch, answer: () -> Void) {
        withPlan { plan in
            planOpen(datagrams, plan)
            plan.open()
            commitOpen(datagrams, plan)
        }
    }

    func drain(into datagrams: PacketBatch) -> Bool {
        end.withLock { end in
            while let byteCount = end.outbox.firstByteCount {
                let room = unsafe datagrams.freeBytes.count
                guard datagrams.count < datagrams.packetCapacity, byteCount <= room else {
                    return true
                }
                guard let entry = end.outbox.popFirst() else { break }
                datagrams.append(copying: entry.bytes, endpoint: entry.endpoint)
            }
            return false
        }
    }

    /// Does nothing, because this transport keeps no packets that wait for a session.
    func drainEnded() {}

    var hasPending: Bool { end.withLock { !$0.outbox.isEmpty } }

    func deadlineReached() { withEnd { $0.deadlineReached(at: $1) } }

    var nextDeadline: Int64? { end.withLock { $0.nextDeadline?.nanoseconds } }

    // MARK: Steps

    private func planSeal(_ packets: PacketBatch, _ plan: BatchPlan) {
        plan.begin(packets)
        withEnd { $0.planSeal(plan, at: $1) }
    }

    private func planOpen(_ datagrams: PacketBatch, _ plan: BatchPlan) {
        plan.begin(datagrams)
        withEnd { $0.planOpen(plan, of: datagrams, at: $1) }
    }

    private func commitOpen(_ datagrams: PacketBatch, _ plan: BatchPlan) {
        if plan.hasOpened { withEnd { $0.commitOpen(plan, of: datagrams, at: $1) } }
        plan.narrow(datagrams)
    }

    private func withPlan(_ body: (BatchPlan) -> Void) {
        let plan = plans.withLock { $0.popLast() } ?? BatchPlan(capacity: batchCapacity)
        body(plan)
        plans.withLock { $0.append(plan) }
    }
}
