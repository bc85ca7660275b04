// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
internal import TunnelIO

/// The interface of a ``PacketFlow`` while a data plane has it: closing it gives the interface back.
final class FlowDevice: ForwardingTun {
    let device: any TunDevice
    private let ended = Atomic<Bool>(false)

    init(_ device: any TunDevice) {
        self.device = device
    }

    var isEnded: Bool { ended.load(ordering: .acquiring) }

    func check() throws(TunnelIOError) {
        if isEnded { throw TunnelIOError(.closed) }
    }

    /// The data plane's own, which closes it: it is not the one that the flow has.
    func makeQueue() throws(TunnelIOError) -> any TunDevice {
        try check()
        return try device.makeQueue()
    }

    func close() { ended.store(true, ordering: .releasing) }
}
