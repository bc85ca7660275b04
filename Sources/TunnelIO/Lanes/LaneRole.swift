// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// The work of one lane of a group.
struct LaneRole: OptionSet {
    let rawValue: UInt8

    /// Moves packets from the device to the network.
    static let outbound = LaneRole(rawValue: 1)
    /// Moves packets from the network to the device.
    static let inbound = LaneRole(rawValue: 2)
    /// Handles timers, and packets that wait to be sent. Only one lane has these duties.
    static let duties = LaneRole(rawValue: 4)

    static let all: LaneRole = [.outbound, .inbound, .duties]
}

/// Lets the other lanes call the lane that has the duties.
final class LaneDuties: Sendable {
    private let loop: EventLoop
    /// The deadline that the lane with the duties waits for; `Int64.max` if there is none, or while it is being computed.
    private let armed = Atomic<Int64>(.max)

    init(loop: EventLoop) {
        self.loop = loop
    }

    /// Call this before you read the transport's deadline. A thread that moves the deadline forward meanwhile then wakes the
    /// lane.
    func willArm() {
        armed.store(.max, ordering: .sequentiallyConsistent)
    }

    func didArm(_ deadline: Int64?) {
        armed.store(deadline ?? .max, ordering: .sequentiallyConsistent)
    }

    /// Wakes the lane with the duties if there is something for it to do or an earlier deadline to wait for.
    func notice(_ transport: any TunnelTransport) {
        let work = transport.waitingWork
        if work.hasDatagrams { return loop.wake() }
        guard let deadline = work.deadline else { return }
        if deadline < armed.load(ordering: .sequentiallyConsistent) { loop.wake() }
    }
}
