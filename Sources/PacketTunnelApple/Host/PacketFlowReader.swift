// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization

/// Asks a packet flow for packets, once at a time, for whichever device reads now.
///
/// What was asked for cannot be taken back, and outlives the device that asked: it goes to the one that reads by then, and
/// nowhere if there is none.
@safe
final class PacketFlowReader: @unchecked Sendable {
    private struct State {
        weak var sink: PacketFlowTun?
        var isAsking = false
    }

    // "Instances of this class are thread safe", says the system's documentation.
    let flow: NEPacketTunnelFlow
    private let state = Mutex(State())

    init(_ flow: NEPacketTunnelFlow) {
        self.flow = flow
    }

    /// Asks for packets for `device`, unless that has been done already.
    func ask(for device: PacketFlowTun) {
        let isNew = state.withLock { state in
            state.sink = device
            defer { state.isAsking = true }
            return !state.isAsking
        }
        guard isNew else { return }
        flow.readPackets { [weak self] packets, _ in
            // Packets may come for hours: what each callback leaves behind goes with it.
            autoreleasepool { self?.deliver(packets) }
        }
    }

    private func deliver(_ packets: [Data]) {
        let sink = state.withLock { state in
            state.isAsking = false
            return state.sink
        }
        sink?.accept(packets)
    }
}
