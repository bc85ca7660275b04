// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
import TunnelIO
import TunnelSystem

/// Sends and receives frames over a stream socket. A frame is its length, as four big-endian bytes, and that many
/// bytes.
///
/// The connection reads only one frame ahead, so a peer that sends more must wait. One task may read while another one
/// writes. Any thread may close the connection; waiting tasks then continue.
final class FrameConnection: Sendable {
    private typealias Reader = CheckedContinuation<Result<[UInt8]?, MessageError>, Never>
    private typealias Writer = CheckedContinuation<Bool, Never>

    private enum End {
        /// The peer or this side has closed.
        case closed
        /// The peer announced a frame of this size.
        case tooLarge(Int)
    }

    private struct State {
        var registration: EventLoop.Registration?
        var input: [UInt8] = []
        var output: ArraySlice<UInt8> = []
        var reader: Reader?
        var writer: Writer?
        var end: End?
        var onEnd: (@Sendable () -> Void)?
        /// Whether the peer no longer reads. Then nothing is sent.
        var isDeaf = false
        var isClosed = false
    }

    /// Work to do outside the lock.
    private struct Wake {
        var reader: (Reader, Result<[UInt8]?, MessageError>)?
        var writer: (Writer, Bool)?
        var onEnd: (@Sendable () -> Void)?

        func perform() {
            if let (reader, result) = reader { reader.resume(returning: result) }
            if let (writer, result) = writer { writer.resume(returning: result) }
            onEnd?()
        }
    }

    private let descriptor: SharedDescriptor
    private let loop: EventLoop
    private let maximumByteCount: Int
    private let state = Mutex(State())

    /// Takes over a connected, non-blocking socket and watches it on `loop`.
    init(
        _ descriptor: consuming OwnedDescriptor, loop: EventLoop, maximumByteCount: Int
    ) throws(TunnelIOError) {
        self.descriptor = SharedDescriptor(descriptor)
        self.loop = loop
        self.maximumByteCount = maximumByteCount
        let registration = try loop.register(self.descriptor.number, for: .readable) { [weak self] _ in self?.advance()
        }
        state.withLock { $0.registration = registration }
    }

    deinit { close() }

    /// The user of the process at the other end; `nil` if it is not known.
    var peerUser: UInt32? {
        guard descriptor.acquire() else { return nil }
        defer { descriptor.release() }
        return UnixSocket.peerUser(descriptor.number)
    }

    /// Calls `body` once when either side has ended the connection; immediately if it has already ended.
    func onEnd(_ body: @escaping @Sendable () -> Void) {
        let hasEnded = state.withLock { state in
            if state.end == nil { state.onEnd = body }
            return state.end != nil
        }
        if hasEnded { body() }
    }

    /// The next frame; `nil` if the connection has ended.
    /// - Throws: `.tooLarge` if the peer announced a frame above the limit. No frame can be read after that.
    func read() async throws(MessageError) -> [UInt8]? {
        let result = await withCheckedContinuation { (continuation: Reader) in
            let wake = state.withLock { state -> Wake in
                guard state.reader == nil else { return Wake(reader: (continuation, .success(nil))) }
                state.reader = continuation
                let wake = deliver(&state)
                update(state)
                return wake
            }
            wake.perform()
        }
        return try result.get()
    }

    /// Sends a frame.
    /// - Returns: Whether the whole frame was sent; if not, await ``drained()``.
    /// - Throws: `.closed` if the connection has ended.
    func send(_ frame: [UInt8]) throws(MessageError) -> Bool {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(frame.count + 4)
        bytes.appendBigEndian(UInt32(clamping: frame.count))
        bytes += frame
        let (isOpen, isSent, wake) = state.withLock { state -> (Bool, Bool, Wake) in
            guard !state.isClosed, !state.isDeaf else { return (false, false, Wake()) }
            state.output += bytes
            let wake = flush(&state)
            update(state)
            return (!state.isDeaf, state.output.isEmpty, wake)
        }
        wake.perform()
        guard isOpen else { throw .closed }
        return isSent
    }

    /// Waits until everything was sent; returns `false` if the connection ended before.
    func drained() async -> Bool {
        await withCheckedContinuation { (continuation: Writer) in
            let result = state.withLock { state -> Bool? in
                guard !state.isClosed, !state.isDeaf, state.writer == nil else { return false }
                guard !state.output.isEmpty else { return true }
                state.writer = continuation
                return nil
            }
            if let result { continuation.resume(returning: result) }
        }
    }

