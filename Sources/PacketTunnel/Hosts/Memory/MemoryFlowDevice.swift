// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
package import TunnelIO

/// The interface of a tunnel in memory. Unlike a system's, it says when it is full, so that a test can see push-back.
///
/// Where its packets go is set by ``connect(to:)``: to another device, a network, or nowhere, in which case they wait for
/// ``takeSent()``.
package final class MemoryFlowDevice: FlowControlledTun {
    private enum Far {
        case queue
        case device(PacketQueue, mtu: @Sendable () -> Int)
        case network(VirtualNetwork)
    }

    private struct State {
        var far = Far.queue
        var mtu: Int
        var isUp = true
        var isClosed = false
        var events: [LinkEvent] = []
        var roomHandler: (@Sendable () -> Void)?
        var sentHandler: (@Sendable () -> Void)?
    }

    private let name: String
    private let state: Mutex<State>
    /// What this end reads.
    private let inbound: PacketQueue
    /// What nobody takes.
    private let sent: PacketQueue
    private let links: WakeSignal

    /// A device that is up and connected to nothing.
    /// - Throws: `.eventLoop` when the system has no more descriptors.
    package init(
        name: String = "memory", mtu: Int = 1420, packetCapacity: Int = 256, byteCapacity: Int = 1 << 19
    ) throws(TunnelIOError) {
        self.name = name
        inbound = try PacketQueue(packetCapacity: packetCapacity, byteCapacity: byteCapacity)
        sent = try PacketQueue(packetCapacity: packetCapacity, byteCapacity: byteCapacity)
        links = try WakeSignal()
        state = Mutex(State(mtu: mtu))
        sent.onRoom { [weak self] in self?.tellOfRoom() }
    }

    // MARK: - The device

    private func check() throws(TunnelIOError) {
        if state.withLock({ $0.isClosed }) { throw TunnelIOError(.closed) }
    }

    package func currentName() throws(TunnelIOError) -> String {
        try check()
        return name
    }

    package func currentMTU() throws(TunnelIOError) -> Int { try currentLinkState().mtu }

    package func currentLinkState() throws(TunnelIOError) -> LinkState {
        try check()
        return state.withLock { LinkState(isUp: $0.isUp, mtu: $0.mtu) }
    }

    package var readiness: Int32 { inbound.readiness }

    package func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try check()
        try batch.checkReadable()
        let before = batch.count
        inbound.take { packet in unsafe packet.withUnsafeBytes { unsafe batch.appendRead($0) } }
        return batch.count - before
    }

    /// Hands packets on and drops those that there is no room for, as a system's interface does.
    package func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        try check()
        var result = TunSendResult(sent: 0, dropped: 0)
        for index in 0..<batch.count where batch[index].length > 0 {
            if deliver(batch.copy(of: index)) == .taken { result.sent += 1 } else { result.dropped += 1 }
        }
        return result
    }

    package func take(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        try check()
        var result = TunSendResult(sent: 0, dropped: 0)
        for index in 0..<batch.count where batch[index].length > 0 {
            switch deliver(batch.copy(of: index)) {
            case .taken: result.sent += 1
            case .refused: result.dropped += 1
            case .full: return result
            }
            batch[index].length = 0
        }
        return result
    }

    package var hasRoom: Bool {
        switch state.withLock({ $0.far }) {
        case .queue: sent.hasRoom
        case .device(let queue, _): queue.hasRoom
        case .network: true
        }
    }

    package func setRoomHandler(_ handler: @escaping @Sendable () -> Void) {
        state.withLock { $0.roomHandler = handler }
    }

    package var linkReadiness: Int32? { links.descriptor }

    package func drainLinkEvents() -> [LinkEvent] {
        state.withLock { state in
            links.clear()
            defer { state.events = [] }
            return state.events
        }
    }

    package var hasBufferedPackets: Bool { false }
    package func makeQueue() throws(TunnelIOError) -> any TunDevice { throw .oneQueue }
    package var statistics: TunStatistics { TunStatistics() }

    package func close() {
        state.withLock { state in
            state.isClosed = true
            state.far = .queue
        }
        inbound.close()
        sent.close()
    }

    // MARK: - The other side

    /// Gives the device a packet to receive, as a system does that routes one to it.
    /// - Returns: false when it was dropped: there is no room, or it is too long or no IP packet.
    @discardableResult
    package func inject(_ packet: [UInt8]) -> Bool {
        guard Self.isAcceptable(packet, mtu: mtu), state.withLock({ $0.isUp }) else { return false }
        return inbound.push(packet) == .taken
    }

    /// The packets that were sent and that nobody took, oldest first.
    package func takeSent() -> [[UInt8]] {
        var packets: [[UInt8]] = []
        sent.take { packet in
            packets.append(packet)
            return true
        }
        return packets
    }

    /// The oldest of the packets that were sent and that nobody took.
    package func takeOneSent() -> [UInt8]? {
        var taken: [UInt8]?
        sent.take { packet in
            guard taken == nil else { return false }
            taken = packet
            return true
        }
        return taken
    }

    /// Sets what is called when there is something for ``takeSent()``.
    package func setSentHandler(_ handler: (@Sendable () -> Void)?) {
        state.withLock { $0.sentHandler = handler }
    }

    /// Connects two devices: what one is sent, the other receives.
    package static func connect(_ one: MemoryFlowDevice, _ two: MemoryFlowDevice) {
        one.connect(to: two)
        two.connect(to: one)
    }

    private func connect(to other: MemoryFlowDevice) {
        // One that is down, or gone, takes nothing.
        let mtu: @Sendable () -> Int = { [weak other] in
            other?.state.withLock { $0.isUp ? $0.mtu : 0 } ?? 0
        }
        let isNew = state.withLock { state in
            if case .device(let queue, _) = state.far, queue === other.inbound { return false }
            state.far = .device(other.inbound, mtu: mtu)
            return true
        }
        guard isNew else { return }
        other.inbound.onRoom { [weak self] in self?.tellOfRoom() }
        tellOfRoom()
    }

    /// Sends what it is sent to `network`, and receives its answers.
    package func connect(to network: VirtualNetwork) {
        state.withLock { $0.far = .network(network) }
        tellOfRoom()
    }

    /// Sets the most bytes of one packet.
    package func setMTU(_ mtu: Int) {
        state.withLock { state in
            guard state.mtu != mtu else { return }
            state.mtu = mtu
            report(.mtu(mtu), &state)
        }
    }

    /// Brings the device up or takes it down.
    package func setUp(_ isUp: Bool) {
        state.withLock { state in
            guard state.isUp != isUp else { return }
            state.isUp = isUp
            report(isUp ? .up : .down, &state)
        }
    }

    private func report(_ event: LinkEvent, _ state: inout State) {
        if state.events.isEmpty { links.raise() }
        state.events.append(event)
    }

    private var mtu: Int { state.withLock { $0.mtu } }

    private func tellOfRoom() {
        state.withLock { $0.roomHandler }?()
    }

    private static func isAcceptable(_ packet: [UInt8], mtu: Int) -> Bool {
        guard let first = packet.first, packet.count <= mtu else { return false }
        return first >> 4 == 4 || first >> 4 == 6
    }

    private func deliver(_ packet: [UInt8]) -> PacketQueue.Outcome {
        let (far, mtu, isUp, handler) = state.withLock { ($0.far, $0.mtu, $0.isUp, $0.sentHandler) }
        guard isUp, Self.isAcceptable(packet, mtu: mtu) else { return .refused }
        switch far {
        case .queue:
            let outcome = sent.push(packet)
            handler?()
            return outcome
        case .device(let queue, let farMTU): return packet.count <= farMTU() ? queue.push(packet) : .refused
        case .network(let network):
            if let answer = network.receive(packet) { inject(answer) }
            return .taken
        }
    }
}
