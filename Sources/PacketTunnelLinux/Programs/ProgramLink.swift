// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// A socket to the process that starts programs (``ProgramServer``). One request at a time is in progress on it.
///
/// That process may be stopped and resumed at any byte of a message. So each request has a number and a deadline, and
/// nothing waits beyond the deadline. The next request first completes an interrupted message, and drops the late
/// answer. If another process replaces the server (``ProgramRelay``), the next request is sent to that process.
final class ProgramLink: Sendable {
    /// The result of a request.
    enum Answer {
        case reply(ProgramReply, [UInt8])
        /// No answer arrived in time.
        case late
        /// The caller cancelled the request before it was sent.
        case cancelled
        /// The process has ended or sent a malformed message. It may have executed the request.
        case ended
    }

    private struct State {
        var descriptor: SharedDescriptor?
        /// The number of the process.
        var generation = 0
        /// The number of the last request.
        var number: UInt64 = 0
        /// The number of the request that was sent, at least in part, and has no answer yet.
        var unanswered: UInt64?
        var unsent: [UInt8] = []
        var received: [UInt8] = []
        var hasEnded = false
    }

    /// The state; `nil` while a request is in progress.
    private let turn: Monitor<State?>
    private let relay: ProgramRelay?
    private let purpose: ProgramClient.Purpose

    /// Takes over this process's end of the socket.
    init(_ descriptor: SharedDescriptor) {
        (relay, purpose) = (nil, .system)
        turn = Monitor(State(descriptor: descriptor, hasEnded: !SystemCall.setNonBlocking(descriptor.number)))
    }

    /// Creates a link for this purpose to the processes that the relay provides.
    init(_ relay: ProgramRelay, _ purpose: ProgramClient.Purpose) {
        (self.relay, self.purpose) = (relay, purpose)
        turn = Monitor(State(hasEnded: true))
    }

    /// The time limit for a replacement process, in nanoseconds.
    private static let replacementPatience = 5 * LaneClock.nanosecondsPerSecond
    /// The time without an answer after which the supervisor must check the process, and the interval of further
    /// checks, in nanoseconds.
    private static let firstCheck = LaneClock.nanosecondsPerSecond / 2
    private static let nextCheck = 2 * LaneClock.nanosecondsPerSecond

    /// Sends a request and waits for its answer.
    /// - Parameters:
    ///   - seconds: The time limit of the request. The other process does not begin it later.
    ///   - patience: The time in seconds that the answer may arrive after the limit.
    ///   - cancellation: A descriptor that ends the request when it becomes readable. The answer is awaited
    ///     nevertheless.
    func exchange(
        _ request: ProgramRequest, _ input: [UInt8], within seconds: Int, patience: Int, cancellation: Int32? = nil
    ) -> Answer {
        let limit = LaneClock.now() + Int64(seconds) * LaneClock.nanosecondsPerSecond
        let deadline = limit + Int64(patience) * LaneClock.nanosecondsPerSecond
        let taken: State? = turn.wait(until: limit) { state in
            defer { state = nil }
            return state
        }
        guard var state = taken else { return .late }
        defer {
            turn.updateForOne {
                $0 = state
                return true
            }
        }
        if state.unanswered == nil, let descriptor = state.descriptor {
            // Read first, because the process may have ended since the last request.
            receive(&state, descriptor.number)
        }
        var cancellation = cancellation
        var own: UInt64?
        var nextCheck = LaneClock.now() + Self.firstCheck
        while true {
            if let (numbered, bytes) = takeReply(&state), numbered.number == own {
                return .reply(numbered.reply, bytes)
            }
            while state.hasEnded {
                guard own == nil, renew(&state, until: limit) else { return .ended }
            }
            guard let number = state.descriptor?.number else { return .ended }
            if own == nil, state.unanswered == nil {
                guard LaneClock.now() < limit else { return .late }
                guard let frame = begin(request, input, until: limit, &state) else { return .ended }
                own = state.number
                state.unsent += frame
            }
            let writing = state.unsent.isEmpty ? nil : number
            let ready = ChildProcess.ready(
                [number, cancellation ?? -1], writing: writing, until: min(deadline, nextCheck))
            guard let ready else {
                guard LaneClock.now() < deadline else {
                    relay?.send(.replace, generation: state.generation)
                    return .late
                }
                relay?.send(.check, generation: state.generation)
                nextCheck = LaneClock.now() + Self.nextCheck
                continue
            }
            if writing != nil, ready[2] { send(&state, number) }
            if ready[0] { receive(&state, number) }
            if ready[1] {
                cancellation = nil
                guard let own else { return .cancelled }
                let cancel = NumberedRequest(number: own, deadline: deadline, request: .cancel)
                state.unsent += ProgramFrame.encode(cancel, []) ?? []
            }
        }
    }

    /// Switches to the process that has replaced the last one.
    /// - Returns: `false` if there is none.
    private func renew(_ state: inout State, until limit: Int64) -> Bool {
        let patience = min(limit, LaneClock.now() + Self.replacementPatience)
        guard let sockets = relay?.sockets(after: state.generation, until: patience),
            sockets.descriptors.indices.contains(purpose.rawValue)
        else { return false }
        let descriptor = sockets.descriptors[purpose.rawValue]
        state = State(
            descriptor: descriptor, generation: sockets.generation, number: state.number,
            hasEnded: !SystemCall.setNonBlocking(descriptor.number))
        // The new process may have ended as well.
        receive(&state, descriptor.number)
        return true
    }

    /// Numbers a request and encodes it.
    /// - Returns: The bytes of the request; `nil` if there are too many.
    private func begin(
        _ request: ProgramRequest, _ input: [UInt8], until limit: Int64, _ state: inout State
    ) -> [UInt8]? {
        let numbered = NumberedRequest(number: state.number + 1, deadline: limit, request: request)
        guard let frame = ProgramFrame.encode(numbered, input) else { return nil }
        state.number += 1
        state.unanswered = state.number
        return frame
    }

    /// Removes and returns the received reply, if it is complete.
    private func takeReply(_ state: inout State) -> (NumberedReply, [UInt8])? {
        switch ProgramFrame.parse(NumberedReply.self, state.received) {
        case .message(let numbered, let bytes, let byteCount):
            state.received.removeFirst(byteCount)
            if numbered.number == state.unanswered { state.unanswered = nil } else { state.hasEnded = true }
            return (numbered, bytes)
        case .incomplete: return nil
        case .malformed:
            state.hasEnded = true
            relay?.send(.replace, generation: state.generation)
            return nil
        }
    }

    private func send(_ state: inout State, _ number: Int32) {
        let count = unsafe state.unsent.withUnsafeBytes { unsafe SystemCall.write(number, $0) }
        if count > 0 { state.unsent.removeFirst(count) } else if errno != EAGAIN { state.hasEnded = true }
    }

    private func receive(_ state: inout State, _ number: Int32) {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(number, into: $0) }
        if count > 0 {
            state.received += chunk[..<count]
        } else if count == 0 || errno != EAGAIN {
            state.hasEnded = true
        }
    }
}
