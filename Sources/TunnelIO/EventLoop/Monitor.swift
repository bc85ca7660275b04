// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem

/// A value that several threads change. A thread can wait until the value meets a condition.
///
/// It contains the only condition variable of this package; ``Latch`` and other types that block a thread use it.
@safe
package final class Monitor<Value>: @unchecked Sendable {
    // Unchecked: `value` is touched under the mutex only.
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var value: Value

    package init(_ value: Value) {
        self.value = value
        unsafe mutex = .allocate(capacity: 1)
        unsafe condition = .allocate(capacity: 1)
        unsafe mutex.initialize(to: pthread_mutex_t())
        unsafe condition.initialize(to: pthread_cond_t())
        unsafe pthread_mutex_init(mutex, nil)
        unsafe initializeForTimedWait(condition)
    }

    deinit {
        unsafe pthread_cond_destroy(condition)
        unsafe pthread_mutex_destroy(mutex)
        unsafe condition.deallocate()
        unsafe mutex.deallocate()
    }

    /// Changes or reads the value, and wakes all waiters if `body` returns true.
    package func update(_ body: (inout Value) -> Bool) {
        unsafe pthread_mutex_lock(mutex)
        let wakes = body(&value)
        unsafe pthread_mutex_unlock(mutex)
        if wakes { unsafe _ = pthread_cond_broadcast(condition) }
    }

    /// Changes or reads the value, and wakes one waiter if `body` returns true.
    package func updateForOne(_ body: (inout Value) -> Bool) {
        unsafe pthread_mutex_lock(mutex)
        let wakes = body(&value)
        unsafe pthread_mutex_unlock(mutex)
        if wakes { unsafe _ = pthread_cond_signal(condition) }
    }

    /// Changes or reads the value without waking a waiter.
    package func withValue<R>(_ body: (inout Value) -> R) -> R {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe _ = pthread_mutex_unlock(mutex) }
        return body(&value)
    }

    /// Waits until `body` returns a result.
    package func wait<R>(for body: (inout Value) -> R?) -> R {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe _ = pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&value) { return result }
            unsafe pthread_cond_wait(condition, mutex)
        }
    }

    /// Waits until `body` returns a result, or until `deadline` on ``LaneClock`` has passed.
    package func wait<R>(until deadline: Int64, for body: (inout Value) -> R?) -> R? {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe _ = pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&value) { return result }
            let rest = deadline - LaneClock.now()
            guard rest > 0 else { return nil }
            unsafe timedWait(condition, mutex, nanoseconds: rest)
        }
    }
}
