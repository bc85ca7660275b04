// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization

/// A separate thread for a body that runs until it returns.
package final class LoopThread: Sendable {
    private enum State {
        case running(UInt)
        /// A thread is joining, or has joined, the thread with this handle.
        case joined(UInt)
    }

    private let state: Mutex<State>
    private let ended: Latch

    /// Starts `body` on a new thread. The system may truncate its name.
    package init(name: String, body: @escaping @Sendable () -> Void) throws(TunnelIOError) {
        let start = unsafe Unmanaged.passRetained(ThreadStart(name: name, body: body))
        var handle: UInt = 0
        let code = unsafe ctunnel_thread_start(&handle, threadMain, start.toOpaque())
        guard code == 0 else {
            unsafe start.release()
            throw TunnelIOError(.eventLoop(operation: "starting thread '\(name)'"), errno: code)
        }
        state = Mutex(.running(handle))
        ended = Latch()
    }

    deinit {
        // No thread can join it any longer, so the system frees its stack when it ends.
        if case .running(let handle) = state.withLock({ $0 }) { _ = ctunnel_thread_detach(handle) }
    }

    /// The calling thread's handle.
    package static var current: UInt { ctunnel_thread_self() }

    /// Waits until the body has returned and the thread has ended. You can call it from any thread and more than once; on the
    /// thread itself it returns immediately.
    package func join() {
        let (handle, isFirst) = state.withLock { state -> (UInt, Bool) in
            switch state {
            case .running(let handle):
                if handle != Self.current { state = .joined(handle) }
                return (handle, true)
            case .joined(let handle): return (handle, false)
            }
        }
        guard handle != Self.current else { return }
        guard isFirst else { return ended.wait() }
        _ = ctunnel_thread_join(handle)
        ended.open()
    }
}

extension LoopThread {
    /// Runs a body that waits for threads on a separate thread, since a task must not block.
    package static func run(name: String, _ body: @escaping @Sendable () -> Void) async {
        await withCheckedContinuation { continuation in
            do throws(TunnelIOError) {
                _ = try LoopThread(name: name) {
                    body()
                    continuation.resume()
                }
            } catch {
                body()
                continuation.resume()
            }
        }
    }
}

private final class ThreadStart {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = name
        self.body = body
    }
}

private let threadMain: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
    guard let context = unsafe context else { return nil }
    let start = unsafe Unmanaged<ThreadStart>.fromOpaque(context).takeRetainedValue()
    // Linux refuses names of more than 15 bytes rather than cutting them.
    _ = unsafe String(decoding: start.name.utf8.prefix(15), as: UTF8.self).withCString {
        unsafe ctunnel_thread_set_name($0)
    }
    start.body()
    return nil
}
