// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization

/// Requests packets from a packet flow, one request at a time, for the device that reads now.
///
/// A request cannot be withdrawn, and outlives its device: its packets go to the device that reads then, or are dropped if
/// there is none.
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
            // Packets may arrive for hours: each callback releases its own objects.
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
