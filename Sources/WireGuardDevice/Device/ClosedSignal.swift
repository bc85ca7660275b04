// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Tells those who wait, once, that a device has closed and why.
@safe
final class ClosedSignal: @unchecked Sendable {
    // Unchecked: everything below is guarded by the mutex.
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var reason: WireGuardDevice.CloseReason?
    private var handlers: [@Sendable (WireGuardDevice.CloseReason) -> Void] = []

    init() {
        unsafe mutex = .allocate(capacity: 1)
        unsafe condition = .allocate(capacity: 1)
        unsafe mutex.initialize(to: pthread_mutex_t())
        unsafe condition.initialize(to: pthread_cond_t())
        unsafe pthread_mutex_init(mutex, nil)
        unsafe pthread_cond_init(condition, nil)
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe pthread_cond_destroy(condition)
        unsafe mutex.deallocate()
        unsafe condition.deallocate()
    }

    func signal(_ reason: WireGuardDevice.CloseReason) {
        unsafe pthread_mutex_lock(mutex)
        let isFirst = self.reason == nil
        if isFirst { self.reason = reason }
        let handlers = self.handlers
        self.handlers = []
        unsafe pthread_cond_broadcast(condition)
        unsafe pthread_mutex_unlock(mutex)
        guard isFirst else { return }
        for handler in handlers { handler(reason) }
    }

    func wait() -> WireGuardDevice.CloseReason {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        while true {
            if let reason { return reason }
            unsafe pthread_cond_wait(condition, mutex)
        }
    }

    func whenClosed(_ handler: @escaping @Sendable (WireGuardDevice.CloseReason) -> Void) {
        unsafe pthread_mutex_lock(mutex)
        let known = reason
        if known == nil { handlers.append(handler) }
        unsafe pthread_mutex_unlock(mutex)
        if let known { handler(known) }
    }
}
