// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelIO

/// Work on a separate thread with a result that can be fetched later.
final class BackgroundWork<Value: Sendable>: Sendable {
    /// The time of its start.
    let start = LaneClock.now()
    private let outcome = Monitor<Result<Value, LinuxNetworkError>?>(nil)

    /// Starts the work.
    /// - Parameters:
    ///   - isHere: Whether to do the work on the calling thread, before this returns.
    ///   - whenDone: Called on the work's thread after the result was stored.
    init(
        name: String, isHere: Bool = false, whenDone: @escaping @Sendable () -> Void = {},
        _ body: @escaping @Sendable () throws(LinuxNetworkError) -> Value
    ) {
        let outcome = outcome
        let work: @Sendable () -> Void = {
            let result = Result { () throws(LinuxNetworkError) in try body() }
            outcome.update { outcome in
                outcome = result
                return true
            }
            whenDone()
        }
        guard !isHere else {
            work()
            return
        }
        do throws(TunnelIOError) {
            _ = try LoopThread(name: name, body: work)
        } catch {
            let failure = LinuxNetworkError(.netlink(operation: LinuxNetworkError.threadStart), errno: error.errno)
            outcome.update { outcome in
                outcome = .failure(failure)
                return true
            }
        }
    }

    /// The result; `nil` while it runs.
    var result: Result<Value, LinuxNetworkError>? { outcome.withValue { $0 } }

    /// Waits for the result until `deadline` on `LaneClock`.
    func result(until deadline: Int64) -> Result<Value, LinuxNetworkError>? { outcome.wait(until: deadline) { $0 } }

    /// Waits until the work is done.
    /// - Parameter meanwhile: Called on the calling thread every 5 milliseconds until then.
    func wait(meanwhile: (() -> Void)? = nil) -> Result<Value, LinuxNetworkError> {
        while true {
            let deadline = meanwhile == nil ? Int64.max : LaneClock.now() + Self.turn
            if let ended = result(until: deadline) { return ended }
            meanwhile?()
        }
    }

    /// The time between two calls of `meanwhile`, in nanoseconds.
    private static var turn: Int64 { 5_000_000 }
}
