// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelIO
import TunnelSystem

/// A socket to the process that starts programs (``ProgramServer``), on which one request is under way at a time.
///
/// That process may be stopped and continue later, at any byte of a message. So each request has a number and a deadline, and no read
/// or write waits beyond the deadline. The next request first completes the message that was interrupted, and drops the late
/// answer.
final class ProgramLink: Sendable {
    /// The end of a request.
    enum Answer {
        case reply(ProgramReply, [UInt8])
        /// No answer came in time.
        case late
        /// The caller gave up before the request was sent.
        case cancelled
        /// The process has ended, or does not keep to the form of messages.
        case ended
    }

    private struct State {
        /// The number of the last request.
        var number: UInt64 = 0
        /// The number of the request that was sent, at least in part, and not answered.
        var unanswered: UInt64?
        var unsent: [UInt8] = []
        var received: [UInt8] = []
        var hasEnded = false
    }

    private let descriptor: SharedDescriptor
    private let state = Mutex(State())

    /// Takes over this process's end of the socket.
    init(_ descriptor: SharedDescriptor) {
        self.descriptor = descriptor
        if !SystemCall.setNonBlocking(descriptor.number) { state.withLock { $0.hasEnded = true } }
    }

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
        return state.withLock { state in
            var cancellation = cancellation
            var own: UInt64?
            while true {
                if let (numbered, bytes) = takeReply(&state), numbered.number == own {
                    return .reply(numbered.reply, bytes)
                }
                if state.hasEnded { return .ended }
                if own == nil, state.unanswered == nil {
                    guard LaneClock.now() < limit else { return .late }
                    guard let frame = begin(request, input, until: limit, &state) else { return .ended }
                    own = state.number
                    state.unsent += frame
                }
                let number = descriptor.number
                let writing = state.unsent.isEmpty ? nil : number
                guard let ready = ChildProcess.ready([number, cancellation ?? -1], writing: writing, until: deadline)
                else { return .late }
                if writing != nil, ready[2] { send(&state) }
                if ready[0] { receive(&state) }
                if ready[1] {
                    cancellation = nil
                    guard let own else { return .cancelled }
                    let cancel = NumberedRequest(number: own, deadline: deadline, request: .cancel)
                    state.unsent += ProgramFrame.encode(cancel, []) ?? []
                }
            }
        }
    }

    /// Counts a request.
    /// - Returns: its bytes; nil if they are too many.
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
            return nil
        }
    }

    private func send(_ state: inout State) {
        let count = unsafe state.unsent.withUnsafeBytes { unsafe SystemCall.write(descriptor.number, $0) }
        if count > 0 { state.unsent.removeFirst(count) } else if errno != EAGAIN { state.hasEnded = true }
    }

    private func receive(_ state: inout State) {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(descriptor.number, into: $0) }
        if count > 0 {
            state.received += chunk[..<count]
        } else if count == 0 || errno != EAGAIN {
            state.hasEnded = true
        }
    }
}