    /// Ends the connection. Unsent bytes are lost. It may be called repeatedly.
    func close() {
        let (registration, wake) = state.withLock { state -> (EventLoop.Registration?, Wake) in
            guard !state.isClosed else { return (nil, Wake()) }
            state.isClosed = true
            state.input = []
            state.output = []
            var wake = end(&state, .closed)
            if let writer = state.writer {
                wake.writer = (writer, false)
                state.writer = nil
            }
            defer { state.registration = nil }
            return (state.registration, wake)
        }
        if let registration { loop.unregister(registration) }
        descriptor.close()
        wake.perform()
    }

    // MARK: - On the loop's thread

    private func advance() {
        let wake = state.withLock { state -> Wake in
            guard !state.isClosed else { return Wake() }
            var wake = flush(&state)
            let fromReading = fill(&state)
            wake.reader = fromReading.reader
            wake.onEnd = wake.onEnd ?? fromReading.onEnd
            update(state)
            return wake
        }
        wake.perform()
    }

    // MARK: - Under the lock

    /// Reads until there is an unread frame, or no more bytes.
    private func fill(_ state: inout State) -> Wake {
        var wake = deliver(&state)
        while state.end == nil, !hasFrame(state.input), (announced(state.input) ?? 0) <= maximumByteCount {
            var chunk = [UInt8](repeating: 0, count: 16_384)
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe SystemCall.read(descriptor.number, into: $0) }
            if count > 0 {
                state.input += chunk[..<count]
                continue
            }
            if count < 0, errno == EAGAIN || errno == EWOULDBLOCK { break }
            wake.onEnd = end(&state, .closed).onEnd ?? wake.onEnd
        }
        let delivered = deliver(&state)
        wake.reader = wake.reader ?? delivered.reader
        wake.onEnd = wake.onEnd ?? delivered.onEnd
        return wake
    }

    /// Passes the next frame to the reader, or the end of the connection after the last complete frame.
    private func deliver(_ state: inout State) -> Wake {
        var wake = Wake()
        if let count = announced(state.input), count > maximumByteCount, state.end == nil {
            wake = end(&state, .tooLarge(count))
        }
        guard let reader = state.reader else { return wake }
        if hasFrame(state.input), let count = announced(state.input) {
            wake.reader = (reader, .success(Array(state.input[4..<4 + count])))
            state.input.removeFirst(4 + count)
            state.reader = nil
        } else if let end = state.end {
            switch end {
            case .closed: wake.reader = (reader, .success(nil))
            case .tooLarge(let count):
                wake.reader = (reader, .failure(.tooLarge(.request, byteCount: count, limit: maximumByteCount)))
            }
            state.reader = nil
        }
        return wake
    }

    private func end(_ state: inout State, _ end: End) -> Wake {
        if state.end == nil { state.end = end }
        var wake = Wake()
        if let reader = state.reader, state.isClosed {
            wake.reader = (reader, .success(nil))
            state.reader = nil
        }
        // A peer that announced too large a frame is still connected and gets the error.
        if case .closed = end {
            wake.onEnd = state.onEnd
            state.onEnd = nil
        }
        return wake
    }

    /// Sends the bytes that fit. The rest waits until the socket is writable.
    private func flush(_ state: inout State) -> Wake {
        while !state.output.isEmpty {
            let count = unsafe state.output.withUnsafeBytes { unsafe UnixSocket.send(descriptor.number, $0) }
            if count > 0 {
                state.output = state.output.dropFirst(count)
                continue
            }
            if count < 0, errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS { return Wake() }
            // The peer will not read the rest. Bytes that it sent earlier can still be read, up to its end.
            state.output = []
            state.isDeaf = true
            guard let writer = state.writer else { return Wake() }
            state.writer = nil
            return Wake(writer: (writer, false))
        }
        state.output = []
        guard let writer = state.writer else { return Wake() }
        state.writer = nil
        return Wake(writer: (writer, true))
    }

    /// Watches the socket for the operations that can make progress.
    private func update(_ state: State) {
        guard let registration = state.registration, !state.isClosed else { return }
        var interest: EventLoop.Interest = []
        if state.end == nil, !hasFrame(state.input) { interest.insert(.readable) }
        if !state.output.isEmpty { interest.insert(.writable) }
        do throws(TunnelIOError) { try loop.modify(registration, interest: interest) } catch {}
    }

    private func announced(_ input: [UInt8]) -> Int? {
        input.count >= 4 ? Int(input.bigEndian(UInt32.self, at: 0)) : nil
    }

    private func hasFrame(_ input: [UInt8]) -> Bool {
        guard let count = announced(input) else { return false }
        return count <= maximumByteCount && input.count >= 4 + count
    }
}
