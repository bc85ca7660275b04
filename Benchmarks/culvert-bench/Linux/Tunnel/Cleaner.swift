// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Dispatch
import Foundation

/// Removes everything once: at the end, on a signal, or when the time limit has passed.
final class Cleaner: @unchecked Sendable {
    // Unchecked: the lock guards the state that two threads may use.
    private let lock = NSLock()
    private var undo: [() -> Void] = []
    private var sources: [any DispatchSourceSignal] = []
    private let began = nanoseconds()

    /// - Parameter bound: The time limit of the whole run, in seconds.
    init(bound: Int) {
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [self] in
                clean()
                exit(128 + number)
            }
            source.resume()
            sources.append(source)
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(bound)) { [self] in
            Program.complain("not done after \(bound) s: giving up")
            clean()
            exit(1)
        }
    }

    /// Registers clean-up work; the last registered runs first.
    func atEnd(_ body: @escaping () -> Void) {
        lock.lock()
        undo.append(body)
        lock.unlock()
    }

    func clean() {
        lock.lock()
        defer { lock.unlock() }
        for body in undo.reversed() { body() }
        undo = []
    }
}
