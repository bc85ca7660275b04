// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization

@testable import TunnelIO

/// A device whose packets a test puts in and takes out.
final class ScriptedTun: TunDevice {
    private struct State {
        var toRead: [[UInt8]] = []
        var written: [[UInt8]] = []
        var failure: TunnelIOError?
        /// How many packets are refused from now on.
        var refusals = 0
        var receives = 0
        /// Whether each batch that was read asked for one call.
        var readsOnce: [Bool] = []
        /// How many packets were waiting to be read when the first was written.
        var unreadAtFirstWrite: Int?
        /// A packet that becomes readable with the next write.
        var reply: [UInt8]?
        /// Whether the descriptor reports replies, until a read finds no packet.
        var reportsReplies = false
        var waiters: [(count: Int, latch: Latch)] = []
    }

    private let state = Mutex(State())
    private let signal: WakeSignal

    init() throws(TunnelIOError) {
        signal = try WakeSignal()
    }

    func currentName() -> String { "scripted0" }
    func currentMTU() -> Int { 1420 }
    func currentLinkState() -> LinkState { LinkState(isUp: true, mtu: 1420) }
    var readiness: Int32 { signal.descriptor }
    var linkReadiness: Int32? { nil }
    var hasBufferedPackets: Bool { false }
    var statistics: TunStatistics { TunStatistics() }
    func makeQueue() throws(TunnelIOError) -> any TunDevice { throw .oneQueue }
    func drainLinkEvents() -> [LinkEvent] { [] }
    func close() {}

    func receive(into batch: PacketBatch) throws(TunnelIOError) -> Int {
        try state.withLock { (state) throws(TunnelIOError) in
            state.receives += 1
            state.readsOnce.append(batch.readsOnce)
            if let failure = state.failure { throw failure }
            var count = 0
            while let packet = state.toRead.first, batch.count < batch.packetCapacity {
                let offset = batch.tail + 32
                guard batch.byteCapacity - offset >= packet.count + 32 else { break }
                unsafe packet.withUnsafeBytes { bytes in
                    guard let start = bytes.baseAddress else { return }
                    unsafe (batch.base + offset).copyMemory(from: start, byteCount: bytes.count)
                }
                batch.append(offset: offset, length: packet.count)
                state.toRead.removeFirst()
                count += 1
            }
            if state.toRead.isEmpty, count == 0 || !state.reportsReplies { signal.clear() }
            return count
        }
    }

    func send(_ batch: PacketBatch) throws(TunnelIOError) -> TunSendResult {
        try state.withLock { (state) throws(TunnelIOError) in
            if let failure = state.failure { throw failure }
            state.unreadAtFirstWrite = state.unreadAtFirstWrite ?? state.toRead.count
            if let reply = state.reply { state.toRead.append(reply) }
            if state.reply != nil, state.reportsReplies { signal.raise() }
            state.reply = nil
            var result = TunSendResult(sent: 0, dropped: 0)
            for index in 0..<batch.count where batch[index].length > 0 {
                if state.refusals > 0 {
                    state.refusals -= 1
                    result.dropped += 1
                } else {
                    state.written.append(batch.copy(of: index))
                    result.sent += 1
                }
            }
            for waiter in state.waiters where state.written.count >= waiter.count { waiter.latch.open() }
            return result
        }
    }

    /// Makes packets readable.
    func put(_ packets: [[UInt8]]) {
        state.withLock { $0.toRead += packets }
        signal.raise()
    }

    /// Polls readable without having anything, as a device does that is in trouble.
    func raiseForNothing() { signal.raise() }

    func fail(_ error: TunnelIOError) {
        state.withLock { $0.failure = error }
        signal.raise()
    }

    func refuse(_ count: Int) {
        state.withLock { $0.refusals = count }
    }

    /// Makes a packet readable with the next write.
    /// - Parameter isReported: whether the descriptor reports it, and continues until a read finds no packet.
    func reply(_ packet: [UInt8], isReported: Bool = false) {
        state.withLock { ($0.reply, $0.reportsReplies) = (packet, isReported) }
    }

    var unreadAtFirstWrite: Int? { state.withLock { $0.unreadAtFirstWrite } }

    var receives: Int { state.withLock { $0.receives } }

    var readsOnce: [Bool] { state.withLock { $0.readsOnce } }

    /// The written packets, once there are `count`, or after five seconds.
    func written(_ count: Int) -> [[UInt8]] {
        let latch = Latch()
        state.withLock { state in
            if state.written.count >= count { latch.open() }
            state.waiters.append((count, latch))
        }
        _ = latch.wait(milliseconds: 5000)
        return state.withLock { $0.written }
    }
}

/// Puts a header of 16 bytes in front of each packet and a trailer behind it, and checks both on the way back.
final class FramingTransport: TunnelTransport {
    struct State {
        var remote: Endpoint
        /// The destination of every other datagram, if set.
        var otherRemote: Endpoint?
        var pending: [[UInt8]] = []
        var deadline: Int64?
        var deadlineCalls: [Int64] = []
        var onDeadline: (@Sendable (FramingTransport) -> Void)?
        var seals = 0
        var drainsEnded = 0
        /// The datagrams that wait once a batch was opened.
        var answers: [[UInt8]] = []
        /// Called for each batch that is sealed.
        var onSeal: (@Sendable () -> Void)?
    }

    static let header = [UInt8](repeating: 0xaa, count: 16)
    static let trailer = [UInt8](repeating: 0xbb, count: 16)

    let state: Mutex<State>

    init(remote: Endpoint) {
        state = Mutex(State(remote: remote))
    }

    static func framed(_ packet: [UInt8]) -> [UInt8] { header + packet + trailer }

    func seal(_ packets: PacketBatch, into datagrams: PacketBatch, at now: Int64) -> Bool {
        let (remote, other, handler) = state.withLock { state in
            state.seals += 1
            return (state.remote, state.otherRemote, state.onSeal)
        }
        handler?()
        for index in 0..<packets.count {
            let endpoint = index % 2 == 1 ? other ?? remote : remote
            datagrams.append(copying: Self.framed(packets.copy(of: index)), endpoint: endpoint)
        }
        return waitingWork.hasDatagrams
    }

    func open(_ datagrams: PacketBatch, at now: Int64, answer: () -> Void) -> Bool {
        for index in 0..<datagrams.count {
            let bytes = datagrams.copy(of: index)
            let descriptor = datagrams[index]
            if bytes.count >= 32, bytes.starts(with: Self.header), bytes.suffix(16) == Self.trailer[...] {
                datagrams[index] = PacketDescriptor(offset: descriptor.offset + 16, length: descriptor.length - 32)
            } else {
                datagrams[index].length = 0
            }
        }
        return state.withLock { state in
            state.pending += state.answers
            state.answers = []
            return !state.pending.isEmpty
        }
    }

    /// One waiting datagram per call.
    func drain(into datagrams: PacketBatch) -> Bool {
        state.withLock { state in
            guard !state.pending.isEmpty else { return false }
            datagrams.append(copying: state.pending.removeFirst(), endpoint: state.remote)
            return !state.pending.isEmpty
        }
    }

    func deadlineReached() {
        let handler = state.withLock { state in
            state.deadline = nil
            state.deadlineCalls.append(LaneClock.now())
            return state.onDeadline
        }
        handler?(self)
    }

    var waitingWork: TransportWork {
        state.withLock { TransportWork(hasDatagrams: !$0.pending.isEmpty, deadline: $0.deadline) }
    }

    func drainEnded() { state.withLock { $0.drainsEnded += 1 } }
}
