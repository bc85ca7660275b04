// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Something that is opened once and that threads can wait for.
@safe
package final class Latch: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var isOpen = false

    package init() {
        unsafe mutex = .allocate(capacity: 1)
        unsafe condition = .allocate(capacity: 1)
        unsafe mutex.initialize(to: pthread_mutex_t())
        unsafe condition.initialize(to: pthread_cond_t())
        _ = unsafe pthread_mutex_init(mutex, nil)
        _ = unsafe pthread_cond_init(condition, nil)
    }

    deinit {
        _ = unsafe pthread_cond_destroy(condition)
        _ = unsafe pthread_mutex_destroy(mutex)
        unsafe condition.deallocate()
        unsafe mutex.deallocate()
    }

    /// Lets everyone through, now and later.
    package func open() {
        _ = unsafe pthread_mutex_lock(mutex)
        isOpen = true
        _ = unsafe pthread_cond_broadcast(condition)
        _ = unsafe pthread_mutex_unlock(mutex)
    }

    /// Blocks the calling thread until the latch is open.
    package func wait() {
        _ = unsafe pthread_mutex_lock(mutex)
        while !isOpen {
            _ = unsafe pthread_cond_wait(condition, mutex)
        }
        _ = unsafe pthread_mutex_unlock(mutex)
    }

    /// Blocks the calling thread until the latch is open or the time is over.
    /// - Returns: whether it is open.
    package func wait(milliseconds: Int) -> Bool {
        var until = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &until)
        let nanoseconds = Int(until.tv_nsec) + (milliseconds % 1000) * 1_000_000
        until.tv_sec += milliseconds / 1000 + nanoseconds / 1_000_000_000
        until.tv_nsec = nanoseconds % 1_000_000_000
        _ = unsafe pthread_mutex_lock(mutex)
        defer { _ = unsafe pthread_mutex_unlock(mutex) }
        while !isOpen {
            if unsafe pthread_cond_timedwait(condition, mutex, &until) == ETIMEDOUT { return isOpen }
        }
        return true
    }
}
