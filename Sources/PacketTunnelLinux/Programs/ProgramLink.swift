// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// A socket to the process that starts programs (``ProgramServer``), on which one request is under way at a time.
///
/// That process may be stopped and continue later, at any byte of a message. So each request has a number and a deadline, and nothing
/// waits beyond the deadline. The next request first completes the message that was interrupted, and drops the late
/// answer. If another process takes its place (``ProgramRelay``), the next request goes to that.
final class ProgramLink: Sendable {
    /// The end of a request.
    enum Answer {
        case reply(ProgramReply, [UInt8])
        /// No answer came in time.
        case late
        /// The caller gave up before the request was sent.
        case cancelled
        /// The process has ended, or does not keep to the form of messages. It may have carried out the request.
        case ended
    }

    private struct State {
        var descriptor: SharedDescriptor?
        /// The number of the process.
        var generation = 0
        /// The number of the last request.
        var number: UInt64 = 0
        /// The number of the request that was sent, at least in part, and not answered.
        var unanswered: UInt64?
        var unsent: [UInt8] = []
        var received: [UInt8] = []
        var hasEnded = false
    }

    /// The state; `nil` while a request is under way.
    private let turn: Monitor<State?>
    private let relay: ProgramRelay?
    private let purpose: ProgramClient.Purpose

    /// Takes over this process's end of the socket.
    init(_ descriptor: SharedDescriptor) {
        (relay, purpose) = (nil, .system)
        turn = Monitor(State(descriptor: descriptor, hasEnded: !SystemCall.setNonBlocking(descriptor.number)))
    }

    /// A link for this purpose to the processes that the relay names.
    init(_ relay: ProgramRelay, _ purpose: ProgramClient.Purpose) {
        (self.relay, self.purpose) = (relay, purpose)
        turn = Monitor(State(hasEnded: true))
    }

    /// The time in which a process that takes the place of another is waited for, in nanoseconds.
    private static let replacementPatience = 5 * LaneClock.nanosecondsPerSecond
    /// The time without an answer after which the supervisor must check the process, and the time until the next check.
    private static let firstCheck = LaneClock.nanosecondsPerSecond / 2
    private static let nextCheck = 2 * LaneClock.nanosecondsPerSecond

    /// Sends a request and waits for its answer.
    /// - Parameters:
    ///   - seconds: the time that the request may take. The other process does not begin it later.
    ///   - patience: the seconds that the answer may come after that.
    ///   - cancellation: ends the request when it polls readable; the answer is waited for.
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
            // The process may have ended since the last request.
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

    /// Goes over to the process that has taken the place of the last one.
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
        // It may have ended as well.
        receive(&state, descriptor.number)
        return true
    }

    /// Counts a request.
    /// - Returns: its bytes; `nil` if they are too many.
    private func begin(
        _ request: ProgramRequest, _ input: [UInt8], until limit: Int64, _ state: inout State
    ) -> [UInt8]? {
        let numbered = NumberedRequest(number: state.number + 1, deadline: limit, request: request)
        guard let frame = ProgramFrame.encode(numbered, input) else { return nil }
        state.number += 1
        state.unanswered = state.number
        return frame
    }

    /// The reply that was received, if one is whole.
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
