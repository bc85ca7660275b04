// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelIO
import TunnelSystem
import WireGuardCore

/// A connection to the management socket. It is used on the loop's thread.
final class UAPIConnection: Sendable {
    private struct State {
        var session: UAPISession
        var registration: EventLoop.Registration?
        var output: [UInt8] = []
        var written = 0
        /// Whether the connection ends once its output is written.
        var endsAfterOutput = false
        var isClosed = false
        /// The time of `LaneClock` at which the last byte was read or written, or the connection began.
        var lastActivity = LaneClock.now()
        /// Whether a byte was read.
        var hasAsked = false

        /// Whether every operation was answered and all output written.
        var isFinished: Bool { endsAfterOutput && output.isEmpty && !session.hasMore }
    }

    private let descriptor: Int32
    private let loop: EventLoop
    private let onEnd: @Sendable () -> Void
    private let state: Mutex<State>

    /// Takes over `descriptor`, a non-blocking stream socket.
    init(descriptor: Int32, loop: EventLoop, session: UAPISession, onEnd: @escaping @Sendable () -> Void) {
        self.descriptor = descriptor
        self.loop = loop
        self.onEnd = onEnd
        state = Mutex(State(session: session))
    }

    /// The times in nanoseconds without a byte after which a connection may be ended while another client waits: before
    /// and after its first byte. `wg` sends its request as soon as it is connected.
    private static let (silentLimit, idleLimit): (Int64, Int64) = (50_000_000, 1_000_000_000)

    /// The time on `LaneClock` from which on the connection may be ended while another client waits.
    var idleEnd: Int64 {
        state.withLock { $0.lastActivity + ($0.hasAsked ? Self.idleLimit : Self.silentLimit) }
    }

    func start() {
        do throws(TunnelIOError) {
            let registration = try loop.register(descriptor, for: .readable) { [self] _ in ready() }
            state.withLock { $0.registration = registration }
        } catch {
            close()
        }
    }

    func close() {
        let registration = state.withLock { state -> EventLoop.Registration?? in
            guard !state.isClosed else { return nil }
            state.isClosed = true
            // Requests and replies may contain keys.
            state.output.wipe()
            defer { state.registration = nil }
            return .some(state.registration)
        }
        guard let registration else { return }
        if let registration { loop.unregister(registration) }
        SystemCall.close(descriptor)
        onEnd()
    }

    private func ready() {
        let isDone = state.withLock { state -> Bool in
            guard !state.isClosed else { return false }
            guard write(&state) else { return true }
            guard state.output.isEmpty else { return false }
            if state.session.hasMore {
                if !state.session.resume(replyingInto: &state.output) { state.endsAfterOutput = true }
                return !write(&state) || state.isFinished
            }
            return state.endsAfterOutput || !read(&state)
        }
        if isDone { close() } else { adjustInterest() }
    }

    /// Reads the available bytes and answers them. Returns `false` when the connection has ended.
    private func read(_ state: inout State) -> Bool {
        // Read one chunk per round, so that other connections on the loop are served too.
        var isOpen = true
        unsafe withUnsafeTemporaryAllocation(byteCount: state.session.chunkBytes, alignment: 16) { chunk in
            let count = unsafe SystemCall.read(descriptor, into: chunk)
            defer { unsafe WireGuardCore.wipe(UnsafeMutableRawBufferPointer(rebasing: chunk[0..<max(count, 0)])) }
            if count > 0 {
                (state.lastActivity, state.hasAsked) = (LaneClock.now(), true)
                let bytes = unsafe UnsafeRawBufferPointer(rebasing: chunk[0..<count])
                state.endsAfterOutput = unsafe !state.session.receive(bytes, replyingInto: &state.output)
            } else if count == 0 {
                state.session.end(replyingInto: &state.output)
                state.endsAfterOutput = true
            } else {
                isOpen = errno == EAGAIN
            }
        }
        return isOpen && write(&state) && !state.isFinished
    }

    /// Writes the waiting output. Returns `false` if the other side has closed.
    private func write(_ state: inout State) -> Bool {
        while state.written < state.output.count {
            let count = unsafe state.output.withUnsafeBytes { raw in
                unsafe UnixSocket.send(descriptor, UnsafeRawBufferPointer(rebasing: raw[state.written...]))
            }
            if count > 0 {
                state.written += count
                state.lastActivity = LaneClock.now()
            } else {
                return errno == EAGAIN
            }
        }
        if !state.output.isEmpty { state.output.wipe() }
        state.written = 0
        return true
    }

    private func adjustInterest() {
        let (registration, hasOutput) = state.withLock {
            ($0.registration, !$0.output.isEmpty || $0.session.hasMore)
        }
        guard let registration else { return }
        do throws(TunnelIOError) {
            try loop.modify(registration, interest: hasOutput ? .writable : .readable)
        } catch {
            close()
        }
    }
}

extension [UInt8] {
    /// Overwrites the bytes with zeros and releases them.
    mutating func wipe() {
        unsafe withUnsafeMutableBytes { unsafe WireGuardCore.wipe($0) }
        self = []
    }
}
