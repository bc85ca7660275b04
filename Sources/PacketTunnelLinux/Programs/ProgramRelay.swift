// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import TunnelIO
import TunnelSystem

/// The socket to the supervisor, which starts a ``ProgramServer`` and replaces one that has ended
/// (``ProgramSupervisor``).
final class ProgramRelay: Sendable {
    /// A request to the supervisor, as one byte.
    enum Request: UInt8 {
        /// Replace the server if it does not answer.
        case check = 1
        /// Replace the server, because it missed a deadline.
        case replace = 2
    }

    /// The sockets to one server, by ``ProgramClient/Purpose``.
    struct Sockets: Sendable {
        /// The number of the server, counted from 1.
        var generation = 0
        var descriptors: [SharedDescriptor] = []
    }

    private struct State {
        var sockets = Sockets()
        /// Whether a thread waits for a message.
        var isReading = false
        /// Whether the supervisor has ended.
        var hasEnded = false
    }

    private let control: SharedDescriptor
    private let state = Monitor(State())

    /// Takes over this process's end of the supervisor's socket.
    init(_ control: SharedDescriptor) {
        self.control = control
        if !SystemCall.setNonBlocking(control.number) { state.withValue { $0.hasEnded = true } }
    }

    /// Whether the supervisor is known to have ended. Then there are no further servers.
    var hasEnded: Bool { state.withValue { $0.hasEnded } }

    /// Sends a request to the supervisor, unless the server with this number has already been replaced. Does not wait
    /// for a supervisor that does not read.
    func send(_ request: Request, generation: Int) {
        guard state.withValue({ $0.sockets.generation }) == generation else { return }
        unsafe withUnsafeBytes(of: request.rawValue) { bytes in
            unsafe _ = SystemCall.write(control.number, bytes)
        }
    }

    /// Waits for the sockets of a server after the one with this number.
    /// - Returns: `nil` if the supervisor has ended, or none arrived by the deadline.
    func sockets(after generation: Int, until deadline: Int64) -> Sockets? {
        enum Turn {
            case found(Sockets)
            case ended
            case mine
        }
        while true {
            let turn: Turn? = state.wait(until: deadline) { state in
                if state.sockets.generation > generation { return .found(state.sockets) }
                if state.hasEnded { return .ended }
                guard !state.isReading else { return nil }
                state.isReading = true
                return .mine
            }
            switch turn {
            case .found(let sockets): return sockets
            case .mine:
                let isReadable = ChildProcess.ready([control.number], until: deadline) != nil
                state.update { state in
                    state.isReading = false
                    if isReadable { receive(&state) }
                    return true
                }
                if !isReadable { return nil }
            case .ended, nil: return nil
            }
        }
    }

    private func receive(_ state: inout State) {
        var numbers = [Int32](repeating: -1, count: ProgramClient.Purpose.allCases.count)
        switch unsafe ctunnel_receive_descriptors(control.number, &numbers, Int32(numbers.count)) {
        case 0:
            state.sockets = Sockets(
                generation: state.sockets.generation + 1,
                descriptors: numbers.map { SharedDescriptor(OwnedDescriptor($0)) })
        case EAGAIN: break
        default: state.hasEnded = true
        }
    }
}
