// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkExtension
import PacketTunnel
import Synchronization

/// Requests packets from a packet flow, one request at a time, for the device that currently reads.
///
/// A request cannot be withdrawn, so it may outlast its device. Its packets are passed to the device that reads then,
/// or dropped if there is none.
@safe
final class PacketFlowReader: @unchecked Sendable {
    private struct State {
        weak var sink: PacketFlowTun?
        var isAsking = false
    }

    // The system's documentation states: "Instances of this class are thread safe".
    let flow: NEPacketTunnelFlow
    private let state = Mutex(State())

    init(_ flow: NEPacketTunnelFlow) {
        self.flow = flow
    }

    /// Requests packets for `device`, unless a request is pending.
    func ask(for device: PacketFlowTun) {
        let isNew = state.withLock { state in
            state.sink = device
            defer { state.isAsking = true }
            return !state.isAsking
        }
        guard isNew else { return }
        flow.readPackets { [weak self] packets, _ in
            // Packets may arrive for hours, so each callback releases its own objects.
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
