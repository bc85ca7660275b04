// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Synchronization

/// The system's side of a packet flow: a bounded queue of packets that it routes to the tunnel, and the packets that left it.
public final class StandInFlow: Sendable {
    private struct State {
        var queue: [Data] = []
        var handler: (@Sendable ([Data], [NSNumber]) -> Void)?
        var written: [Data] = []
        var families: [Int] = []
        var onWrite: (@Sendable (Data) -> Void)?
        var onChange: (@Sendable () -> Void)?
        var isBroken = false
        var dropped = 0
        var readCount = 0
        var routedCount = 0
        var writtenCount = 0
        var largestBatch = 64
        var capacity = 512
    }

    private let state = Mutex(State())
    private let system = DispatchQueue(label: "flow")

    init() {}

    /// The most packets that wait, as in a kernel.
    public var capacity: Int { state.withLock { $0.capacity } }

    /// Sets the most packets that wait. The documentation of `readPackets` gives no limit on a read.
    public func setCapacity(_ count: Int) { state.withLock { $0.capacity = count } }

    /// The most packets that a handler gets in one call.
    public func setLargestBatch(_ count: Int) { state.withLock { $0.largestBatch = count } }

    // MARK: - Programs of the machine

    /// Routes packets to the tunnel.
    /// - Returns: how many found room.
    @discardableResult
    public func route(_ packets: [Data]) -> Int {
        let taken = state.withLock { state -> Int in
            let room = max(0, state.capacity - state.queue.count)
            state.queue += packets.prefix(room)
            state.routedCount += min(room, packets.count)
            state.dropped += max(0, packets.count - room)
            return min(room, packets.count)
        }
        pump()
        return taken
    }

    /// Packets that wait for the provider.
    public var waitingCount: Int { state.withLock { $0.queue.count } }

    /// Packets that found no room.
    public var droppedCount: Int { state.withLock { $0.dropped } }

    /// Packets that found room, and packets that the provider wrote.
    public var counts: (routed: Int, written: Int) { state.withLock { ($0.routedCount, $0.writtenCount) } }

    /// How often the provider asked for packets.
    public var readCount: Int { state.withLock { $0.readCount } }

    /// Whether the provider asks for packets now.
    public var isReading: Bool { state.withLock { $0.handler != nil } }

    /// Returns and removes the packets that the provider wrote, oldest first.
    public func takeWritten() -> [Data] {
        state.withLock { state in
            defer { state.written = [] }
            return state.written
        }
    }

    /// The protocol families that the provider gave with its packets.
    public var families: [Int] { state.withLock { $0.families } }

    /// Sets the receiver of the packets that the provider writes from now on.
    public func setWriteHandler(_ handler: (@Sendable (Data) -> Void)?) { state.withLock { $0.onWrite = handler } }

    /// Sets the handler for packets that are requested, delivered or written.
    public func setChangeHandler(_ handler: (@Sendable () -> Void)?) { state.withLock { $0.onChange = handler } }

    private func tell() { state.withLock { $0.onChange }?() }

    /// Makes writing fail.
    public func fail() { state.withLock { $0.isBroken = true } }

    // MARK: - Calls of the provider

    func read(_ handler: @escaping @Sendable ([Data], [NSNumber]) -> Void) {
        let isSecond = state.withLock { state in
            state.readCount += 1
            defer { state.handler = handler }
            return state.handler != nil
        }
        if isSecond { StandInRules.report("packets were asked for twice at once") }
        pump()
        tell()
    }

    private func pump() {
        let (handler, packets) = state.withLock { state -> ((@Sendable ([Data], [NSNumber]) -> Void)?, [Data]) in
            guard let handler = state.handler, !state.queue.isEmpty else { return (nil, []) }
            state.handler = nil
            let packets = Array(state.queue.prefix(state.largestBatch))
            state.queue.removeFirst(packets.count)
            return (handler, packets)
        }
        guard let handler else { return }
        system.async {
            handler(packets, packets.map { NSNumber(value: Self.family(of: $0)) })
            self.tell()
        }
    }

    func write(_ packets: [Data], _ protocols: [NSNumber]) -> Bool {
        guard packets.count == protocols.count else {
            StandInRules.report("\(packets.count) packets were written with \(protocols.count) protocols")
            return false
        }
        let handler = state.withLock { state -> (@Sendable (Data) -> Void)?? in
            guard !state.isBroken else { return nil }
            state.writtenCount += packets.count
            for (packet, family) in zip(packets, protocols) where family.int32Value != Self.family(of: packet) {
                StandInRules.report("a packet was written with the protocol family \(family)")
            }
            if state.families.count < 1_024 { state.families += protocols.map(\.intValue) }
            guard let handler = state.onWrite else {
                state.written += packets.prefix(max(0, 4_096 - state.written.count))
                return .some(nil)
            }
            return handler
        }
        guard let handler else { return false }
        if let handler { packets.forEach(handler) }
        tell()
        return true
    }

    /// Darwin's numbers.
    private static func family(of packet: Data) -> Int32 { packet.first.map { $0 >> 4 == 6 ? 30 : 2 } ?? 0 }
}
