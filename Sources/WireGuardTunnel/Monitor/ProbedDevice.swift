// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel
import Synchronization
import TunnelIO

/// The tunnel's interface, with an eye on what comes out of the tunnel: answers to the provider's own packets are taken
/// out and handed over. Until the provider sets a filter it costs two loads per batch.
final class ProbedDevice: ForwardingTun {
    /// Looks at a packet; true takes it out. Called on the device's threads.
    typealias Filter = @Sendable ([UInt8]) -> Bool

    /// What the queues of one interface share: an answer may come out at any of them.
    private final class Eye: Sendable {
        let isActive = Atomic<Bool>(false)
        let hasDelivered = Atomic<Bool>(false)
        let filter = Mutex<Filter?>(nil)
    }

    let device: any TunDevice
    private let eye: Eye

    convenience init(_ device: any TunDevice) { self.init(device, Eye()) }

    private init(_ device: any TunDevice, _ eye: Eye) {
        (self.device, self.eye) = (device, eye)
    }

    /// Sets who looks at ICMP messages and UDP datagrams from here on.
    func setFilter(_ filter: Filter?) {
        eye.filter.withLock { $0 = filter }
        eye.isActive.store(filter != nil, ordering: .releasing)
    }

    /// Whether a packet has come out of the tunnel since the start, or since ``forgetPackets()``.
    var hasDelivered: Bool { eye.hasDelivered.load(ordering: .relaxed) }

    func forgetPackets() { eye.hasDelivered.store(false, ordering: .relaxed) }

    func check() {}

    func makeQueue() throws(TunnelIOError) -> any TunDevice { ProbedDevice(try device.makeQueue(), eye) }

    func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        // A load first: queues on several threads share the flag.
        if !hasDelivered, batch.count > 0 { eye.hasDelivered.store(true, ordering: .relaxed) }
        if eye.isActive.load(ordering: .acquiring) { takeOut(of: batch) }
        return try device.send(batch)
    }

    private func takeOut(of batch: PacketBatch) {
        guard let filter = eye.filter.withLock({ $0 }) else { return }
        for index in 0..<batch.count {
            let isCandidate = unsafe isCandidate(UnsafeRawBufferPointer(batch.bytes(of: index)))
            if isCandidate, filter(batch.copy(of: index)) { batch[index].length = 0 }
        }
    }

    /// Whether it is a small packet that could be an answer: ICMP, or UDP from the port of DNS.
    @inline(__always)
    private func isCandidate(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 28 else { return false }
        switch unsafe bytes[0] >> 4 {
        case 4:
            let start = unsafe Int(bytes[0] & 0x0f) * 4
            if unsafe bytes[9] == PacketBuilder.IPProtocol.icmp { return true }
            return unsafe bytes[9] == PacketBuilder.IPProtocol.udp && start + 2 <= bytes.count
                && bytes[start] == 0 && bytes[start + 1] == 53
        case 6:
            guard bytes.count >= 48 else { return false }
            if unsafe bytes[6] == PacketBuilder.IPProtocol.icmpv6 { return true }
            return unsafe bytes[6] == PacketBuilder.IPProtocol.udp && bytes[40] == 0 && bytes[41] == 53
        default: return false
        }
    }
}
