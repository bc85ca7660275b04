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

    // The ends read the clock under the lock, so that no call has an earlier time than the call before it.

    func seal(_ packets: PacketBatch, into datagrams: PacketBatch, at _: Int64) -> Bool {
        withPlan { plan in
            plan.begin(packets)
            let hasDatagrams = withEnd { end, now in
                end.planSeal(plan, at: now)
                return !end.outbox.isEmpty
            }
            plan.seal(into: datagrams)
            return hasDatagrams
        }
    }

    func open(_ datagrams: PacketBatch, at _: Int64, answer: () -> Void) -> Bool {
        withPlan { plan in
            plan.begin(datagrams)
            var hasDatagrams = withEnd { end, now in
                end.planOpen(plan, of: datagrams, at: now)
                return !end.outbox.isEmpty
            }
            plan.open()
            if plan.hasOpened {
                hasDatagrams = withEnd { end, now in
                    end.commitOpen(plan, of: datagrams, at: now)
                    return !end.outbox.isEmpty
                }
            }
            plan.narrow(datagrams)
            return hasDatagrams
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

    var waitingWork: TransportWork {
        end.withLock { TransportWork(hasDatagrams: !$0.outbox.isEmpty, deadline: $0.nextDeadline?.nanoseconds) }
    }

    func deadlineReached() { withEnd { $0.deadlineReached(at: $1) } }

    // MARK: Steps

    private func withPlan<R>(_ body: (BatchPlan) -> R) -> R {
        let plan = plans.withLock { $0.popLast() } ?? BatchPlan(capacity: batchCapacity)
        defer { plans.withLock { $0.append(plan) } }
        return body(plan)
    }
}
