// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
internal import TunnelIO

/// The interface of a ``PacketFlow`` while a data plane has it: closing it gives the interface back.
final class FlowDevice: TunDevice {
    private let device: any TunDevice
    private let ended = Atomic<Bool>(false)

    init(_ device: any TunDevice) {
        self.device = device
    }

    var isEnded: Bool { ended.load(ordering: .acquiring) }

    func end() {
        ended.store(true, ordering: .releasing)
    }

    private func check() throws(TunnelIOError) {
        if isEnded { throw TunnelIOError(.closed) }
    }

    func currentName() throws(TunnelIOError) -> String {
        try check()
        return try device.currentName()
    }

    func currentMTU() throws(TunnelIOError) -> Int {
        try check()
        return try device.currentMTU()
    }

    func currentLinkState() throws(TunnelIOError) -> LinkState {
        try check()
        return try device.currentLinkState()
    }

    var readiness: Int32 { device.readiness }

    func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try check()
        return try device.receive(into: batch)
    }

    var hasBufferedPackets: Bool { device.hasBufferedPackets }

    func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        try check()
        return try device.send(batch)
    }

    var linkReadiness: Int32? { device.linkReadiness }

    func drainLinkEvents() -> [LinkEvent] { device.drainLinkEvents() }

    func close() { end() }
}
