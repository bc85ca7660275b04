// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization

/// What one of several lanes does.
struct LaneRole: OptionSet {
    let rawValue: UInt8

    /// From the device to the network.
    static let outbound = LaneRole(rawValue: 1)
    /// From the network to the device.
    static let inbound = LaneRole(rawValue: 2)
    /// What goes by time, and what waits to be sent; one lane has these duties.
    static let duties = LaneRole(rawValue: 4)

    static let all: LaneRole = [.outbound, .inbound, .duties]
}

/// How the other lanes call the one that has the duties.
final class LaneDuties: Sendable {
    private let loop: EventLoop
    /// The deadline that the lane with the duties waits for; the greatest number for none, and while it is being found.
    private let armed = Atomic<Int64>(.max)

    init(loop: EventLoop) {
        self.loop = loop
    }

    /// Called before the transport is asked for its deadline, so that one that moves forward meanwhile is noticed by who
    /// moves it.
    func willArm() {
        armed.store(.max, ordering: .sequentiallyConsistent)
    }

    func didArm(_ deadline: Int64?) {
        armed.store(deadline ?? .max, ordering: .sequentiallyConsistent)
    }

    /// Wakes the lane with the duties if there is something for it to do or an earlier deadline to wait for.
    func notice(_ transport: any TunnelTransport) {
        if transport.hasPending { return loop.wake() }
        guard let deadline = transport.nextDeadline else { return }
        if deadline < armed.load(ordering: .sequentiallyConsistent) { loop.wake() }
    }
}
