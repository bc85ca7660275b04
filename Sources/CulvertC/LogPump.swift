// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import CCulvert
import Synchronization
import TunnelIO

/// Calls the caller's log function on a separate thread: devices log with their locks held.
final class LogPump: Sendable {
    /// The most messages that wait.
    private static let capacity = 256

    private struct Queue {
        var waiting = 0
        var lost = 0
    }

    private let loop: EventLoop
    private let sink: LogSink
    private let level: culvert_log_level
    private let queue = Mutex(Queue())

    init(_ sink: LogSink, level: culvert_log_level) throws(TunnelIOError) {
        self.sink = sink
        self.level = level
        loop = try EventLoop()
        try loop.startThread(name: "culvert-log")
    }

    /// Whether the calling thread is the one that the log function runs on.
    var isOnThread: Bool { loop.isOnLoopThread }

    func log(_ level: culvert_log_level, _ message: String) {
        guard level <= self.level else { return }
        let lost = queue.withLock { queue -> Int? in
            guard queue.waiting < Self.capacity else {
                queue.lost += 1
                return nil
            }
            queue.waiting += 1
            defer { queue.lost = 0 }
            return queue.lost
        }
        guard let lost else { return }
        loop.perform { [sink, self] in
            if lost > 0 { sink.call(culvert_log_level(CULVERT_LOG_ERROR), "\(lost) messages were dropped here") }
            sink.call(level, message)
            queue.withLock { $0.waiting -= 1 }
        }
    }

    /// Delivers the waiting messages, and ends the thread. Must not be called on that thread.
    func close() {
        loop.perform { [loop] in loop.stop() }
        do throws(TunnelIOError) { try loop.join() } catch {}
    }
}

/// The caller's log function and its context.
@safe
struct LogSink: @unchecked Sendable {
    private let function: culvert_log_function
    private let context: UnsafeMutableRawPointer?

    @unsafe
    init(_ function: @escaping culvert_log_function, _ context: UnsafeMutableRawPointer?) {
        unsafe self.function = function
        unsafe self.context = context
    }

    func call(_ level: culvert_log_level, _ message: String) {
        unsafe message.withCString { unsafe function(level, $0, context) }
    }
}
