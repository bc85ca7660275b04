// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Synchronization
internal import TunnelIO

/// Packets on their way from one end of a memory link to the other: bounded, and it says when it is full.
final class PacketQueue: Sendable {
    private struct State {
        /// A ring: `count` packets from `first` on.
        var packets: [[UInt8]]
        var first = 0
        var count = 0
        var byteCount = 0
        var isClosed = false
        /// Whether somebody was told that there is no room.
        var owesRoom = false
        var roomHandlers: [@Sendable () -> Void] = []
    }

    private let state: Mutex<State>
    private let signal: WakeSignal
    private let byteCapacity: Int

    /// What became of a packet.
    enum Outcome {
        case taken
        case full
        /// It will never be taken.
        case refused
    }

    init(packetCapacity: Int, byteCapacity: Int) throws(TunnelIOError) {
        signal = try WakeSignal()
        self.byteCapacity = byteCapacity
        state = Mutex(State(packets: Array(repeating: [], count: max(packetCapacity, 1))))
    }

    /// Polls readable while there are packets, and once it is closed.
    var readiness: Int32 { signal.descriptor }

    var count: Int { state.withLock { $0.count } }

    func push(_ packet: [UInt8]) -> Outcome {
        state.withLock { state in
            guard !state.isClosed, packet.count <= byteCapacity else { return .refused }
            guard state.count < state.packets.count, state.byteCount + packet.count <= byteCapacity else {
                state.owesRoom = true
                return .full
            }
            state.packets[(state.first + state.count) % state.packets.count] = packet
            state.count += 1
            state.byteCount += packet.count
            if state.count == 1 { signal.raise() }
            return .taken
        }
    }

    /// Whether there may be room: there was the last time, or packets were taken since. Who is told no is told when there is.
    var hasRoom: Bool { state.withLock { $0.isClosed || !$0.owesRoom } }

    /// Gives packets to `body`, oldest first, until there are none or it returns false for one that it does not take.
    func take(while body: ([UInt8]) -> Bool) {
        let handlers = state.withLock { state -> [@Sendable () -> Void] in
            let before = state.count
            while state.count > 0, body(state.packets[state.first]) {
                state.byteCount -= state.packets[state.first].count
                state.packets[state.first] = []
                state.first = (state.first + 1) % state.packets.count
                state.count -= 1
            }
            if state.count == 0, before > 0, !state.isClosed { signal.clear() }
            guard state.owesRoom, state.count < before else { return [] }
            state.owesRoom = false
            return state.roomHandlers
        }
        for handler in handlers { handler() }
    }

    /// Adds what is called when there is room after there was none.
    func onRoom(_ handler: @escaping @Sendable () -> Void) {
        state.withLock { $0.roomHandlers.append(handler) }
    }

    /// Forgets all packets and takes no more. Who waits for room is called.
    func close() {
        let handlers = state.withLock { state in
            state.isClosed = true
            state.packets = [[]]
            (state.first, state.count, state.byteCount) = (0, 0, 0)
            defer { state.roomHandlers = [] }
            return state.roomHandlers
        }
        signal.raise()
        for handler in handlers { handler() }
    }
}
