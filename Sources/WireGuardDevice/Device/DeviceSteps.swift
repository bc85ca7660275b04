// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO
import WireGuardCore

/// The state of a batch between its steps. It is created once and reused for each batch.
@safe
final class DeviceSteps: @unchecked Sendable {
    // Unchecked: only the owner of the batch uses it.
    let send = SendPlan()
    let receive: ReceivePlan
    let drain = DrainPlan()
    /// The next of the unused states; the lock of the transport protects it.
    var next: DeviceSteps?
    private let storage: UnsafeMutablePointer<PacketView>
    private let capacity: Int
    private var count = 0

    init(capacity: Int) {
        self.capacity = capacity
        receive = ReceivePlan(capacity: capacity)
        unsafe storage = .allocate(capacity: capacity)
    }

    deinit { unsafe storage.deallocate() }

    /// Returns views of the batch's packets.
    /// - Parameter slack: The number of bytes after each packet that must also belong to the batch. A packet without
    ///   them gets an empty view, so that no step writes beyond the batch.
    @unsafe
    func views(of batch: PacketBatch, slack: Int = 0) -> UnsafeBufferPointer<PacketView> {
        count = min(batch.count, capacity)
        let end = batch.byteCapacity - slack
        for index in 0..<count {
            let descriptor = batch[index]
            let (offset, length) = (Int(descriptor.offset), Int(descriptor.length))
            unsafe (storage + index).initialize(
                to: PacketView(base: batch.base + offset, count: offset + length <= end ? length : 0))
        }
        return unsafe views
    }

    /// The views, which are valid until the next batch.
    @unsafe
    var views: UnsafeBufferPointer<PacketView> { unsafe UnsafeBufferPointer(start: storage, count: count) }

    /// Empties the views of handshake messages that are not for this device.
    /// - Returns: Their number.
    func refuseHandshakes(with filter: () -> HandshakeFilter?) -> Int {
        unsafe HandshakeFilter.refuse(UnsafeMutableBufferPointer(start: storage, count: count), with: filter)
    }

    /// Seals the planned packets.
    func seal(_ packets: PacketBatch, into datagrams: PacketBatch) {
        guard !send.isEmpty else { return }
        let start = datagrams.tail
        let free = unsafe datagrams.freeBytes
        guard let out = free.baseAddress else { return }
        unsafe send.seal(views, into: out, capacity: free.count) { offset, byteCount, endpoint in
            datagrams.append(offset: start + offset, length: byteCount, endpoint: endpoint)
        }
    }

    /// Opens the planned datagrams.
    func open(_ datagrams: PacketBatch) {
        if !receive.isEmpty { unsafe receive.open(views) }
    }
}
